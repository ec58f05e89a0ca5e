"""The files that one composition read: what stands in them, and where.

A file is parsed once for all compositions of a process, until it changes: shipped configurations
share most of their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlark.spec.finding import Finding
from rlark.spec.path import child
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import Document, Positions, parse

Marks = dict[tuple[str, str], Unquoted]
"""Key and text of every scalar that RLinf's own loader reads otherwise."""

_MOST_KEPT = 1024
_kept: dict[Path, tuple[tuple[int, int], str, Document]] = {}


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
        texts: files that are given as text, whatever stands on the disk.
        documents: every file that was opened, as it was parsed.
        marks: scalars that RLinf's own loader reads otherwise.
    """

    texts: dict[Path, str] = field(default_factory=dict)
    documents: dict[Path, Document] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)

    def has(self, file: Path) -> bool:
        """True when there is such a file."""
        return file in self.texts or file.is_file()

    def positions(self, file: Path) -> Positions:
        """Where things stand in a file that was read; nowhere in any other."""
        return self.documents[file].positions if file in self.documents else Positions()

    def head(self, file: Path, characters: int) -> str:
        """The first characters of a file that was read."""
        if file in self.texts:
            return self.texts[file][:characters]
        kept = _kept.get(file)
        return (
            kept[1][:characters]
            if kept is not None
            else file.read_text(encoding="utf-8", errors="replace")[:characters]
        )

    def read(self, file: Path) -> dict[str, Any]:
        """A file's mapping in plain values; an empty file is an empty mapping.

        Raises:
            Broken: it is not YAML.
        """
        self.documents[file] = Document()
        document = parse(self.texts[file]) if file in self.texts else _parsed(file)
        self.documents[file] = document
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

    def peek(self, file: Path) -> dict[str, Any]:
        """A file's mapping, without counting it among those that were read.

        Raises:
            Broken: it cannot be read.
        """
        data = (parse(self.texts[file]) if file in self.texts else _parsed(file)).data
        return data if isinstance(data, dict) else {}

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

    def at(self, finding: Finding, section: str, name: str = "") -> Finding:
        """The finding at a section of the first file read that has it, of those of a name where one is given."""
        for file, document in self.documents.items():
            if name in ("", file.stem) and document.positions.has(section):
                line, column = document.positions.of(section)
                update = {"file": str(file), "path": section, "line": line, "column": column}
                return finding.model_copy(update=update)
        return finding

    def where(self, finding: Finding, holds: Callable[[str], object]) -> Finding:
        """The finding at the first text of the files read that holds what it is about, where there is one."""
        for file, document in self.documents.items():
            place = next((place for place, text in _texts(document.data) if holds(text)), None)
            if place is not None:
                line, column = document.positions.of(place)
                update = {"file": str(file), "path": place, "line": line, "column": column}
                return finding.model_copy(update=update)
        return finding


def _parsed(file: Path) -> Document:
    """A file as it was parsed, now or since it last changed."""
    try:
        status = file.stat()
        stamp = status.st_mtime_ns, status.st_size
        kept = _kept.get(file)
        if kept is not None and kept[0] == stamp:
            return kept[2]
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        raise Broken([Finding(code="RL451", message=message)]) from None
    document = parse(text)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[file] = (stamp, text, document)
    return document


def _hint(finding: Finding) -> str | None:
    return (
        "write sections: cluster, runner, algorithm, env, rollout, actor" if finding.code == "RL003" else finding.hint
    )


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a document, a key of a defaults list included, and its place."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            place = child(path, str(key))
            if isinstance(entry, str) and path.startswith("defaults["):
                yield place, f"{key}/{entry}"
            yield from _texts(entry, place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, child(path, index))
    elif isinstance(value, str):
        yield path, value
