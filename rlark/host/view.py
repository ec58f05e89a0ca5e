"""What the processes behind a fence see: paths of theirs, and where those lie on the node."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from posixpath import dirname, join, normpath

_MAX_LINKS = 40
_HIDDEN_FROM = ("*", "?", "[")


@dataclass(frozen=True)
class Bind:
    """A folder or file of the node at a path of the Job's.

    Attributes:
        source: the folder or file, absolute; it exists.
        path: where the Job sees it, absolute and normalised.
        read_only: True when the Job must not write there.
    """

    source: str
    path: str
    read_only: bool = False


def below(path: str, folder: str) -> bool:
    """True when a normalised path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class View:
    """The node's files with binds over them."""

    def __init__(self, binds: Sequence[Bind] = ()) -> None:
        """See the node through binds, none of whose paths leads through a symbolic link."""
        self.binds = tuple(binds)

    def over(self, path: str) -> Bind | None:
        """The deepest bind that a path lies in."""
        covering = [bind for bind in self.binds if below(path, bind.path)]
        return max(covering, key=lambda bind: len(bind.path), default=None)

    def lies(self, path: str) -> str:
        """Where a normalised path lies on the node; symbolic links are left as they are."""
        bind = self.over(path)
        return path if bind is None else normpath(join(bind.source, path[len(bind.path) :].lstrip("/")))

    def resolve(self, path: str) -> str:
        """The same place without symbolic links, as the Job sees it; a part that does not exist stays as it is.

        Raises:
            OSError: too many symbolic links (ELOOP).
        """
        todo, seen, links = _parts(path), "/", 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                seen = dirname(seen)
                continue
            step = join(seen, part)
            target = None if any(bind.path == step for bind in self.binds) else _link(self.lies(step))
            if target is None:
                seen = step
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            seen, todo = ("/" if target.startswith("/") else seen), [*_parts(target), *todo]
        return seen

    def real(self, path: str) -> str:
        """Where a path of the Job's lies on the node, symbolic links followed as the Job follows them.

        Raises:
            OSError: too many symbolic links (ELOOP).
        """
        return self.lies(self.resolve(path))

    def names(self, folder: str) -> list[str]:
        """What the Job sees in a folder of its own, sorted; empty where there is none."""
        folder = self.resolve(folder)
        try:
            found = set(os.listdir(self.lies(folder)))  # noqa: PTH208  names are wanted
        except OSError:
            found = set()
        inside = (bind.path for bind in self.binds if bind.path != folder and below(bind.path, folder))
        return sorted(found | {path[len(folder.rstrip("/")) + 1 :].split("/")[0] for path in inside})

    def glob(self, pattern: str, folder: str = "/") -> Iterator[str]:
        """The absolute paths of the Job's that a pattern names, sorted within a folder.

        As with a shell, `*`, `?` and `[...]` stay within a name and leave out hidden ones, and `**`
        stands for everything below, any number of folders deep; it does not follow symbolic links.

        Args:
            pattern: relative to `folder`, or absolute.
            folder: taken as it is written.
        """
        yield from self._match("/" if pattern.startswith("/") else folder, _parts(pattern))

    def _match(self, folder: str, parts: list[str]) -> Iterator[str]:
        if not parts:
            yield folder
            return
        part, rest = parts[0], parts[1:]
        if part == "**":
            yield from self._match(folder, rest)
        for name in self._named(folder, part):
            path = join(folder, name)
            if part != "**":
                yield from self._match(path, rest)
            elif self._is_folder(path):
                yield from self._match(path, parts)
            elif not rest:
                yield path

    def _named(self, folder: str, part: str) -> list[str]:
        if not any(sign in part for sign in _HIDDEN_FROM):
            return [part] if self.exists(join(folder, part)) else []
        fits = re.compile(fnmatch.translate("*" if part == "**" else part)).match
        hidden = part.startswith(".")
        return [name for name in self.names(folder) if fits(name) and (hidden or not name.startswith("."))]

    def exists(self, path: str) -> bool:
        """Whether the Job finds something at a path of its own."""
        try:
            path = self.resolve(path)
            return os.path.lexists(self.lies(path)) or any(below(bind.path, path) for bind in self.binds)
        except OSError:
            return False

    def _is_folder(self, path: str) -> bool:
        bound = any(below(bind.path, path) for bind in self.binds)
        lies = self.lies(path)
        return os.path.isdir(lies) and (bound or not os.path.islink(lies))  # noqa: PTH112,PTH114


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  the text, not a path
    except OSError:
        return None
