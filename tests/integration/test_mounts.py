"""Mounts of Jobs that the platform's head runs: an engine's run and its ranks see them, and Ray is where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlark.folder import JobFolder, write_json
from rlark.host import process
from rlark.plan.node import Device, HeadAddress, Lease
from rlark.plan.plan import Output, Plan, PlannedMount, RankPlacement

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bubblewrap")]
TOYS = Path(__file__).parents[1] / "engine_for_tests"
ONE_EACH = {"actor": [0], "rollout": [1], "env": [2]}


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rlk-m-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def live(base: Path, driver: HeadAddress) -> Iterator[Callable[..., tuple[JobFolder, list[dict]]]]:
    """Lives a Job with a mount and a volume to its end: its folder and its reports."""
    import ray

    node_id = str(ray.nodes()[0]["NodeID"])
    source = base / "source"
    source.mkdir()
    (source / "file").write_text("content")

    def run(**given: object) -> tuple[JobFolder, list[dict]]:
        folder = JobFolder(base / "home" / "jobs" / "mounted")
        folder.create()
        mounts = [
            PlannedMount(path="/mnt/data", host=str(source), read_only=True),
            PlannedMount(path="/mnt/out", volume="out"),
        ]
        plan = Plan(job="mounted", node="box", mounts=mounts, sandbox="bubblewrap", grace_s=5, **given)
        devices = [Device(id=str(i), faked=True) for i in range(3)]
        lease = Lease(
            job="mounted", attempt=1, key="mounted", node="box", node_id=node_id, devices=devices, cpus=2, head=driver
        )
        write_json(folder.plan, plan.to_json())
        write_json(folder.lease, lease.to_json())
        env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(TOYS)}
        subprocess.run([sys.executable, "-m", "rlark.worker", str(folder.root)], env=env, timeout=120, check=False)
        return folder, [json.loads(line) for line in folder.reports.read_text().splitlines()]

    yield run


def logs(folder: JobFolder) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.logs(1).iterdir()) if path.is_file())


def test_ray_is_attached_to_from_behind_the_fence(live):
    script = (
        "import ray, time; began = time.monotonic(); ray.init(log_to_driver=False); took = time.monotonic() - began; "
        "assert took < 20, took; "
        "open('/mnt/out/nodes', 'w').write(str(len(ray.nodes())) + open('/mnt/data/file').read())"
    )
    folder, reports = live(run=f'{sys.executable} -c "{script}"\n', outputs=[Output(path="/mnt/out/nodes")])
    assert reports[-1]["reason"] == "Completed", logs(folder)
    assert reports[-1]["data"]["verdict"]["verified"] is True
    assert (folder.home.volumes / "out" / "nodes").read_text() == "1content"
    assert not Path("/mnt/out").exists()


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "placed"])
def test_every_process_of_an_engine_sees_the_mounts(live, fused):
    placement = {name: [RankPlacement(rank=0, gpus=gpus, local_rank=0)] for name, gpus in ONE_EACH.items()}
    folder, reports = live(
        engine="toy",
        command=["{python}", "-m", "toy_engine"],
        config={"algorithm": {"seed": 3}, "runner": {"max_epochs": 2}},
        placement=placement,
        fused=fused,
        evidence=True,
        env={"TOY_COPY": "/mnt/data/file /mnt/out"},
        outputs=[Output(path=f"/mnt/out/{component}-0") for component in ONE_EACH],
        tensorboard="/mnt/out/tb",
    )
    assert reports[-1]["reason"] == "Completed", logs(folder)
    assert reports[-1]["data"]["verdict"]["verified"] is True
    out = folder.home.volumes / "out"
    assert {path.name: path.read_text() for path in out.iterdir() if path.is_file()} == {
        f"{component}-0": "content" for component in ONE_EACH
    }
    assert any((out / "tb").iterdir())
    assert not folder.tensorboard.exists()
    assert folder.fenced_python.exists() is not fused
    assert all(process.identify(rank["pid"]) is None for rank in ranks(reports))


def ranks(reports: list[dict]) -> list[dict]:
    return next(report for report in reports if report["type"] == "Placed")["data"]["ranks"]
