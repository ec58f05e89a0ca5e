"""This machine: what it offers as a node, and the platform that may run on it.

The platform is reached by its command line (`python -m rlark.boot`) and its files only; it is
never imported here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rlark.errors import BY_CODE, ClusterError
from rlark.folder import Home
from rlark.sdk.settings import platform_record

if TYPE_CHECKING:
    from rlark.plan.node import Inventory

Talk = Callable[[str], None]
"""Takes one line of what the platform says about its own start."""


def this_machine(home: Home) -> Inventory:
    """This machine as the only node, as a head started here without options would offer it.

    Args:
        home: the state directory; its disk counts.
    """
    from rlark.host import device
    from rlark.plan.node import Inventory, Node, default_labels

    report = device.report(home.root)
    name = socket.gethostname()
    model = report.gpus[0].name if report.gpus else ""
    node = Node(
        name=name,
        labels=default_labels(name, model),
        cpus=report.cores,
        memory=report.memory,
        shm=report.shm,
        gpus=len(report.gpus),
        gpu_model=model,
    )
    return Inventory(nodes=[node], source="this machine")


def running(home: Home, timeout: float = 0.5) -> dict[str, object]:
    """What `platform.json` says, if its port answers; empty otherwise."""
    record = platform_record(home)
    parts = urlsplit(str(record.get("address") or ""))
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout):
            return record
    except (OSError, ValueError):
        return {}


def boot(home: Home, verb: str, options: Sequence[str] = (), talk: Talk | None = None) -> dict[str, Any]:
    """Run `python -m rlark.boot VERB` and read its answer.

    Args:
        home: the state directory.
        verb: `up` or `down`.
        options: further arguments.
        talk: gets each line of its stderr while it comes.

    Raises:
        RlarkError: it refused or failed.
    """
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if talk is not None:
            talk(line)

    # stdout is a file: a daemon that kept a pipe open would keep us waiting for its end
    with tempfile.TemporaryFile("w+", encoding="utf-8") as answer:
        process = subprocess.Popen(
            boot_command(home, verb, options),
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            text=True,
            env=boot_environment(),
        )
        listener = threading.Thread(target=_listen, args=(process.stderr, hear), daemon=True)
        listener.start()
        code = process.wait()
        listener.join(timeout=1)
        answer.seek(0)
        return _answer(verb, code, answer.read(), said)


def boot_command(home: Home, verb: str, options: Sequence[str] = ()) -> list[str]:
    """The command line that starts or stops the platform."""
    return [sys.executable, "-m", "rlark.boot", verb, "--home", str(home.root), *options]


def boot_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment a new platform starts in: ours, but for what would send a new head to somebody else's."""
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if name not in ("RAY_ADDRESS", "RAY_NAMESPACE")}


def _listen(stream: IO[str] | None, hear: Talk) -> None:
    for line in stream or ():
        if line.strip():
            hear(line.rstrip())


def _answer(verb: str, code: int, text: str, said: Sequence[str]) -> dict[str, Any]:
    lines = text.strip().splitlines()
    try:
        value = json.loads(lines[-1]) if lines else None
    except ValueError:
        value = None
    if isinstance(value, dict) and "code" in value:
        kind = BY_CODE.get(str(value["code"]), ClusterError)
        raise kind(str(value.get("message") or ""), hint=value.get("hint") or None)
    if code != 0 or not isinstance(value, dict):
        last = said[-1] if said else "it said nothing"
        raise ClusterError(
            f"rlark.boot {verb} ended with exit code {code} and without an answer: {last}",
            hint="see what is wrong with: rlark doctor",
        )
    return value
