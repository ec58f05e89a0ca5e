"""What is running: `platform.json`, held against the processes and ports that it names."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from rlark.errors import ConflictError
from rlark.folder import Home, read_json
from rlark.host import ports, process
from rlark.host.clock import Clock
from rlark.host.head import HeadFiles, read_state, whole
from rlark.host.process import ProcessId

PROBE_S = 2.0
CALL_S = 10.0
LOCK_S = 240.0
"""The longest that an `up` takes; whoever comes meanwhile waits for it."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def lock(home: Home, clock: Clock) -> Iterator[None]:
    """Let one `up` or `down` of a state directory at a time work; the next waits and finds what that one made.

    Raises:
        ConflictError: another one does not come to its end.
    """
    home.create()
    with (home.root / "boot.lock").open("w") as file:
        if not _taken(file):
            say(f"Waiting for another `rlark up` or `rlark down` in {home.root}")
            until = clock.monotonic() + LOCK_S
            while not _taken(file):
                if clock.monotonic() > until:
                    raise ConflictError(
                        f"Another `rlark up` or `rlark down` is at work in {home.root} for more than {LOCK_S:.0f} s.",
                        hint="end it: its process holds boot.lock there",
                    )
                clock.sleep(0.1)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def say(text: str) -> None:
    """Talk, which goes to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def record(home: Home) -> dict[str, object]:
    """`platform.json` as it stands; empty without one, or when it is broken."""
    try:
        return read_json(home.platform) or {}
    except (OSError, ValueError):
        return {}


def supervisor(home: Home) -> ProcessId | None:
    """The living supervisor of this state directory's head, whether or not `up` got to its end."""
    named = [record(home).get("supervisor"), head_state(home).get("supervisor")]
    found = (ProcessId.from_json(value) for value in named)
    return next((one for one in found if one is not None and process.alive(one)), None)


def head_state(home: Home) -> dict[str, object]:
    """What the supervisor last wrote; empty when it wrote nothing."""
    return read_state(HeadFiles(home.head).state)


def answers(address: str) -> bool:
    """Whether an API answers `GET /livez`; the port is tried first, so that nothing hangs."""
    parts = urlsplit(address)
    if not ports.listening(parts.hostname or "", parts.port or 0, PROBE_S):
        return False
    try:
        with _OPENER.open(f"{address}/livez", timeout=PROBE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def running(home: Home) -> dict[str, object] | None:
    """The record of a platform that answers and whose head is whole; None when there is none.

    A head that has lost its raylet answers for a second more, until its supervisor has ended it.
    """
    found = record(home)
    if not found or not (found.get("attached") or whole(HeadFiles(home.head))):
        return None
    return found if answers(str(found.get("address") or "")) else None


def secret_file(path: Path, text: str | None = None) -> str:
    """The secret in a file of mode 0600, made if there is none that only its owner can read.

    Args:
        path: where.
        text: what to put there; a fresh random secret by default.

    Raises:
        OSError: the folder is not writable.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_mode & 0o077 == 0 and (kept := path.read_text(encoding="utf-8").strip()) and text is None:
            return kept
        path.unlink()
    made = text or secrets.token_hex(32)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(made)
    return made


def call(home: Home, address: str, method: str, path: str, body: object = None) -> dict[str, object]:
    """Ask the API, with this home's token.

    Raises:
        OSError: no answer, or an error.
        ValueError: the answer is no JSON object.
    """
    headers = {
        "Authorization": f"Bearer {home.token.read_text(encoding='utf-8').strip()}",
        "Content-Type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers=headers, method=method)  # noqa: S310
    with _OPENER.open(request, timeout=CALL_S) as answer:
        value = json.loads(answer.read() or b"{}")
    if not isinstance(value, dict):
        raise ValueError(f"{path} did not answer with a JSON object")
    return value
