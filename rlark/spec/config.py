"""The configuration of a Job, composed: what is checked here is what is stored and run.

A configuration that needs nothing of Hydra (no defaults, overrides or interpolation) is taken as
it stands; everything else goes through `rlark.spec.composer`. A file is composed once for all
Jobs that name it, until it changes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlark.spec.composer import compose_file, self_contained
from rlark.spec.config_files import Broken, Reading
from rlark.spec.defaults import Included, included
from rlark.spec.emit import emit
from rlark.spec.finding import Finding, errors_of
from rlark.spec.invalid import AT_KEY, ENGINE
from rlark.spec.job import ConfigSource, Origin
from rlark.spec.nearest import did_you_mean
from rlark.spec.override import NotPlain, apply_plain
from rlark.spec.pack_file import inline_packs
from rlark.spec.path import child, join, steps, within
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import Positions

CONFIG = "spec.tasks[0].ray.config"
"""Where a Job's configuration stands in it."""

_OWN_KEYS = ("path", "dir", "name", "overrides", "origin")
"""Keys of `config` itself; the others are the configuration's."""
_INLINE_FILE = "rlark-inline.yaml"
"""As what an inline configuration is composed; it is never written."""
_OF_COMPOSITION = ("RL453", "RL454", "RL456", "RL460")
"""Findings about what a file asks of others, shown in it."""
_MOST_KEPT = 64
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Composed:
    """A composed configuration.

    Attributes:
        effective: plain values, with `Unquoted` texts; None where it cannot be composed. Not to be changed:
            Jobs that name the same file share it.
        origin: where it was composed from; None when it was written inline.
        base: absolute folder that relative paths in it start from; empty when unknown.
        path: the place in the Job that its keys hang on.
        findings: everything that was found, in a file of its own or at a place in the Job.
        file: the primary file; empty when inline.
        positions: where things stand in the primary file.
        overrides: those that were applied.
        included: the files that its defaults list names, those that win first.
    """

    effective: dict[str, Any] | None = None
    origin: Origin | None = None
    base: str = ""
    path: str = CONFIG
    findings: tuple[Finding, ...] = ()
    file: str = ""
    positions: Positions = field(default_factory=Positions)
    overrides: tuple[str, ...] = ()
    included: tuple[Included, ...] = ()

    def place(self, finding: Finding) -> Finding:
        """The finding at the line of the configuration's file that it is about.

        That is the primary file, or the one of its defaults list where the value stands. What an
        override changed, and what stands in neither, is left for the Job's own text: there it is
        shown at `config`.
        """
        if finding.file or not self.file or not within(finding.path, self.path):
            return finding
        rest = steps(finding.path[len(self.path) :].lstrip("."))
        if not rest or (self.path and rest[0] in _OWN_KEYS):
            return finding
        for index, override in enumerate(self.overrides):
            key = steps(override.partition("=")[0].lstrip("+~"))
            if key and rest[: len(key)] == key:
                line_of = f"{CONFIG}.overrides[{index}]"
                return finding.model_copy(
                    update={"path": line_of, "message": f"{'.'.join(map(str, rest))}: {finding.message}"}
                )
        at_key = finding.code in AT_KEY
        if not self.positions.has(join("", rest)):
            for part in self.included:
                if (place := part.place(rest, key=at_key)) is not None:
                    return finding.model_copy(update={"file": str(part.file), "line": place[0], "column": place[1]})
        if self.path and not self.positions.has(join("", rest[:1])) and finding.code != ENGINE.missing:
            return finding
        line, column = self.positions.show(join("", rest), key=at_key)
        return finding.model_copy(update={"file": self.file, "line": line, "column": column})


_Stamp = tuple[tuple[str, int, int], ...]
_kept: dict[tuple[str, tuple[str, ...], bool], tuple[_Stamp, int, Composed]] = {}


def compose(source: ConfigSource, folder: Path | None, *, engine: bool = True) -> Composed:
    """Compose a configuration.

    Args:
        source: how the Job gives it.
        folder: what relative paths start from; None for a Job that came over HTTP.
        engine: True when an engine of ours runs it: task packs are put inline and every value must be
            known. False for a run script's configuration, of which only placement is checked.
    """
    if source.inline is not None:
        return _compose_inline(source, source.inline, folder, engine=engine)
    file, wrong = _locate(source, folder)
    if file is None:
        return Composed(findings=tuple(wrong))
    key = (str(file), tuple(source.overrides), engine)
    kept = _kept.get(key)
    environment = hash(frozenset(os.environ.items()))
    if kept is not None and kept[1] == environment and _stamp(name for name, _, _ in kept[0]) == kept[0]:
        return kept[2]
    reading = Reading()
    composed = _compose_file(file, source.overrides, reading, CONFIG, engine=engine)
    files = [str(opened) for opened in reading.documents]
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    if not errors_of(composed.findings):  # an error may be cured by a file that was not there to be looked at
        _kept[key] = (_stamp(files), environment, composed)
    return composed


def _stamp(files: Iterator[str] | list[str]) -> _Stamp:
    """Name, time and size of files, to see whether one changed; a missing file has neither."""
    found = []
    for name in files:
        try:
            status = Path(name).stat()
            found.append((name, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((name, 0, -1))
    return tuple(found)


def _locate(source: ConfigSource, folder: Path | None) -> tuple[Path | None, list[Finding]]:
    """The primary file, absolute."""
    if source.path is not None:
        key, written = "path", source.path
    else:
        key, written = "dir", str(Path(source.dir or "", (source.name or "").removesuffix(".yaml") + ".yaml"))
    path = f"{CONFIG}.{key}"
    if folder is None and not Path(written).is_absolute():
        message = f"{written!r} is relative, and a Job that comes over HTTP has no folder to start from"
        hint = "give an absolute path, or submit with rlark submit, which puts the configuration inline"
        return None, [Finding(code="RL457", path=path, message=message, hint=hint)]
    file = Path(os.path.normpath((Path(folder or "/") / written).absolute()))
    if file.is_file() and file.suffix == ".yaml":
        return file, []
    if file.is_file():
        message = f"{file} is no .yaml file, and Hydra reads no other"
        return None, [Finding(code="RL450", path=path, message=message, hint="rename it to end in .yaml")]
    near = did_you_mean(file.name, [entry.name for entry in file.parent.glob("*.yaml")])
    where = f"there is no file {file}" if file.parent.is_dir() else f"there is no folder {file.parent}"
    hint = f"did you mean {near}?" if near else "paths are relative to the Job file's own folder"
    return None, [Finding(code="RL450", path=path, message=where, hint=hint)]


def compose_text(text: str, file: Path) -> Composed:
    """Compose a configuration that stands alone, in no Job; places in it are those of the file.

    Args:
        text: what stands in the file.
        file: its absolute path, there or not (standard input has none): defaults are looked for beside it.
    """
    primary = Path(os.path.realpath(file)).with_suffix(".yaml")
    composed = _compose_file(primary, [], Reading(texts={primary: text}), "", engine=False)
    return replace(composed, origin=None)


def _compose_file(file: Path, overrides: list[str], reading: Reading, path: str, *, engine: bool) -> Composed:
    """Compose a file; `path` is the place its keys hang on."""
    origin = Origin(path=str(file), overrides=list(overrides))
    made = Composed(origin=origin, base=str(file.parent), path=path, file=str(file), overrides=tuple(overrides))
    try:
        data = _without_hydra(reading.read(file), overrides)
        if data is None:
            data = compose_file(file, overrides, reading, lenient=not engine)
        effective, found = _finished(reading.mark(data), file.parent, reading, path, engine=engine)
        made = replace(made, effective=effective, findings=tuple(found))
    except Broken as broken:
        made = replace(made, findings=tuple(_in_job(broken.findings, path)))
    return replace(made, positions=reading.positions(file), included=included(file, reading))


def _compose_inline(source: ConfigSource, data: dict[str, Any], folder: Path | None, *, engine: bool) -> Composed:
    reading = Reading()
    path = f"{CONFIG}.inline"
    base = _base_of(source, folder)
    made = Composed(origin=source.origin, base=str(base or ""), path=path)
    try:
        composed = _without_hydra(data, source.overrides)
        if composed is None:
            plain = _through_a_file(reading.unmark(data), source.overrides, reading, base, lenient=not engine)
            composed = reading.mark(plain)
        effective, found = _finished(composed, base, reading, path, engine=engine)
        return replace(made, effective=effective, findings=tuple(found))
    except Broken as broken:
        return replace(made, findings=tuple(_in_job(broken.findings, path)))


def _without_hydra(data: dict[str, Any], overrides: list[str]) -> dict[str, Any] | None:
    """The configuration itself with plain overrides applied; None where it needs Hydra."""
    if not self_contained(data):
        return None
    try:
        return apply_plain(data, overrides)
    except NotPlain:
        return None


def _base_of(source: ConfigSource, folder: Path | None) -> Path | None:
    if source.origin is not None and Path(source.origin.path).is_absolute():
        return Path(source.origin.path).parent
    return folder


def _through_a_file(
    data: dict[str, Any], overrides: list[str], reading: Reading, base: Path | None, *, lenient: bool
) -> dict[str, Any]:
    """Compose an inline configuration as a file of its base folder; without one there is nothing beside it."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rlark-config-") as empty:
        file = Path(base if base is not None and base.is_dir() else empty, _INLINE_FILE).resolve()
        reading.texts[file] = emit(data)
        try:
            return compose_file(file, overrides, reading, lenient=lenient)
        except Broken as broken:
            raise Broken([_of_inline(finding, file, Path(empty).resolve()) for finding in broken.findings]) from None


def _of_inline(finding: Finding, file: Path, empty: Path) -> Finding:
    """A finding without the name and lines of a file that is none, and of a folder that is gone."""
    message = finding.message.replace(str(empty), "none, for the configuration stands inline").replace(
        _INLINE_FILE, "inline"
    )
    place = {"file": "", "line": 0, "column": 0} if finding.file == str(file) else {}
    return finding.model_copy(update={"message": message, **place})


def _in_job(findings: list[Finding], path: str) -> list[Finding]:
    """Findings of the composer at their place below `path`; those about a file's YAML keep the file's."""
    return [
        finding
        if finding.file and finding.code not in _OF_COMPOSITION
        else finding.model_copy(update={"path": _below(path, finding.path)})
        for finding in findings
    ]


def _below(path: str, place: str) -> str:
    if place.startswith("overrides["):
        path = CONFIG
    return f"{path}.{place}" if path and place else path or place


def _finished(
    data: dict[str, Any], base: Path | None, reading: Reading, path: str, *, engine: bool
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The last checks that need no engine; task packs are put inline."""
    found = [*_not_finite(data, path), *_misread(data, path)]
    if engine:
        data, about_packs = inline_packs(data, base, reading, path)
        found += about_packs
    return (None if any(finding.code == "RL458" for finding in errors_of(found)) else data), found


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _walk(entry, child(path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, child(path, index))
    else:
        yield path, value


def _not_finite(data: dict[str, Any], path: str) -> Iterator[Finding]:
    for place, value in _walk(data, path):
        if isinstance(value, float) and not math.isfinite(value):
            yield Finding(
                code="RL458", path=place, message=f"{value} is no number to compute with", hint="write a finite number"
            )


def _read_otherwise(value: Unquoted) -> str:
    if value.reads_as == str(value):
        return f"{str(value)!r} looks like a number, and is a text here and for RLinf's own loader"
    return f"{str(value)!r} is a text here, and RLinf's own loader reads {value.reads_as!r}"


def _misread(data: dict[str, Any], path: str) -> list[Finding]:
    """Scalars that RLinf's own loader reads otherwise; those of the cluster section have rules of their own."""
    own = child(path, "cluster")
    return [
        Finding(
            code="RL459",
            severity="warning",
            path=place,
            message=_read_otherwise(value),
            actual=str(value),
            hint="quote it, or write what is meant: a plain number, true or false",
        )
        for place, value in _walk(data, path)
        if isinstance(value, Unquoted) and not within(place, own)
    ][:_MOST_WARNINGS]
