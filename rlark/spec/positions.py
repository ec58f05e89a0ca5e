"""Where things stand in a parsed text."""

from __future__ import annotations

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rlark.spec.path import steps


class Positions:
    """Where things stand in a text; lines and columns count from 1."""

    def __init__(self, root: Node | None = None, text: str = "") -> None:
        """Keep the parsed text; None where positions are unknown."""
        self._root = root
        self._text = text

    def of(self, path: str) -> tuple[int, int]:
        """Line and column of a place, or of its nearest parent that stands in the text; (0, 0) if unknown."""
        if self._root is None:
            return 0, 0
        return self._walk(steps(path))[0]

    def of_key(self, path: str) -> tuple[int, int]:
        """Line and column of the key that leads to a place; as `of` where it is no key of the text."""
        keys = steps(path)
        node = self._root
        for key in keys[:-1]:
            entry = _entry(node, key)
            node = entry[1] if entry else None
        entry = _entry(node, keys[-1]) if keys else None
        return place(entry[0]) if entry and entry[0] is not None else self.of(path)

    def inside(self, path: str, line: int, column: int) -> tuple[int, int]:
        """Line and column of a place within a text that stands there, as of `of` where that cannot be told.

        Args:
            path: where the text stands.
            line: within the text, from 1.
            column: within that line, from 1.
        """
        node = self._root
        for key in steps(path):
            entry = _entry(node, key)
            node = entry[1] if entry else None
        if not isinstance(node, ScalarNode) or not line or node.style != "|":
            return self.of(path)
        at = node.start_mark.line + line  # a literal block starts below its `|`
        rows, lines = self._text.split("\n"), node.value.split("\n")
        if line > len(lines) or at >= len(rows):
            return self.of(path)
        row = rows[at].rstrip("\r")
        if not row.endswith(lines[line - 1]):
            return self.of(path)
        return at + 1, len(row) - len(lines[line - 1]) + column

    def show(self, path: str, *, key: bool = False) -> tuple[int, int]:
        """Line and column of a place, or of the key that leads to it."""
        return self.of_key(path) if key else self.of(path)

    def has(self, path: str) -> bool:
        """True when the place itself stands in the text."""
        keys = steps(path)
        return self._root is not None and self._walk(keys)[1] == len(keys)

    def _walk(self, keys: list[str | int]) -> tuple[tuple[int, int], int]:
        node, here, depth = self._root, place(self._root) if self._root else (0, 0), 0
        for key in keys:
            entry = _entry(node, key)
            if entry is None:
                break
            name, node = entry
            here = place(node) if name is None or _stands_alone(node) else place(name)
            depth += 1
        return here, depth


def _entry(node: Node | None, key: str | int) -> tuple[Node | None, Node] | None:
    """The key's node (None in a list) and the value's node."""
    if isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.value):
        return None, node.value[key]
    if isinstance(node, MappingNode):
        return next(((k, v) for k, v in node.value if isinstance(k, ScalarNode) and k.value == str(key)), None)
    return None


def _stands_alone(node: Node) -> bool:
    """True for a value on its key's line; a block below the key, or nothing, is shown at the key."""
    if isinstance(node, ScalarNode):
        return bool(node.value or node.style)
    return bool(node.value) and bool(getattr(node, "flow_style", False))


def place(node: Node) -> tuple[int, int]:
    """Line and column where a node starts, counted from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1
