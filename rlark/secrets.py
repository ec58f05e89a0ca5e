"""The secret store: files of their owner's, read when an attempt starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rlark.errors import NotFound, UsageError
from rlark.folder import read_json, write_json
from rlark.redactor import SHORTEST

LARGEST = 32 * 1024
"""Bytes of a value; a variable of a process holds 128 KiB."""
NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,63}")
"""Names and keys; dots alone would be lost on the way in an address."""


class SecretMissing(NotFound):
    """A secret that the Job refers to is not in the store."""


@dataclass(frozen=True)
class Entry:
    """What may be told of a secret: never its values.

    Attributes:
        name: the secret.
        keys: of its values, sorted.
        updated_at: when one of them was set or deleted last.
    """

    name: str
    keys: tuple[str, ...]
    updated_at: datetime


class SecretStore:
    """The server's secrets: one JSON file of mode 0600 for each name, `{key: value}`.

    Several processes may use it at once: files are replaced as a whole, and changed by one at a time.

    Attributes:
        folder: where they lie; mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder, `Home.secrets`; it is made with the first secret."""
        self.folder = folder

    def get(self, name: str, key: str) -> str | None:
        """The value; None where there is none.

        Raises:
            ValueError: the file is no secret file.
            OSError: it cannot be read.
        """
        value = self._read(name).get(key) if NAME.fullmatch(name) else None
        return value if isinstance(value, str) else None

    def __contains__(self, entry: tuple[str, str]) -> bool:
        """Whether there is a value for `(name, key)`."""
        try:
            return self.get(*entry) is not None
        except (OSError, ValueError):
            return False

    def entries(self) -> list[Entry]:
        """Every secret by name; one whose file cannot be read has no keys.

        Raises:
            OSError: the folder cannot be read.
        """
        found = []
        for path in sorted(self.folder.glob("*.json")):
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                found.append(self._entry(path.stem))
        return found

    def put(self, name: str, key: str, value: str) -> Entry:
        """Set a value.

        Raises:
            UsageError: the name, the key or the value is none that can be kept.
            OSError: it cannot be written.
            ValueError: what is there under that name is no secret file.
        """
        check_names(name, key)
        _check_value(name, key, value)
        with self._alone():
            write_json(self._path(name), {**self._read(name), key: value})
            return self._entry(name)

    def delete(self, name: str, key: str | None = None) -> None:
        """Delete a secret, or one of its values; with the last value the secret goes.

        Raises:
            NotFound: there is none.
            OSError: it cannot be deleted.
        """
        path = self._path(name)
        with self._alone():
            if not NAME.fullmatch(name) or not path.exists():
                raise NotFound(f"there is no secret {name[:100]!r}", hint="see the names with: rlark secrets list")
            left = self._without(name, key) if key is not None else {}
            if left:
                write_json(path, left)
            else:
                path.unlink()

    def _without(self, name: str, key: str) -> dict[str, object]:
        left = self._read(name)
        if key not in left:
            hint = f"it has {', '.join(sorted(left)) or 'none'}"
            raise NotFound(f"the secret {name!r} has no key {key[:100]!r}", hint=hint)
        return {one: value for one, value in left.items() if one != key}

    def _entry(self, name: str) -> Entry:
        path = self._path(name)
        try:
            keys = tuple(sorted(self._read(name)))
        except (ValueError, PermissionError):
            keys = ()
        return Entry(name, keys, datetime.fromtimestamp(path.stat().st_mtime, UTC))

    def _read(self, name: str) -> dict[str, object]:
        try:
            return read_json(self._path(name)) or {}
        except ValueError:  # whose own words may hold what stands in the file
            raise ValueError(f"{self._path(name)} is no file of secrets") from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's lock."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def check_names(name: str, *keys: str) -> None:
    """Refuse what cannot be the name of a secret, or the keys of its values.

    Raises:
        UsageError: says which, and what can.
    """
    for what, text in (("name", name), *(("key", key) for key in keys)):
        if not NAME.fullmatch(text):
            raise UsageError(
                f"{text[:100]!r} cannot be the {what} of a secret",
                hint="1 to 63 of a-z, A-Z, 0-9, '-', '_' and '.', not all of them dots",
            )


def _check_value(name: str, key: str, value: str) -> None:
    where = f"the value of {name}/{key}"
    if len(value.strip()) < SHORTEST:
        raise UsageError(
            f"{where} has fewer than {SHORTEST} characters and could not be masked in logs",
            hint="take a longer one; what is no secret belongs in env as a plain value",
        )
    if "\0" in value:
        raise UsageError(f"{where} holds a zero byte, which no variable can hold", hint="store it encoded in base64")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{where} is no text", hint="store it encoded in base64") from None
    if size > LARGEST:
        raise UsageError(
            f"{where} has {size} bytes, more than {LARGEST}", hint="mount a file that only you can read instead"
        )
