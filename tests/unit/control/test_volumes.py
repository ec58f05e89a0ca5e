"""Named folders that Jobs mount: what stays, and what goes with a Job that is deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlark.control import keeper
from rlark.control.controller import Controller
from rlark.preflight import look_elsewhere, preflight
from rlark.spec import load
from rlark.testing import job_text, run_through


@pytest.fixture
def platform(platform):
    """A platform for which bubblewrap works, whatever the machine can do."""
    platform.controller.close()
    platform.controller = Controller(
        platform.home,
        platform.cluster,
        platform.clock,
        check=lambda text, inventory: preflight(load(text), inventory, look_elsewhere),
    )
    return platform


def mounting(*volumes: str, name: str = "demo", run: str = "echo hello\n", host: Path | None = None) -> str:
    job = json.loads(job_text(name, run=run))
    mounts = [{"volume": volume, "mountPath": f"/mnt/{volume}"} for volume in volumes]
    if host is not None:
        mounts.append({"hostPath": str(host), "mountPath": "/mnt/host"})
    job["spec"]["tasks"][0]["ray"]["mounts"] = mounts
    return json.dumps(job)


def ran(platform, text: str) -> None:
    """Submit a Job, let it end, and leave in its folders what its run would."""
    platform.controller.submit(text)
    name = json.loads(text)["metadata"]["name"]
    for volume in platform.reader.volumes().get(platform.reader.record(name).uid, []):
        folder = platform.home.volumes / volume
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy.pt").write_text("weights")
    run_through(platform.cluster.worker(name))
    platform.tick()


def volumes(platform) -> list[str]:
    return sorted(path.name for path in platform.home.volumes.iterdir())


def test_volumes_survive_stop_and_restart_and_go_with_delete(platform):
    ran(platform, mounting("out"))
    platform.controller.restart("demo")
    platform.controller.stop("demo")
    platform.tick()
    assert (platform.home.volumes / "out" / "policy.pt").read_text() == "weights"
    platform.controller.delete("demo")
    assert platform.reader.record("demo") is None
    assert volumes(platform) == []


def test_a_volume_stays_while_another_job_names_it(platform):
    ran(platform, mounting("out", "own"))
    platform.controller.submit(mounting("out", name="other"))
    platform.controller.delete("demo")
    assert volumes(platform) == ["out"]
    platform.controller.delete("other")
    platform.tick()
    assert volumes(platform) == []


def test_volumes_of_a_running_job_go_only_when_it_has_ended(platform):
    platform.controller.submit(mounting("out"))
    (platform.home.volumes / "out").mkdir(parents=True)
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.delete("demo")
    platform.tick()
    assert volumes(platform) == ["out"]
    worker.finish(143, reason="Stopped")
    platform.tick()
    assert volumes(platform) == []


def test_replace_keeps_what_the_new_job_names(platform):
    ran(platform, mounting("out", "old"))
    platform.controller.submit(mounting("out", "new", run="echo again\n"), replace=True)
    assert volumes(platform) == ["out"]
    assert (platform.home.volumes / "out" / "policy.pt").read_text() == "weights"
    platform.controller.delete("demo")
    platform.tick()
    assert volumes(platform) == []


def test_replace_keeps_it_when_another_controller_finishes_the_delete(platform, monkeypatch):
    ran(platform, mounting("out"))
    monkeypatch.setattr(keeper, "remove", _fails)
    with pytest.raises(Exception, match="being deleted"):
        platform.controller.submit(mounting("out", run="echo again\n"), replace=True)
    monkeypatch.undo()
    platform.again()
    platform.tick()
    assert platform.reader.record("demo") is None
    assert volumes(platform) == ["out"]


def test_a_host_path_and_what_links_lead_to_stay(platform, tmp_path):
    host = tmp_path / "data"
    host.mkdir()
    (host / "set.h5").write_text("x")
    ran(platform, mounting("out", host=host))
    (platform.home.volumes / "out" / "data").symlink_to(host)
    moved = tmp_path / "large-disk"
    moved.mkdir()
    (moved / "policy.pt").write_text("weights")
    (platform.home.volumes / "linked").symlink_to(moved)
    ran(platform, mounting("linked", name="other"))
    for name in ("demo", "other"):
        platform.controller.delete(name)
        platform.tick()
    assert volumes(platform) == []
    assert (host / "set.h5").exists()
    assert (moved / "policy.pt").exists()


def test_a_folder_that_the_run_closed_goes_too(platform):
    ran(platform, mounting("out"))
    closed = platform.home.volumes / "out" / "closed"
    (closed / "deeper").mkdir(parents=True)
    (closed / "deeper" / "file").write_text("x")
    closed.chmod(0)
    platform.controller.delete("demo")
    assert volumes(platform) == []


def _fails(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path / "inner"))


def test_what_cannot_be_removed_is_an_event_and_is_tried_again(platform, monkeypatch):
    ran(platform, mounting("out"))
    monkeypatch.setattr(keeper, "remove", _fails)
    platform.controller.delete("demo")
    for _ in range(3):
        platform.clock.advance(keeper.REMOVE_RETRY_S + 1)
        platform.tick()
    assert platform.reasons().count("NotRemoved") == 1
    told = next(event for event in platform.reader.events("demo") if event.reason == "NotRemoved")
    root = platform.home.job("demo").root
    assert told.type == "Warning"
    assert told.message == (
        f"{root} cannot be removed: {root}/inner: Permission denied; "
        "remove it by hand or correct its permissions, and the job goes"
    )
    assert platform.replays()
    monkeypatch.undo()
    platform.clock.advance(keeper.REMOVE_RETRY_S + 1)
    platform.tick()
    assert platform.reader.record("demo") is None
    assert volumes(platform) == []


def test_a_volume_that_no_attempt_has_made_is_no_trouble(platform):
    platform.controller.submit(mounting("out"))
    run_through(platform.cluster.worker("demo"))
    platform.tick()
    platform.controller.delete("demo")
    platform.tick()
    assert platform.reader.record("demo") is None
