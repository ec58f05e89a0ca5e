"""Which files a defaults list brings in, and where their keys hang: `env/libero@env.train`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlark.spec.config_files import Reading
from rlark.spec.path import join, steps
from rlark.spec.yaml import Positions

_HEADER = re.compile(r"#\s*@package\s+(\S+)")
_HEADER_CHARACTERS = 512


@dataclass(frozen=True)
class Included:
    """A file that a primary configuration's defaults list names.

    Attributes:
        file: absolute.
        package: the keys that its content hangs on.
        positions: where things stand in it.
    """

    file: Path
    package: tuple[str | int, ...]
    positions: Positions

    def place(self, keys: list[str | int], *, key: bool) -> tuple[int, int] | None:
        """Line and column of a value of the composed configuration; None where it does not stand here."""
        depth = len(self.package)
        if tuple(keys[:depth]) != self.package or not self.positions.has(join("", keys[depth:])):
            return None
        return self.positions.show(join("", keys[depth:]), key=key)


def included(primary: Path, reading: Reading) -> tuple[Included, ...]:
    """The files that the primary's own defaults list names, those that win first.

    Files that those name in turn are left out: what stands there is shown in the primary.
    """
    document = reading.documents.get(primary)
    listed = document.data.get("defaults") if document is not None and isinstance(document.data, dict) else None
    found = [one for entry in (listed if isinstance(listed, list) else ()) for one in _of(entry, reading)]
    return tuple(reversed(found))


def _of(entry: Any, reading: Reading) -> Iterator[Included]:
    if isinstance(entry, Mapping):
        pairs = [(str(key), str(value)) for key, value in entry.items() if isinstance(value, str)]
    else:
        group, _, package = str(entry).partition("@")
        folder, _, name = group.rpartition("/")
        pairs = [(f"{folder}@{package}" if package else folder, name)]
    for key, name in pairs:
        group, _, package = key.removeprefix("optional ").partition("@")
        if key.startswith("override ") or name == "_self_":
            continue
        path = "/".join(part for part in (group.strip("/"), name.removesuffix(".yaml")) if part)
        file = next((file for file in reading.documents if str(file).endswith(f"/{path}.yaml")), None)
        if file is not None:
            yield Included(file, _package(package, group, file, reading), reading.positions(file))


def _package(written: str, group: str, file: Path, reading: Reading) -> tuple[str | int, ...]:
    header = _HEADER.search(reading.head(file, _HEADER_CHARACTERS))
    package = written or (header[1] if header else "_group_")
    package = package.replace("_group_", group.strip("/").replace("/", "."))
    return () if package in ("_global_", "") else tuple(steps(package.replace("_global_.", "").replace("_here_.", "")))
