"""What a Job made: listed, pulled, and proven against its hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from rlark.errors import ClusterError, NotFound, UsageError
from rlark.sdk.transport import JOBS, JsonObject, Transport

if TYPE_CHECKING:
    from rlark.evidence.manifest import ManifestReport

SUMS = "SHA256SUMS"


class Artifacts:
    """The products of one Job, on the platform."""

    def __init__(self, transport: Transport, job: str) -> None:
        """Name the Job."""
        self._transport = transport
        self._job = job

    def listing(self) -> JsonObject:
        """`{"files": [{"path", "sha256", "sizeBytes"}], "verified": bool}`."""
        return self._transport.get(f"{JOBS}/{self._job}/artifacts")

    def list(self) -> Sequence[JsonObject]:
        """One object a file: `path`, `sha256`, `sizeBytes`."""
        files: Sequence[JsonObject] = self.listing()["files"]
        return files

    def pull(self, target: str | Path, paths: Sequence[str] = ()) -> Sequence[Path]:
        """Copy files into a folder, each re-hashed after it arrived.

        A file that is there with the same hash is left alone; one with another content is replaced.
        Of a whole set SHA256SUMS comes too, so that the folder can be verified without the platform.

        Args:
            target: the folder; made where it is missing.
            paths: which files; all by default.

        Returns:
            Where each file lies now.

        Raises:
            NotFound: a path is no artifact.
            ClusterError: what arrived is not what was listed.
        """
        files = {str(item["path"]): item for item in self.list()}
        unknown = [path for path in paths if path not in files]
        if unknown:
            raise NotFound(
                f"{self._job} has no artifact {unknown[0]!r}", hint=f"there are {', '.join(files) or 'none'}"
            )
        root = Path(target)
        chosen = [item for path, item in files.items() if not paths or path in paths]
        places = [self._pull_one(root, item) for item in chosen]
        if files and not paths:
            places.append(self._pull_sums(root))
        return places

    def _pull_sums(self, root: Path) -> Path:
        place = root / SUMS
        partial = place.with_name(f".{SUMS}.part")
        try:
            self._transport.download(f"{JOBS}/{self._job}/artifacts/{SUMS}", partial)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
        return place

    def _pull_one(self, root: Path, item: JsonObject) -> Path:
        place = inside(root, str(item["path"]))
        if place.is_file() and sha256_of(place) == item["sha256"]:
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f".{place.name}.part")
        try:
            self._transport.download(f"{JOBS}/{self._job}/artifacts/{quote(item['path'])}", partial)
            arrived = sha256_of(partial)
            if arrived != item["sha256"]:
                raise ClusterError(
                    f"{item['path']} arrived with SHA-256 {arrived[:12]}..., listed is {item['sha256'][:12]}...",
                    hint="pull it again; if that repeats, the file on the platform was changed after the run",
                )
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
        return place

    def verify(self) -> ManifestReport:
        """Hold every product against the Job's SHA256SUMS: on the platform, then here, on a copy of all of it."""
        import tempfile

        from rlark.evidence.manifest import ManifestReport

        listing = self.listing()
        if not listing["verified"]:
            paths = [item["path"] for item in listing["files"]]
            return ManifestReport(verified=False, code=listing["code"], detail=listing["detail"], files=paths)
        with tempfile.TemporaryDirectory(prefix="rlark-verify-") as folder:
            self.pull(folder)
            return verify_folder(folder)

    def __repr__(self) -> str:
        files = self.list()
        return f"Artifacts({self._job!r}: {', '.join(str(item['path']) for item in files) or 'none'})"


def inside(root: Path, path: str) -> Path:
    """Where a listed file belongs.

    Raises:
        UsageError: the name would leave the folder.
    """
    place = root / path
    real, real_root = place.resolve(), root.resolve()
    if not real.is_relative_to(real_root) or real == real_root:
        raise UsageError(f"the platform lists an artifact {path!r}, which would lie outside of {root}")
    return place


def sha256_of(path: Path) -> str:
    """A file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_folder(folder: str | Path) -> ManifestReport:
    """Hold a pulled folder against its SHA256SUMS; asks nobody.

    Raises:
        NotFound: there is no such folder, or no SHA256SUMS in it.
    """
    from rlark.evidence.manifest import verify_manifest

    root = Path(folder)
    if not (root / SUMS).is_file():
        raise NotFound(
            f"{root} holds no {SUMS}" if root.is_dir() else f"there is no folder {root}",
            hint="pull a Job's artifacts first: rlark artifacts JOB pull",
        )
    return verify_manifest(root)
