"""Run scripts as people write them, each under a Ray head of its own."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.acceptance.user import User

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

RAY = Path(sys.executable).with_name("ray")
LOOK = """\
import ray
ray.init(log_to_driver=False)
(node,) = ray.nodes()
has = ray.cluster_resources()
print("nodes", len(ray.nodes()), "cpus", has.get("CPU"), "gpus", has.get("GPU", 0))
print("session", ray._private.worker.global_worker.node.session_name)
"""


def job(name: str, run: str, *, prepare: str = "", cpu: float = 1, gpu: int = 0, **expect: object) -> str:
    worker = {
        "name": "worker",
        "head": True,
        "prepareScript": prepare,
        "runScript": run,
        "ray": {"resources": {"cpu": cpu, "gpu": gpu}},
        "expect": expect,
    }
    spec = {"tasks": [worker], "activeDeadline": "4m", "terminationGrace": "5s"}
    written = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(written, sort_keys=False)


def said(user: User, name: str, word: str) -> str:
    """What a run printed behind a word."""
    lines = [line.split(f"{word} ", 1)[1] for line in user.rlark("logs", name).splitlines() if f"{word} " in line]
    return lines[-1].strip()


def test_two_jobs_at_once_do_not_see_each_other_and_ray_stop_ends_only_its_own(machine, write, tmp_path):
    program = tmp_path / "look.py"
    program.write_text(LOOK)
    meet = tmp_path / "meet"
    meet.mkdir()
    both = f"touch {meet}/$RLARK_JOB; until [ -f {meet}/first ] && [ -f {meet}/second ]; do sleep 0.1; done\n"
    look = f"{sys.executable} {program}\nprintf 'processes %s\\n' \"$(ls -d /proc/[0-9]* | wc -l)\"\n"
    stops = f"{both}{look}{RAY} stop --force\ntouch {meet}/stopped\n"
    goes_on = f"{both}until [ -f {meet}/stopped ]; do sleep 0.1; done\n{look}"
    with ThreadPoolExecutor() as pool:
        jobs = {"first": job("first", stops), "second": job("second", goes_on, cpu=2)}
        ran = [pool.submit(machine.rlark, "submit", write(name, text)) for name, text in jobs.items()]
        for one in ran:
            one.result()
    assert said(machine, "first", "nodes") == "1 cpus 1.0 gpus 0"
    assert said(machine, "second", "nodes") == "1 cpus 2.0 gpus 0"
    assert said(machine, "first", "session") != said(machine, "second", "session")
    assert [machine.status(name)["phase"] for name in jobs] == ["Succeeded", "Succeeded"]
    assert int(said(machine, "second", "processes")) < 80
    assert machine.json("nodes")["nodes"][0]["online"] is True


def test_what_fails_in_a_pipe_fails_the_job_with_its_own_code(machine, write):
    machine.rlark("submit", write("piped", job("piped", "(echo working; exit 7) | cat\necho never\n")), code=100)
    status = machine.status("piped")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "RunFailed", 7)
    assert "never" not in machine.rlark("logs", "piped")


def test_leased_gpus_and_what_prepare_exports_reach_ray_and_the_run(eight_gpus, write, tmp_path):
    program = tmp_path / "see.py"
    program.write_text(
        "import os, ray\n"
        "ray.init(log_to_driver=False)\n"
        "@ray.remote(num_gpus=2, num_cpus=0)\n"
        "def see(): return os.environ['CUDA_VISIBLE_DEVICES'], os.environ['FROM_PREPARE']\n"
        "print('seen', *ray.get(see.remote()))\n"
    )
    text = job("sees-gpus", f"{sys.executable} {program}\n", prepare="export FROM_PREPARE=yes\n", gpu=2)
    eight_gpus.rlark("submit", write("sees-gpus", text))
    devices, exported = said(eight_gpus, "sees-gpus", "seen").split()
    assert (len(devices.split(",")), exported) == (2, "yes")
    assert "(faked)" in eight_gpus.rlark("logs", "sees-gpus")


def test_a_head_that_does_not_start_fails_at_once_with_rays_own_reason(machine, write, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    ray = fake / "ray"
    ray.write_text("#!/bin/sh\necho 'RuntimeError: no room for the object store' >&2\nexit 1\n")
    ray.chmod(0o755)
    text = job("no-head", "echo never\n", prepare=f"export PATH={fake}:$PATH\n")
    machine.rlark("submit", write("no-head", text), code=100)
    status = machine.status("no-head")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "RayNotReady", None)
    assert "no room for the object store" in status["message"]
    assert "never" not in machine.rlark("logs", "no-head")
