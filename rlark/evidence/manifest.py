"""`SHA256SUMS`: the list of a run's products with their hashes, and whether the files still agree.

A line is `<64 hex><two blanks><relative POSIX path>`, as `sha256sum --check` reads it. Codes:

    artifact_manifest_verified      every listed file is there and unchanged
    artifact_manifest_missing       there is no SHA256SUMS
    artifact_manifest_malformed     a line or a name in it breaks the rules
    artifact_manifest_empty         it lists nothing
    artifact_manifest_file_missing  a listed file is not there
    artifact_manifest_file_invalid  a listed name is no regular file, or leads out of the folder
    artifact_manifest_mismatch      a file's hash differs
    artifact_manifest_incomplete    a product is not listed
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import Field

from rlark.folder import write_text
from rlark.model import StoredModel

NAME = "SHA256SUMS"
VERIFIED = "artifact_manifest_verified"
MISSING = "artifact_manifest_missing"
MALFORMED = "artifact_manifest_malformed"
EMPTY = "artifact_manifest_empty"
FILE_MISSING = "artifact_manifest_file_missing"
FILE_INVALID = "artifact_manifest_file_invalid"
MISMATCH = "artifact_manifest_mismatch"
INCOMPLETE = "artifact_manifest_incomplete"
NOT_PRODUCTS = frozenset({NAME, "result.json", "request.json"})
"""Top-level files that the manifest does not list; dot files are not products either."""
MAX_BYTES = 4 * 1024 * 1024
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_SEGMENT = re.compile(r"[^/\\\x00-\x1f\x7f]{1,120}")
_CHUNK = 1024 * 1024


class Entry(NamedTuple):
    """One line: a product and its hash."""

    sha256: str
    path: str


class ManifestReport(StoredModel):
    """What came of the check; `artifactVerification` on the wire.

    Attributes:
        verified: True when every listed file is there and unchanged.
        code: one of the codes above.
        detail: a sentence.
        files: the listed paths, as far as the manifest could be read.
    """

    verified: bool
    code: str
    detail: str
    files: list[str] = Field(default_factory=list)


class BrokenManifest(Exception):
    """The manifest or a file it lists is not as it should be.

    Attributes:
        code: the contract's word for it.
    """

    def __init__(self, code: str, detail: str) -> None:
        """Say what and why."""
        super().__init__(detail)
        self.code = code


def write_manifest(folder: Path, besides: Collection[str] = ()) -> list[Entry]:
    """Write SHA256SUMS over every product in a folder and its sub-folders, sorted by path.

    Args:
        folder: the products.
        besides: what else lies there at the top and is no product.

    Raises:
        ValueError: there is no product, or one that cannot be listed (a link, a name that breaks the rules).
        OSError: a product cannot be read, or the manifest not written.
    """
    entries = [Entry(file_sha256(folder, path), path) for path in products(folder, besides)]
    if not entries:
        raise ValueError(f"{folder} holds no product, and an empty {NAME} proves nothing")
    write_text(folder / NAME, "".join(f"{entry.sha256}  {entry.path}\n" for entry in entries))
    return entries


def products(folder: Path, besides: Collection[str] = ()) -> list[str]:
    """The relative paths of all products, sorted; `besides` as for `write_manifest`.

    Raises:
        ValueError: one cannot be listed.
    """
    left_out = NOT_PRODUCTS.union(besides)
    found = sorted(path.as_posix() for path in _walk(folder, PurePosixPath(), left_out))
    for path in found:
        if not _well_named(path):
            raise ValueError(f"the product {path!r} cannot be listed in {NAME}: a name has 1-120 printable characters")
    return found


def _walk(folder: Path, below: PurePosixPath, left_out: frozenset[str]) -> Iterator[PurePosixPath]:
    with os.scandir(folder / below) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = below / entry.name
            if entry.name.startswith(".") or str(path) in left_out:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder, path, left_out)
            elif entry.is_file(follow_symlinks=False):
                yield path
            else:
                raise ValueError(f"{folder / path} is no regular file, so it cannot be a product: copy it instead")


def read_manifest(folder: Path) -> list[Entry]:
    """The lines of a folder's SHA256SUMS.

    Raises:
        BrokenManifest: it is missing, empty or malformed.
    """
    try:
        raw = _read(folder / NAME)
    except FileNotFoundError:
        raise BrokenManifest(MISSING, f"there is no {NAME} in {folder}") from None
    except (OSError, ValueError) as error:
        raise BrokenManifest(MALFORMED, f"{NAME} cannot be read: {error}") from error
    entries = [_entry(number, line) for number, line in enumerate(raw.split("\n"), 1) if line]
    if not entries:
        raise BrokenManifest(EMPTY, f"{NAME} lists no file")
    paths = [entry.path for entry in entries]
    twice = next((path for path in paths if paths.count(path) > 1), None) if len(set(paths)) < len(paths) else None
    if twice is not None:
        raise BrokenManifest(MALFORMED, f"{NAME} lists {twice} more than once")
    return entries


def _read(path: Path) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return data.decode("utf-8")


def _entry(number: int, line: str) -> Entry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise BrokenManifest(MALFORMED, f"line {number} of {NAME} is not '<64 hex>  <path>': {line[:160]!r}")
    entry = Entry(*match.groups())
    if not _well_named(entry.path):
        raise BrokenManifest(
            MALFORMED,
            f"line {number} of {NAME} names {entry.path[:160]!r}; a path is relative, without '..' or backslash, "
            "and no name in it is longer than 120 characters",
        )
    return entry


def _well_named(path: str) -> bool:
    segments = path.split("/")
    return all(_SEGMENT.fullmatch(segment) and segment not in {".", ".."} for segment in segments)


def verify_manifest(folder: Path, *, complete: bool = True) -> ManifestReport:
    """Hash every listed file again.

    Args:
        folder: the products, with SHA256SUMS among them.
        complete: also ask that every product is listed.
    """
    files: list[str] = []
    try:
        entries = read_manifest(folder)
        files = [entry.path for entry in entries]
        for entry in entries:
            check_entry(folder, entry)
        if complete:
            _check_complete(folder, set(files))
    except BrokenManifest as broken:
        return ManifestReport(verified=False, code=broken.code, detail=str(broken), files=files)
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return ManifestReport(verified=True, code=VERIFIED, detail=f"{count} listed, every hash matches", files=files)


def check_entry(folder: Path, entry: Entry) -> None:
    """Hash one listed file again.

    Raises:
        BrokenManifest: it is missing, no regular file, or changed.
    """
    try:
        found = file_sha256(folder, entry.path)
    except FileNotFoundError:
        raise BrokenManifest(FILE_MISSING, f"{entry.path} is listed in {NAME} and is not there") from None
    except (OSError, ValueError) as error:
        raise BrokenManifest(FILE_INVALID, f"{entry.path} cannot be taken as a product: {error}") from error
    if found != entry.sha256:
        raise BrokenManifest(MISMATCH, f"{entry.path} was changed: SHA-256 {found}, listed is {entry.sha256}")


def _check_complete(folder: Path, listed: set[str]) -> None:
    try:
        unlisted = [path for path in products(folder) if path not in listed]
    except ValueError as error:
        raise BrokenManifest(FILE_INVALID, str(error)) from error
    if unlisted:
        raise BrokenManifest(INCOMPLETE, f"{', '.join(unlisted[:5])} is there and not listed in {NAME}")


def file_sha256(folder: Path, path: str) -> str:
    """SHA-256 of a regular file below a folder, no part of whose path is a link.

    Raises:
        ValueError: it is no regular file, or a link.
        OSError: it cannot be read.
    """
    here = folder
    for segment in PurePosixPath(path).parts[:-1]:
        here = here / segment
        if here.is_symlink():
            raise ValueError(f"{here} is a link")
    digest = hashlib.sha256()
    with os.fdopen(open_regular(folder / path), "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def open_regular(path: Path) -> int:
    """A descriptor of a regular file for reading; never waits on a FIFO and never follows a link.

    Raises:
        ValueError: it is something else.
        OSError: it cannot be opened.
    """
    if path.is_symlink():
        raise ValueError(f"{path} is a link")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{path} is no regular file")
    return handle
