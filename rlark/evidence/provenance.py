"""Where a result comes from: the code, the libraries and the configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rlark.evidence.result import Source
from rlark.host.revision import revision_of


def source_of(folder: Path) -> Source:
    """The commit of a folder's code, or why it is unknown."""
    found = revision_of(folder)
    if isinstance(found, str):
        return Source(known=False, reason=found)
    return Source(
        known=True, commit=found.commit, dirty=found.dirty, repository=found.repository or None, ref=found.ref or None
    )


def dependencies(packages: Sequence[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def lock_sha256(versions: Mapping[str, str]) -> str:
    """One hash over all versions, the same for the same set."""
    lines = "".join(f"{name}=={versions[name]}\n" for name in sorted(versions))
    return hashlib.sha256(lines.encode()).hexdigest()


def digest(config: object) -> str:
    """SHA-256 over a configuration's plain values, whatever the order of its keys."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
