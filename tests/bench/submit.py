"""How long a submission takes, warm and cold, and what the idle platform holds, beside plain Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlark.host.ports import free_ports
from rlark.host.process import ProcessId, become_subreaper, descendants, end_tree
from tests.bench.table import Table

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "job_specs/smoke.yaml"
BIN = Path(sys.executable).parent
SAME_IMPORTS = "import torch, numpy, yaml, pydantic; print('first line')"
EMPTY_APP = """
import ray
from ray import serve
ray.init(address={address!r}, log_to_driver=False)

@serve.deployment
class Empty:
    async def __call__(self, request):
        return "ok"

serve.start(http_options={{"host": "127.0.0.1", "port": {port}}})
serve.run(Empty.bind())
"""
SETTLE_S = 15  # Ray's processes start lazily; memory is read once they are there


def seconds_until(marker: str, arguments: Sequence[str | Path], env: dict[str, str]) -> float:
    """Seconds from starting a command to the first line with the marker; then it may end by itself."""
    start = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        lines, seen = [], None
        for line in process.stdout:
            lines.append(line)
            if seen is None and marker in line:
                seen = time.perf_counter() - start
    if seen is None:
        raise RuntimeError(f"{marker!r} never came from {arguments}:\n" + "".join(lines[-20:]))
    return seen


def pss_mb(processes: Sequence[ProcessId]) -> float:
    """Proportional set size of these processes in MB."""
    total = 0
    for process in processes:
        try:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


class Platform:
    """rlark's own platform in a fresh state directory."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        port, dashboard = free_ports(2)
        self.env = os.environ | {"RLARK_HOME": str(self.home), "RLARK_PORT": str(port)}
        self.up = ["up", "--port", str(port), "--dashboard-port", str(dashboard)]

    def rlark(self, *arguments: str) -> None:
        subprocess.run([BIN / "rlark", *arguments], check=True, env=self.env, capture_output=True)

    def first_signal(self) -> float:
        return seconds_until("iter 1/", [BIN / "rlark", "submit", str(SMOKE)], self.env)

    def ray_job(self) -> float:
        """The same imports as a plain Ray Job on this head."""
        platform = json.loads((self.home / "platform.json").read_text())
        token = platform["head"]["tokenPath"]
        env = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token}
        return ray_job_first_line(platform["dashboard"], env)


def ray_job_first_line(dashboard: str, env: dict[str, str]) -> float:
    """Seconds from `ray job submit` to the script's first line."""
    command = [BIN / "ray", "job", "submit", "--address", dashboard, "--", sys.executable, "-c", f'"{SAME_IMPORTS}"']
    return seconds_until("first line", command, env)


@contextmanager
def plain_ray(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A head with Ray's defaults; gives its dashboard's address and a function that deploys an empty Serve app."""
    gcs, dashboard, serve = free_ports(3)
    before = set(descendants(os.getpid()))
    command = [BIN / "ray", "start", "--head", f"--port={gcs}", f"--dashboard-port={dashboard}"]
    temp = tempfile.mkdtemp(prefix="rb-")
    subprocess.run([*command, f"--temp-dir={temp}"], check=True, capture_output=True)

    def deploy() -> None:
        script = EMPTY_APP.format(address=f"127.0.0.1:{gcs}", port=serve)
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=folder)

    try:
        yield f"http://127.0.0.1:{dashboard}", deploy
    finally:
        for process in set(descendants(os.getpid())) - before:
            end_tree(process, 2)


def cold_rlark() -> tuple[float, float]:
    """Nothing running to the first signal, and the idle platform's memory afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(Path(folder))
        before = set(descendants(os.getpid()))
        seconds = platform.first_signal()
        time.sleep(SETTLE_S)
        memory = pss_mb([p for p in descendants(os.getpid()) if p not in before])
        platform.rlark("down")
    return seconds, memory


def cold_ray() -> tuple[float, float]:
    """The same for a head, an empty Serve app and a Ray Job, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        before = set(descendants(os.getpid()))
        with plain_ray(Path(folder)) as (dashboard, deploy):
            deploy()
            elapsed = time.perf_counter() - start
            seconds = elapsed + ray_job_first_line(dashboard, dict(os.environ))
            time.sleep(SETTLE_S)
            memory = pss_mb([p for p in descendants(os.getpid()) if p not in before])
    return seconds, memory


def measure(table: Table, repetitions: int) -> None:
    """Interleave ours and Ray's; ratios are taken pair by pair."""
    become_subreaper()
    warm: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(Path(folder))
        platform.rlark(*platform.up)
        try:
            platform.first_signal()  # warms the page cache for both
            warm = [(platform.first_signal(), platform.ray_job()) for _ in range(repetitions)]
        finally:
            platform.rlark("down")
    cold = [(cold_rlark(), cold_ray()) for _ in range(repetitions)]
    table.add("warm_first_signal_vs_ray_job", [ours / ray for ours, ray in warm], "<= 1.0")
    table.add("warm_first_signal_s", [ours for ours, _ in warm])
    table.add("ray_job_first_line_s", [ray for _, ray in warm])
    table.add("cold_first_signal_vs_ray", [ours[0] / ray[0] for ours, ray in cold], "<= 1.0")
    table.add("cold_first_signal_s", [ours[0] for ours, _ in cold])
    table.add("cold_ray_s", [ray[0] for _, ray in cold])
    table.add("idle_memory_vs_ray_serve", [ours[1] / ray[1] for ours, ray in cold], "<= 1.0")
    table.add("idle_memory_mb", [ours[1] for ours, _ in cold], note="proportional set size")
    table.add("ray_serve_memory_mb", [ray[1] for _, ray in cold], note="proportional set size")
