"""YAML with positions: one parse, no surprises of YAML 1.1, every fault as a finding.

Plain scalars are read by YAML 1.2's core schema; those that YAML 1.1 would read as something
else stay the text that was written (`Unquoted`). JSON is read too.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import BaseResolver

from rlark.spec.finding import Finding
from rlark.spec.path import child
from rlark.spec.positions import Positions, place
from rlark.spec.scalar import Unquoted, yaml11_surprise

__all__ = ["LARGEST_TEXT", "Document", "Positions", "parse", "plain"]

LARGEST_TEXT = 2**20
"""Characters; a Job is a page, not a data set."""
MOST_NODES = 50_000
DEEPEST = 64

_PLAIN = "plain"
_TAG = "tag:yaml.org,2002:"
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,3999})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NANS = {".nan", ".NaN", ".NAN"}

_Parser: Any = getattr(getattr(yaml, "cyaml", None), "CParser", None)


class _Resolver(BaseResolver):
    """Marks plain scalars, so that they can be told from quoted ones and from tagged ones."""

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and implicit[0]:
            return _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def _loader(text: str) -> Any:
    """A composer over libyaml where it is built in, else over PyYAML's own parser."""
    if _Parser is not None:
        return _FastLoader(text)
    return _PlainLoader(text)


if _Parser is not None:

    class _FastLoader(_Parser, _Resolver):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            _Parser.__init__(self, text)
            _Resolver.__init__(self)


class _PlainLoader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, _Resolver):
    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
        yaml.composer.Composer.__init__(self)
        _Resolver.__init__(self)


@dataclass
class Document:
    """A parsed text.

    Attributes:
        data: plain values, with `Unquoted` texts; None when there is nothing to go on with.
        positions: where they stand.
        findings: what is wrong with the text, with line and column.
    """

    data: Any = None
    positions: Positions = field(default_factory=Positions)
    findings: list[Finding] = field(default_factory=list)


def parse(text: str) -> Document:
    """Read one YAML or JSON document whose root is a mapping."""
    text = text.removeprefix("\ufeff")
    if len(text) > LARGEST_TEXT:
        return _nothing("RL010", f"the text has {len(text)} characters; the most is {LARGEST_TEXT}")
    try:
        text.encode()
        root = _loader(text).get_single_node()
    except yaml.YAMLError as error:
        return _as_json(text) or Document(findings=[_syntax(error, text)])
    except UnicodeEncodeError as error:
        line, column = _offset_place(text, error.start)
        return _nothing("RL001", "the text holds half of a character (a lone surrogate)", line=line, column=column)
    except RecursionError:
        return _nothing("RL007", "the text is nested too deeply to be read")
    if root is None:
        return _nothing("RL002", "the file is empty", hint="write a Job, as in job_specs/, or name another file")
    return _construct(root, text)


def _construct(root: Node, text: str) -> Document:
    reader = _Reader()
    try:
        data = reader.read(root, "", 0)
    except _TooMuch as reason:
        return _nothing("RL007", str(reason), None, *place(reason.node))
    if not isinstance(root, MappingNode):
        kind = "a list" if isinstance(root, SequenceNode) else f"the single value {root.value[:40]!r}"
        reader.say(
            "RL003", root, "", f"the file holds {kind}, not a mapping", hint="start with apiVersion: rlinf.io/v1alpha1"
        )
        data = None
    return Document(data, Positions(root, text), reader.findings)


def _nothing(code: str, message: str, hint: str | None = None, line: int = 1, column: int = 1) -> Document:
    return Document(findings=[Finding(code=code, line=line, column=column, message=message, hint=hint)])


def _syntax(error: yaml.YAMLError, text: str) -> Finding:
    """What the parser says, in our words where we know a better way to mend it."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else _offset_place(text, getattr(error, "position", 0))
    lines = text.splitlines()
    if line > len(lines) > 0:  # the end of the file is shown behind its last line
        line, column = len(lines), len(lines[-1]) + 1
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "another document" in problem:
        return Finding(
            code="RL005",
            line=line,
            column=column,
            message="a second document starts here; a file holds one Job",
            hint="write each Job in a file of its own",
        )
    if _tab_indents(text, line):
        return Finding(
            code="RL006",
            line=line,
            column=column,
            message="a tab stands in the indentation, which YAML does not allow",
            hint="indent with blanks",
        )
    context = getattr(error, "context", None)
    return Finding(
        code="RL001",
        line=line,
        column=column,
        message=f"this is not YAML: {problem}{f' ({context})' if context else ''}",
        hint="check indentation, colons and quotes on this line and the one above",
    )


def _offset_place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _tab_indents(text: str, line: int) -> bool:
    lines = text.splitlines()
    current = lines[line - 1] if 0 < line <= len(lines) else ""
    return "\t" in current[: len(current) - len(current.lstrip())]


def _as_json(text: str) -> Document | None:
    """The text as JSON, for the few JSON texts that are not YAML; None when it is not JSON either."""
    if text.lstrip()[:1] != "{":
        return None
    doubles: list[str] = []

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        doubles.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=no_doubles)
        again = json.dumps(data, ensure_ascii=False)
        again.encode()
    except (ValueError, RecursionError):
        return None
    if "\\u0000" in again:
        return _nothing("RL011", "the text holds a NUL character, which no program can take", "remove it")
    return Document(data, findings=[_double(name) for name in doubles])


def _double(name: str, path: str = "", first: Node | None = None, second: Node | None = None) -> Finding:
    line, column = place(second) if second else (0, 0)
    where = f"; it already stands on line {first.start_mark.line + 1}" if first else ""
    return Finding(
        code="RL004",
        path=path,
        line=line,
        column=column,
        message=f"the key {name!r} stands twice{where}",
        hint="keep one of them",
    )


class _TooMuch(Exception):
    """The text unfolds into more than anybody means.

    Attributes:
        node: where that was seen.
    """

    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.node = node


class _Reader:
    """Makes plain values of nodes and keeps what was found on the way."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._count = 0
        self._open: set[int] = set()

    def say(self, code: str, node: Node, path: str, message: str, hint: str | None = None) -> None:
        line, column = place(node)
        self.findings.append(Finding(code=code, path=path, line=line, column=column, message=message, hint=hint))

    def read(self, node: Node, path: str, depth: int) -> Any:
        self._count += 1
        if self._count > MOST_NODES:
            raise _TooMuch(
                f"the text unfolds into more than {MOST_NODES} values; its aliases (*name) repeat too much", node
            )
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise _TooMuch("an alias refers to this value, which contains it", node)
        if depth >= DEEPEST:
            raise _TooMuch(f"this is nested more than {DEEPEST} levels deep", node)
        self._open.add(id(node))
        if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
            self._unknown_tag(node, path)
        try:
            if isinstance(node, SequenceNode):
                return [self.read(item, child(path, index), depth + 1) for index, item in enumerate(node.value)]
            return self._mapping(node, path, depth)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: Node, path: str, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        seen: dict[str, Node] = {}
        for name, value in node.value:
            if not isinstance(name, ScalarNode):
                self.say("RL009", name, path, "a key is a list or a mapping; keys are words", hint="quote the key")
            elif name.tag == _PLAIN and name.value == "<<":
                merged = self._merge(value, path, depth) | merged
            elif name.value in seen:
                self.findings.append(_double(name.value, child(path, name.value), seen[name.value], name))
            else:
                seen[name.value] = name
                own[name.value] = self.read(value, child(path, name.value), depth + 1)
        return merged | own

    def _merge(self, node: Node, path: str, depth: int) -> dict[str, Any]:
        """What `<<: *other` brings in; of several, the first wins."""
        found: dict[str, Any] = {}
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            if isinstance(part, MappingNode):
                found = self.read(part, path, depth + 1) | found
            else:
                self.say("RL009", part, path, "<< takes a mapping, or a list of mappings", hint="write <<: *name")
        return found

    def _scalar(self, node: ScalarNode, path: str) -> Any:
        text = _whole(node.value)
        if text is None:
            self.say("RL011", node, path, "the text holds half of a character (a lone surrogate)", "remove it")
            return ""
        if "\0" in text:
            self.say("RL011", node, path, "the text holds a NUL character, which no program can take", "remove it")
        if node.tag == _PLAIN:
            return plain(text)
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return text
        value = plain(text)
        fits = {"int": int, "float": int | float, "bool": bool, "null": type(None)}.get(kind)
        if fits is None or not isinstance(value, fits):
            self._unknown_tag(node, path)
            return text
        return value * 1.0 if isinstance(value, int) and kind == "float" else value

    def _unknown_tag(self, node: Node, path: str) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self.say("RL008", node, path, f"the tag {tag} is not read here", hint="remove it")


def _whole(text: str) -> str | None:
    """Escaped surrogate pairs joined, as JSON writes them; None for half of one."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None


def plain(text: str) -> Any:
    """The value of a plain scalar by YAML 1.2's core schema; an `Unquoted` where YAML 1.1 differs."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] in "+-.0123456789":
        number = _number(text)
        if number is not None:
            return number
    surprise = yaml11_surprise(text)
    return text if surprise is None else Unquoted(text, surprise)


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INFINITE.fullmatch(text):
        return -math.inf if match[1] == "-" else math.inf
    return math.nan if text in _NANS else None
