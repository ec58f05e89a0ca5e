"""The installed `rlark` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rlark.host.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
RLARK = Path(sys.executable).with_name("rlark")
TOY = ROOT / "tests/engine_for_tests"
PATIENCE_S = 120
AT_A_SHELL = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
SPEC_KEYS = ("priority", "terminationGrace", "activeDeadline", "restartPolicy", "backoffLimit")


class User:
    """Somebody at a shell, with a state directory of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.dashboard_port = free_ports(2)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RLARK_", "RAY_"))},
            "RLARK_HOME": str(home),
            "RLARK_PORT": str(self.port),
            "PYTHONPATH": str(TOY),
            "NO_COLOR": "1",
        }

    def start(self, *arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
        """Start `rlark` and do not wait; Ctrl-C reaches it, though the suite may run where it is ignored."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(
            [sys.executable, "-c", AT_A_SHELL, RLARK, *arguments], text=True, env=self.env, cwd=ROOT, **(pipes | more)
        )

    def rlark(self, *arguments: str | Path, code: int | None = 0, stdin: str | None = None) -> str:
        """Run `rlark`; gives its standard output, or both outputs where it is expected to fail."""
        done = subprocess.run(
            [RLARK, *arguments],
            text=True,
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            input=stdin,
            timeout=600,
            check=False,
        )
        said = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"exit {done.returncode}, not {code}\n{said}"
        return done.stdout if code == 0 else said

    def json(self, *arguments: str | Path, code: int | None = 0) -> Any:
        """Run `rlark ... -o json`."""
        done = subprocess.run(
            [RLARK, *arguments, "-o", "json"], text=True, env=self.env, cwd=ROOT, capture_output=True, check=False
        )
        assert code is None or done.returncode == code, (
            f"exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
        )
        return json.loads(done.stdout)

    def status(self, name: str) -> dict[str, Any]:
        """Where a Job stands."""
        return self.json("get", name)["status"]

    def until(self, name: str, held: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a Job is there and its status is as wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while name not in self.rlark("jobs", "-o", "name").split():
            assert time.monotonic() < deadline, f"{name} was never submitted"
            time.sleep(0.2)
        while not held(status := self.status(name)):
            assert time.monotonic() < deadline, f"{name} never came there: {json.dumps(status, indent=1)}"
            time.sleep(0.2)
        return status

    def ended(self, name: str) -> dict[str, Any]:
        """Wait for a Job's end."""
        return self.until(name, lambda status: status["phase"] in {"Succeeded", "Failed", "Stopped"})

    def up(self, *arguments: str) -> dict[str, Any]:
        """Start the platform."""
        ports = ["--port", str(self.port), "--dashboard-port", str(self.dashboard_port)]
        return self.json("up", *ports, *arguments)

    def down(self) -> None:
        """End it; harmless when it is down."""
        self.rlark("down", "--force", code=None)


def toy_job(
    name: str,
    placement: dict[str, object],
    *,
    pace_s: float = 0.0,
    iterations: int = 8,
    fault: dict[str, object] | None = None,
    **worker: object,
) -> str:
    """A Job on the engine for tests, as YAML."""
    config = {
        "cluster": {"num_nodes": 1, "component_placement": placement},
        "runner": {"engine": "toy", "max_epochs": iterations, "fuse": worker.pop("fuse", "auto")},
        "toy": {"pace_s": pace_s, "fault": fault},
    }
    spec = {key: worker.pop(key) for key in SPEC_KEYS if key in worker}
    ray = {"replicas": 1, "config": {"inline": config}, **worker}
    task = {"name": "worker", "head": True, "agentType": "Ray", "ray": ray}
    job = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [task], **spec},
    }
    return yaml.safe_dump(job, sort_keys=False)
