"""What an engine declares about itself, and how engines are found.

An engine is a package registered under the entry point group `rlark.engines`; the entry point
names its `Engine`. The declaration imports nothing heavy, so that checks stay fast.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Literal

GROUP = "rlark.engines"
_OF_A_DRIVE = ("action", "goal", "heading")
_OF_A_BODY = (*_OF_A_DRIVE, "attitude", "contact", "body_rate")
OWN: Mapping[str, tuple[str, ...]] = {
    "starter-ppo": _OF_A_DRIVE,
    "mjx-ppo": _OF_A_BODY,
    "microduck-rl": _OF_A_BODY,
    "microduck-football": (),
    "microduck-eval": (),
    "isaac-lab": (),
    "smolvla": (),
    "mjlab-rsl-rl": _OF_A_DRIVE,
}
"""The engines of this project, installed here or not, and what their environments measure for a `rewardFormula`."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Requirement:
    """Something an engine cannot do without.

    Attributes:
        kind: what is looked for: an importable package or a program on PATH.
        name: the import name or the program's name.
        install: the command that meets it.
    """

    kind: Literal["package", "program"]
    name: str
    install: str

    def met(self) -> bool:
        """Look, without importing the package."""
        if self.kind == "program":
            return shutil.which(self.name) is not None
        try:
            return importlib.util.find_spec(self.name) is not None
        except (ImportError, ValueError):
            return False


@dataclass(frozen=True)
class Engine:
    """An engine's declaration.

    Attributes:
        id: its name in `runner.engine`, for example `starter-ppo`.
        title: one line for people.
        module: what `python -m` starts, for example `engines.starter_ppo`.
        program: `module:attribute` of its `rlark.runtime.component.Program`; heavy, loaded by the run only.
        config: `module:attribute` of its pydantic configuration model; light, loaded by checks.
        components: the components that must be placed, lower case.
        requirements: what it needs on the node.
        tasks: the task kinds it accepts, as in a task pack's `kind`.
        max_ranks: component -> the most ranks it can use; a component not named has no limit.
        fused_only: values of `algorithm.type` that learn only where all components run in one process.
        quantities: what its environments measure, as the terms of a `rewardFormula` need it.
        can_fuse: True when all components may run in one process.
        places_itself: True when its program launches its own groups where components are placed apart
            (`rlark.runtime.trainer.PlacesItself`).
        uses_gpu: True when a GPU can make it faster.
    """

    id: str
    title: str
    module: str
    program: str
    config: str
    components: tuple[str, ...] = ("actor", "rollout", "env")
    requirements: tuple[Requirement, ...] = ()
    tasks: tuple[str, ...] = ()
    max_ranks: Mapping[str, int] = field(default_factory=dict)
    fused_only: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    can_fuse: bool = True
    places_itself: bool = False
    uses_gpu: bool = True

    def unmet(self) -> list[Requirement]:
        """What is missing here."""
        return [requirement for requirement in self.requirements if not requirement.met()]


def find_engines() -> dict[str, Engine]:
    """Every engine installed here, by id, in the order of their ids; one that cannot be loaded is left out."""
    found = {}
    for point in entry_points(group=GROUP):
        try:
            engine = point.load()
        except Exception as error:  # noqa: BLE001  a broken engine must not take the others with it
            log.warning("the engine %s (%s) cannot be loaded: %s", point.name, point.value, error)
            continue
        if isinstance(engine, Engine):
            found[engine.id] = engine
    return dict(sorted(found.items()))


def load_attribute(reference: str) -> object:
    """What a `module:attribute` names.

    Raises:
        ImportError: no such module, or it has no such attribute.
    """
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    try:
        return getattr(loaded, attribute)
    except AttributeError:
        raise ImportError(f"{module} has no {attribute}") from None
