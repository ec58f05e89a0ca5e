"""What a Job made: the manifest's files, each hashed again before it is served."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from io import BufferedReader
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from rlark.api import answers
from rlark.api.commands import JsonObject
from rlark.api.problems import Problem
from rlark.api.room import PREFIX, room, told
from rlark.control.reader import LedgerReader
from rlark.errors import ConflictError, NotFound
from rlark.evidence import manifest
from rlark.evidence.manifest import BrokenManifest, Entry
from rlark.folder import Home

CHUNK = 256 * 1024
_FILE = told(
    None, 404, 409, text="The file.", also={"application/octet-stream": "its bytes, of the type its name says"}
)


def router(reader: LedgerReader, home: Home) -> APIRouter:
    """The routes of a Job's products."""
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}/artifacts")

    def folder(name: str) -> Path:
        reader.standing(name)
        return home.job(name).artifacts

    @routes.get("", response_model=None, responses=told(answers.ArtifactList, 404, 409))
    def list_artifacts(name: str) -> JsonObject:
        """The files with their hashes, and whether each is as listed."""
        root = folder(name)
        report = manifest.verify_manifest(root) if root.is_dir() else None
        files = [_listed(root, entry) for entry in _entries(root)] if report and report.files else []
        if report is None:
            return {"files": [], "verified": False, "code": manifest.MISSING, "detail": "nothing was written yet"}
        return {"files": files, "verified": report.verified, "code": report.code, "detail": report.detail}

    @routes.get("/{path:path}", response_class=Response, responses=_FILE)
    def get_artifact(name: str, path: str) -> Response:
        """One file of the manifest, or SHA256SUMS itself; refused with 409 when its content changed."""
        root = folder(name)
        if path == manifest.NAME:
            return Response(_sums(root), media_type="text/plain")
        entry = next((entry for entry in _entries(root) if entry.path == path), None)
        if entry is None:
            raise NotFound(
                f"job {name!r} has no artifact {path[:200]!r}", hint=f"see what there is: rlark artifacts {name}"
            )
        return _serve(root, entry)

    return routes


def _entries(root: Path) -> list[Entry]:
    try:
        return manifest.read_manifest(root)
    except BrokenManifest as broken:
        raise _broken(broken) from broken


def _sums(root: Path) -> bytes:
    _entries(root)
    return (root / manifest.NAME).read_bytes()


def _listed(root: Path, entry: Entry) -> JsonObject:
    try:
        size = (root / entry.path).lstat().st_size
    except OSError:
        size = 0
    return {"path": entry.path, "sha256": entry.sha256, "sizeBytes": size}


def _serve(root: Path, entry: Entry) -> Response:
    """Hash a file and send what was hashed: both through one descriptor."""
    try:
        file = _open(root, entry.path)
    except FileNotFoundError:
        raise _broken(BrokenManifest(manifest.FILE_MISSING, f"{entry.path} is listed and is not there")) from None
    except (OSError, ValueError) as error:
        raise _broken(BrokenManifest(manifest.FILE_INVALID, f"{entry.path} is not served: {error}")) from None
    found = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    if found != entry.sha256:
        file.close()
        raise Problem(
            409,
            "artifact_checksum_mismatch",
            f"{entry.path} was changed after the run: SHA-256 {found}, listed is {entry.sha256}",
            "it is not served; start the job again to make it anew",
            ConflictError.exit_code,
            details={"path": entry.path, "listed": entry.sha256, "found": found},
        )
    file.seek(0)
    name = PurePosixPath(entry.path).name
    headers = {
        "Content-Length": str(size),
        "ETag": f'"{found}"',
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(name)}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    kind = guess_type(name)[0] or "application/octet-stream"
    return StreamingResponse(_chunks(file, size), media_type=kind, headers=headers)


def _open(root: Path, path: str) -> BufferedReader:
    """A regular file below the artifacts, no part of whose path is a link."""
    here = root
    for segment in PurePosixPath(path).parts[:-1]:
        here = here / segment
        if here.is_symlink():
            raise ValueError(f"{segment} is a link")
    return os.fdopen(manifest.open_regular(root / path), "rb")


def _chunks(file: BufferedReader, size: int) -> Iterator[bytes]:
    with file:
        while size > 0 and (chunk := file.read(min(CHUNK, size))):
            size -= len(chunk)
            yield chunk


def _broken(broken: BrokenManifest) -> Problem:
    status = 404 if broken.code in (manifest.MISSING, manifest.FILE_MISSING) else 409
    code = NotFound.exit_code if status == 404 else ConflictError.exit_code
    return Problem(status, broken.code, str(broken), "see: rlark artifacts JOB verify", code)
