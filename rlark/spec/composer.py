"""Hydra, used in one place: defaults lists, overrides and interpolation of a configuration.

Files are read by `rlark.spec.yaml` instead of OmegaConf's own loader, so that the surprises of
YAML 1.1 do not happen here either. Hydra is imported on first use: a configuration that needs
nothing of it never pays for it.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import Positions, parse

_LOCK = threading.Lock()  # Hydra keeps its state in singletons
_MANDATORY = "???"
_NOISE = re.compile(
    r"(?:full_key:|reference_type=|object_type=|Config search path:|To append to your |See https:|expecting \{).*"
)
"""What Hydra and OmegaConf add for programmers."""

Marks = dict[tuple[str, str], Unquoted]
"""Key and text of every scalar that RLinf's own loader reads otherwise."""


class Broken(Exception):
    """A configuration cannot be composed.

    Attributes:
        findings: why; those about the text of a file carry that file's name, line and column.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        """Keep the findings."""
        super().__init__(findings[0].message)
        self.findings = list(findings)


@dataclass
class Reading:
    """What was read for one composition.

    Attributes:
        positions: every file that was opened, and where things stand in it.
        marks: scalars that RLinf's own loader reads otherwise.
    """

    positions: dict[Path, Positions] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)

    def read(self, file: Path) -> dict[str, Any]:
        """A file's mapping in plain values; an empty file is an empty mapping.

        Raises:
            Broken: it is not YAML.
        """
        self.positions[file] = Positions()
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
            raise Broken([Finding(code="RL451", message=message)]) from None
        document = parse(text)
        self.positions[file] = document.positions
        if any(finding.code == "RL002" for finding in document.findings):
            return {}
        if document.findings:
            raise Broken(
                [
                    finding.model_copy(update={"file": str(file), "hint": _hint(finding)})
                    for finding in document.findings
                ]
            )
        plain = self.unmark(document.data)
        return plain if isinstance(plain, dict) else {}

    def unmark(self, value: Any, key: str = "") -> Any:
        """Plain texts instead of marked ones, which OmegaConf does not take; the marks are kept."""
        if isinstance(value, Unquoted):
            self.marks[key, str(value)] = value
            return str(value)
        if isinstance(value, dict):
            return {name: self.unmark(entry, name) for name, entry in value.items()}
        return [self.unmark(item, key) for item in value] if isinstance(value, list) else value

    def mark(self, value: Any, key: str = "") -> Any:
        """The marks put back after the composition."""
        if isinstance(value, str):
            return self.marks.get((key, value), value)
        if isinstance(value, dict):
            return {name: self.mark(entry, name) for name, entry in value.items()}
        return [self.mark(item, key) for item in value] if isinstance(value, list) else value


def _hint(finding: Finding) -> str | None:
    return (
        "write sections: cluster, runner, algorithm, env, rollout, actor" if finding.code == "RL003" else finding.hint
    )


def self_contained(data: Mapping[str, Any]) -> bool:
    """True when composing gives the mapping itself: no defaults, no interpolation, nothing left open."""
    return not {"defaults", "hydra"} & set(data) and not _needs_resolving(data)


def _needs_resolving(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value or value == _MANDATORY
    if isinstance(value, Mapping):
        return any(map(_needs_resolving, value.values()))
    return isinstance(value, list) and any(map(_needs_resolving, value))


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
        return _resolved(config, lenient=lenient)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, AssertionError) as error:
        raise Broken([_told(error, overrides)]) from None


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
            wrong.append(_bad_override(index, override, _text_of(error), "write section.key=value"))
    if wrong:
        raise Broken(wrong)


def _bad_override(index: int, override: str, text: str, hint: str | None) -> Finding:
    message = f"the override {override!r} cannot be applied: {text}"
    return Finding(code="RL452", path=f"overrides[{index}]", message=message, hint=hint)


def _cure(override: str, error: BaseException | None) -> str | None:
    """How to write an override that names a key the configuration does not have; None where that is not the fault."""
    while error is not None and getattr(error, "parent_node", None) is None:
        error = error.__cause__
    if error is None:
        return None
    place = override.partition("=")[0]
    if str(getattr(error, "full_key", "")).startswith(f"{place}."):
        return f"Hydra merges mappings; to replace this one write two overrides, ~{place} and +{override}"
    near = did_you_mean(str(getattr(error, "key", "")), map(str, getattr(error, "parent_node", ())))
    return f"did you mean {near}?" if near else f"a new key needs a + in front: +{override}"


def _resolved(config: Any, *, lenient: bool) -> dict[str, Any]:
    """Plain values, interpolations resolved section by section."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    found: dict[str, Any] = {}
    wrong: list[Finding] = []
    for key in config:
        try:
            value = config[key]
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True, throw_on_missing=not lenient)
            found[key] = value
        except OmegaConfBaseException as error:
            if lenient and key != "cluster":
                unresolved: Any = OmegaConf.to_container(config, resolve=False)
                found[key] = unresolved[key]
            elif (finding := _told(error, ())) not in wrong:
                wrong.append(finding)
    if wrong:
        raise Broken(wrong)
    return found


@contextmanager
def _own_reader(reading: Reading) -> Iterator[None]:
    """Let Hydra's `file://` sources read through `rlark.spec.yaml` while a composition lasts."""
    from hydra._internal.core_plugins.file_config_source import FileConfigSource as HydrasOwn
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigLoadError, ConfigResult
    from omegaconf import OmegaConf

    class FileConfigSource(HydrasOwn):  # type: ignore[misc]
        def load_config(self, config_path: str) -> Any:
            file = Path(self.path, self._normalize_file_name(config_path)).resolve()
            if not file.exists():
                raise ConfigLoadError(f"Config not found : {file}")
            config = OmegaConf.create(reading.read(file))
            header = self._get_header_dict(file.read_text(encoding="utf-8")[:512])
            path = f"{self.scheme()}://{self.path}"
            return ConfigResult(config=config, path=path, provider=self.provider, header=header)

    Plugins.instance()  # registers Hydra's own sources first
    types = SourcesRegistry.instance().types
    before = types["file"]
    types["file"] = FileConfigSource
    try:
        yield
    finally:
        types["file"] = before


def _told(error: BaseException, overrides: Sequence[str]) -> Finding:
    """Hydra's and OmegaConf's errors in our words."""
    text, key = _text_of(error), str(getattr(error, "full_key", None) or "")
    if "Environment variable" in text:
        name = text.split("'")[1] if "'" in text else "?"
        message = f"{key or 'the configuration'} reads the environment variable {name}, which is not set here"
        return Finding(code="RL453", message=message, actual=name, hint=f"export {name}=... first, or write the value")
    kind = type(error).__name__
    if kind == "MissingMandatoryValue":
        message = f"{key or text} is '???', which says that somebody must give a value"
        return Finding(code="RL455", message=message, hint=f"add {key}=... to overrides")
    if "Interpolation" in kind or kind == "GrammarParseError":
        return Finding(code="RL454", message=f"{key or 'the configuration'} cannot be resolved: {text}")
    index = next((i for i, override in enumerate(overrides) if _concerns(override, text)), None)
    if index is not None:
        return _bad_override(index, overrides[index], text, _cure(overrides[index], error))
    return Finding(code="RL456", message=f"the configuration cannot be composed: {text}")


def _text_of(error: BaseException) -> str:
    """An error and what caused it, on one line."""
    parts: list[str] = []
    here: BaseException | None = error
    while here is not None:
        text = _NOISE.sub("", " ".join(str(here).split())).strip()
        if text and text != "None" and text not in " ".join(parts):
            parts.append(text)
        here = here.__cause__
    return ": ".join(part.rstrip(".") for part in parts) or type(error).__name__


def _concerns(override: str, text: str) -> bool:
    key = override.partition("=")[0].lstrip("+~")
    return override in text or f"'{key}'" in text or f" {key} " in f"{text} "
