"""Where a configuration says that its models are, and where these paths lie on the node."""

from __future__ import annotations

from collections.abc import Mapping

from rlark.plan.isolation import planned
from rlark.plan.mounts import real_path
from rlark.spec.job import Worker

_UNFILLED = "/path/to"
_SECTIONS = ("actor", "rollout", "reward")


def model_paths(config: Mapping[str, object]) -> dict[str, str]:
    """The paths of a configuration's models that are written, by dotted name; each path once."""
    found: dict[str, str] = {}
    for section in _SECTIONS:
        part = config.get(section)
        model = part.get("model") if isinstance(part, Mapping) else None
        path = model.get("model_path") if isinstance(model, Mapping) else None
        if isinstance(path, str) and path and path not in found.values():
            found[f"{section}.model.model_path"] = path
    return found


def is_unfilled(path: str) -> bool:
    """True for what stands for a path that somebody has yet to write: `/path/to/model`, `MODEL_PATH`."""
    return path.startswith(_UNFILLED) or path.isupper()


def real_models(worker: Worker, volumes: str) -> dict[str, str]:
    """Paths of a run script's models as the run sees them, and where they lie on the node.

    Args:
        worker: with its configuration inline; without a run script an engine finds its own.
        volumes: where named folders are kept, absolute.
    """
    config = worker.ray.config
    if config is None or not worker.run:
        return {}
    mounts = [planned(mount) for mount in worker.ray.mounts]
    written = [path for path in model_paths(config.inline or {}).values() if path.startswith("/")]
    return {path: real_path(path, mounts, volumes=volumes, scratch="") for path in written if not is_unfilled(path)}
