from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from rlark.cluster.on_ray import remains
from rlark.folder import Home
from rlark.host import process
from rlark.host.clock import stamp
from rlark.host.head import HeadFiles, boot_id, write_state
from rlark.spec.report import Report


@pytest.fixture
def folder(tmp_path):
    return Home(tmp_path).job("pong")


@pytest.fixture
def started():
    children = []

    def start(**env):
        code = "print('ready', flush=True); import time; time.sleep(60)"
        argv = [sys.executable, "-S", "-c", code]
        children.append(subprocess.Popen(argv, env=dict(os.environ) | env, stdout=subprocess.PIPE))
        children[-1].stdout.readline()
        return process.identify(children[-1].pid)

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def report(kind, data, attempt=1, moment=None):
    return Report(1, attempt, stamp(moment or datetime.now(UTC)), kind, data=data)


def test_the_worker_is_the_process_of_its_own_report():
    own = process.this_process()
    reports = [report("Warning", {}), report("Prepared", own.to_json()), report("Prepared", {"pid": 1}, attempt=2)]
    assert remains.worker_process(reports, 1) == own
    assert remains.worker_process(reports, 2) is None
    assert remains.worker_process([], 1) is None


def test_an_outcome_ends_its_own_attempt_only():
    reports = [report("Prepared", {}), report("Outcome", {}), report("Prepared", {}, attempt=2)]
    assert remains.has_ended(reports, 1)
    assert not remains.has_ended(reports, 2)


def test_a_process_is_known_by_the_environment_of_its_attempt(folder, started):
    mine = started(RLARK_JOB_DIR=str(folder.root), RLARK_ATTEMPT="1")
    second = started(RLARK_JOB_DIR=str(folder.root), RLARK_ATTEMPT="2")
    started(RLARK_JOB_DIR=f"{folder.root}-two", RLARK_ATTEMPT="1")
    assert remains.marked_processes(folder, 1) == [mine]
    assert remains.marked_processes(folder, 2) == [second]


def test_everything_of_a_home_is_found_and_nothing_beside_it(folder, started):
    mine = started(RLARK_JOB_DIR=str(folder.root), RLARK_ATTEMPT="1")
    started(RLARK_JOB_DIR=f"{folder.root.parent}2/pong")
    assert remains.processes_under(folder.root.parent) == [mine]


def test_ranks_are_the_processes_that_were_there_when_they_were_reported(started):
    rank = started()
    placed = report("Placed", {"ranks": [{"pid": rank.pid}, {"pid": 2**22 + 1}, {}, "x"]})
    assert remains.rank_processes([placed], 1) == [rank]
    assert remains.rank_processes([placed], 2) == []


def test_a_later_process_with_a_ranks_pid_is_somebody_else(started):
    earlier = datetime.now(UTC) - timedelta(minutes=5)
    recycled = started()
    assert remains.rank_processes([report("Placed", {"ranks": [{"pid": recycled.pid}]}, moment=earlier)], 1) == []


def test_a_report_without_a_time_accuses_nobody(started):
    rank = started()
    broken = Report(1, 1, "", "Placed", data={"ranks": [{"pid": rank.pid}]})
    assert remains.rank_processes([broken], 1, now=time.time()) == []


def with_head(folder, one, temp_dir):
    folder.create()
    folder.head.mkdir()
    files = HeadFiles(folder.head)
    write_state(files.processes, {"bootId": boot_id(), "processes": [one.to_json()]})
    write_state(files.state, {"tempDir": str(temp_dir)})


def test_a_head_of_the_jobs_own_is_known_by_its_workers_list(folder, started, tmp_path):
    mine = started()
    with_head(folder, mine, tmp_path / "rlark-1" / "s")
    assert remains.head_processes(folder) == [mine]
    assert remains.processes_under(folder.root.parent) == [mine]
    process.end([mine], 0)
    assert remains.head_processes(folder) == []
    assert remains.head_processes(Home(tmp_path).job("other")) == []


def test_what_a_head_has_left_on_the_disk_goes_and_nothing_else(folder, tmp_path):
    temp_dir = tmp_path / "rlark-1" / "s"
    temp_dir.mkdir(mode=0o700, parents=True)
    temp_dir.parent.chmod(0o700)
    with_head(folder, process.this_process(), temp_dir)
    remains.forget_heads(folder.root.parent)
    assert not temp_dir.parent.exists()
    assert not folder.head.exists()
    remains.forget_head(folder)

    with_head(folder, process.this_process(), tmp_path / "mine" / "s")
    (tmp_path / "mine").mkdir()
    remains.forget_head(folder)
    assert (tmp_path / "mine").exists()
    remains.forget_heads(tmp_path / "nowhere")


@pytest.mark.parametrize("kept_before", [False, True])
def test_what_ray_start_said_outlives_a_killed_worker(folder, tmp_path, kept_before):
    with_head(folder, process.this_process(), tmp_path / "rlark-cafe" / "s")
    folder.lease.write_text('{"attempt": 2}')
    HeadFiles(folder.head).ray_log.write_text("Ray's own words")
    kept = folder.logs(2) / "ray" / "ray-start.log"
    if kept_before:
        kept.parent.mkdir(parents=True)
        kept.write_text("masked")
    remains.forget_head(folder)
    assert kept.read_text() == ("masked" if kept_before else "Ray's own words")
    assert not folder.head.exists()


@pytest.mark.parametrize(("plan", "own"), [('{"head": "job"}', True), ('{"head": "platform"}', False), ("{", False)])
def test_whether_a_job_has_a_head_of_its_own_stands_in_its_plan(folder, plan, own):
    folder.create()
    assert not remains.has_own_head(folder)
    folder.plan.write_text(plan)
    assert remains.has_own_head(folder) is own
