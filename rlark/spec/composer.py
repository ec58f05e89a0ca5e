"""Hydra, used in one place: defaults lists, overrides and interpolation of a configuration.

Files are read by `rlark.spec.config_files` instead of OmegaConf's own loader, so that the surprises of
YAML 1.1 do not happen here either. Hydra is imported on first use: a configuration that needs
nothing of it never pays for it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlark.spec.config_files import Broken, Reading
from rlark.spec.finding import Finding
from rlark.spec.hydra_error import bad_override, in_a_circle, text_of, told
from rlark.spec.interpolation import needs_resolving, resolve, rlinf_resolvers

__all__ = ["Broken", "Reading", "compose_file", "self_contained"]

_LOCK = threading.Lock()  # Hydra keeps its state in singletons


def self_contained(data: Mapping[str, Any]) -> bool:
    """True when composing gives the mapping itself: no defaults, no interpolation, nothing left open."""
    return not {"defaults", "hydra"} & set(data) and not needs_resolving(data)


def compose_file(file: Path, overrides: Sequence[str], reading: Reading, *, lenient: bool) -> dict[str, Any]:
    """Compose a file with its defaults and overrides.

    Args:
        file: an existing `.yaml` file; its folder is where defaults are looked for.
        overrides: in Hydra's grammar, applied in order.
        reading: is told what was read.
        lenient: True when a section other than `cluster` may stay unresolved (a run script's
            configuration, which is only checked).

    Raises:
        Broken: it cannot be composed.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _composed(file, overrides, reading, lenient=lenient)


def _composed(file: Path, overrides: Sequence[str], reading: Reading, *, lenient: bool) -> dict[str, Any]:
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    _check_grammar(overrides)
    try:
        with _own_reader(reading), initialize_config_dir(str(file.parent), version_base="1.1", job_name="rlark"):
            config = compose(file.name, overrides=list(overrides))
        with rlinf_resolvers():
            return _resolved(config, reading, lenient=lenient)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, AssertionError) as error:
        raise Broken([told(error, overrides, reading)]) from None
    except RecursionError:
        raise Broken([in_a_circle(reading)]) from None


def _check_grammar(overrides: Sequence[str]) -> None:
    """All overrides that are none, at once."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    wrong: list[Finding] = []
    parser = OverridesParser.create()
    for index, override in enumerate(overrides):
        try:
            parser.parse_override(override)
        except HydraException as error:
            wrong.append(bad_override(index, override, text_of(error), "write section.key=value"))
    if wrong:
        raise Broken(wrong)


def _resolved(config: Any, reading: Reading, *, lenient: bool) -> dict[str, Any]:
    """Plain values, interpolations resolved."""
    found, errors = resolve(config, lenient=lenient)
    if errors:
        raise Broken(list(dict.fromkeys(told(error, (), reading) for error in errors)))
    return found


@contextmanager
def _own_reader(reading: Reading) -> Iterator[None]:
    """Let Hydra's `file://` sources read through ours while a composition lasts."""
    from hydra._internal.core_plugins.file_config_source import FileConfigSource as HydrasOwn
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigLoadError, ConfigResult
    from omegaconf import OmegaConf

    class FileConfigSource(HydrasOwn):  # type: ignore[misc]
        def load_config(self, config_path: str) -> Any:
            file = self._file(config_path)
            if not reading.has(file):
                raise ConfigLoadError(f"Config not found : {file}")
            config = OmegaConf.create(reading.read(file))
            header = self._get_header_dict(reading.head(file, 512))
            path = f"{self.scheme()}://{self.path}"
            return ConfigResult(config=config, path=path, provider=self.provider, header=header)

        def is_config(self, config_path: str) -> bool:
            return reading.has(self._file(config_path))

        def _file(self, config_path: str) -> Path:
            return Path(self.path, self._normalize_file_name(config_path)).resolve()

    Plugins.instance()  # registers Hydra's own sources first
    types = SourcesRegistry.instance().types
    before = types["file"]
    types["file"] = FileConfigSource
    try:
        yield
    finally:
        types["file"] = before
