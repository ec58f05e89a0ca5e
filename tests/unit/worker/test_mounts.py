"""An attempt's mounts, made and looked at with bubblewrap as it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlark.folder import JobFolder
from rlark.host import bash
from rlark.host.sandbox import Fence, fenced
from rlark.plan.plan import Plan, PlannedMount, RankPlacement
from rlark.worker import mounts
from rlark.worker.mounts import MountError, fence

UNSHARED = "/rlark-no-such-folder"


@pytest.fixture
def base(open_folder: Path) -> Path:
    """Where a test keeps its state directory and data."""
    return open_folder


@pytest.fixture
def folder(base: Path) -> JobFolder:
    return a_job(base)


def a_job(base: Path) -> JobFolder:
    made = JobFolder(base / "home" / "jobs" / "demo")
    made.create()
    return made


def a_source(base: Path, name: str = "source") -> Path:
    source = base / name
    source.mkdir()
    (source / "file").write_text("content")
    return source


def plan(*listed: PlannedMount, sandbox: str = "bubblewrap", head: str = "platform") -> Plan:
    return Plan(job="demo", node="node-0", mounts=list(listed), sandbox=sandbox, head=head)


def mount(path: object, host: object = "", **more: Any) -> PlannedMount:
    return PlannedMount(path=str(path), host=str(host), **more)


def run(script: str, shut: Fence) -> subprocess.CompletedProcess[str]:
    """Run a script behind a fence."""
    argv = fenced(["bash", "-c", script], shut)
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)


# ---- what the run sees


@pytest.mark.usefixtures("bubblewrap")
class TestSeen:
    def test_a_container_path_is_real_for_the_job_only(self, base, folder):
        source = a_source(base)
        done = run("cat /mnt/data/file; echo x >/mnt/data/new", fence(plan(mount("/mnt/data", source)), folder))
        assert done.stdout == "content"
        assert (source / "new").read_text() == "x\n"
        assert not Path("/mnt/data").exists()

    def test_a_folder_that_is_where_the_job_looks_needs_nothing(self, base, folder):
        source = a_source(base)
        assert fence(plan(mount(source, source)), folder).binds == ()
        assert fence(plan(mount(source, source), sandbox="none"), folder) == Fence()

    def test_read_only_holds_at_the_same_path_too(self, base, folder):
        source = a_source(base)
        shut = fence(plan(mount(source, source, read_only=True)), folder)
        assert "Read-only file system" in run(f"echo x >{source}/file", shut).stderr
        assert (source / "file").read_text() == "content"

    def test_a_folder_hidden_by_an_outer_mount_is_shown_again(self, base, folder):
        outer, inner = a_source(base), base / "point" / "inner"
        inner.mkdir(parents=True)
        (inner / "kept").write_text("here")
        shut = fence(plan(mount(base / "point", outer), mount(inner, inner)), folder)
        assert run(f"cat {base}/point/file {inner}/kept", shut).stdout == "contenthere"

    def test_volumes_are_made_for_the_owner_only_and_kept(self, base, folder):
        wanted = plan(mount("/mnt/out", volume="out"))
        assert run("echo 1 >/mnt/out/step", fence(wanted, folder)).returncode == 0
        assert run("cat /mnt/out/step", fence(wanted, folder)).stdout == "1\n"
        volume = base / "home" / "volumes" / "out"
        assert (volume.stat().st_mode & 0o777, (volume / "step").read_text()) == (0o700, "1\n")

    def test_scratch_is_empty_at_each_attempt(self, base, folder):
        source = a_source(base)
        wanted = plan(mount("/mnt/a", source), mount("/mnt/tmp", scratch=True))
        leave = f"ls /mnt/tmp; echo x >/mnt/tmp/left; ln -s {source} /mnt/tmp/link; mkdir -m 0 /mnt/tmp/closed"
        assert [run(leave, fence(wanted, folder)).stdout for _ in range(2)] == ["", ""]
        assert (folder.scratch / "1" / "left").exists()
        assert (source / "file").exists()

    def test_a_mount_over_a_folder_hides_it_for_the_job_only(self, base, folder):
        point = base / "point"
        point.mkdir()
        (point / "hidden").write_text("x")
        assert run(f"ls {point}", fence(plan(mount(point, a_source(base))), folder)).stdout == "file\n"
        assert [path.name for path in point.iterdir()] == ["hidden"]

    def test_files_are_mounted_as_well_as_folders(self, base, folder):
        source = a_source(base)
        (base / "there").write_text("old")
        listed = [mount(path, source / "file") for path in (base / "there", base / "made", "/mnt/file", UNSHARED)]
        shut = fence(plan(*listed), folder)
        assert run(f"cat {base}/there {base}/made /mnt/file {UNSHARED}", shut).stdout == "content" * 4

    def test_mounts_within_mounts_whatever_their_order(self, base, folder):
        outer, inner = a_source(base), a_source(base, "inner")
        (outer / "sub").mkdir()
        listed = [mount("/mnt/a/sub/deep", inner), mount("/mnt/a", outer), mount("/mnt/a/new", volume="v")]
        shut = fence(plan(*listed), folder)
        assert run("ls /mnt/a /mnt/a/sub; touch /mnt/a/new/y", shut).stdout.split() == [
            *("/mnt/a:", "file", "new", "sub"),
            *("/mnt/a/sub:", "deep"),
        ]
        assert sorted(shut.made) == [f"{outer}/new", f"{outer}/sub/deep"]
        assert (base / "home/volumes/v/y").exists()

    def test_a_mount_point_in_a_read_only_mount_leaves_its_folder_as_it_is(self, base, folder):
        outer, inner = a_source(base), a_source(base, "inner")
        (outer / "sub").mkdir()
        shut = fence(plan(mount("/mnt/a", outer, read_only=True), mount("/mnt/a/new", inner)), folder)
        done = run("cat /mnt/a/file; touch /mnt/a/new/y; touch /mnt/a/file; touch /mnt/a/sub/x; touch /mnt/a/z", shut)
        assert done.stdout == "content"
        assert done.stderr.count("Read-only file system") == 3
        assert (inner / "y").exists()
        assert not (outer / "new").exists()

    def test_links_on_the_way_are_followed_as_the_job_sees_them(self, base, folder):
        source, other = a_source(base), a_source(base, "other")
        (other / "file").write_text("other")
        (base / "point").mkdir()
        (base / "link").symlink_to(base / "point")
        (source / "way").symlink_to("/mnt/b")
        listed = [mount(base / "link" / "x", other), mount("/mnt/a", source), mount("/mnt/b", other)]
        shut = fence(plan(*listed), folder)
        assert run(f"cat {base}/link/x/file /mnt/a/way/file", shut).stdout == "otherother"
        assert shut.made == (f"{base}/point/x",)
        assert shut.view.real("/mnt/a/way/file") == f"{other}/file"

    def test_the_state_directory_is_where_the_run_is_told(self, base, folder):
        shut = fence(plan(mount("/mnt/a", a_source(base)), mount(UNSHARED, volume="v")), folder)
        assert run(f"cd {folder.work} && echo x >{folder.artifacts}/policy.onnx", shut).returncode == 0
        assert (folder.artifacts / "policy.onnx").exists()

    @pytest.mark.parametrize("head", ["platform", "job"])
    def test_an_ordinary_user_keeps_his_own_number_and_his_files(self, base, ordinary_user, head):
        base.chmod(0o777)

        def part() -> None:
            folder, source = a_job(base), a_source(base)
            listed = [mount("/mnt/a", source), mount(UNSHARED + "/deep", volume="v"), mount("/etc/new", scratch=True)]
            shut = fence(plan(*listed, head=head), folder)
            done = run(f"id -u; touch /mnt/a/mine {UNSHARED}/deep/mine /etc/new/mine; cat /etc/hostname", shut)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[0] == str(os.geteuid())
            made = [source / "mine", base / "home/volumes/v/mine", folder.scratch / "2" / "mine"]
            assert {path.stat().st_uid for path in made} == {os.geteuid()}
            assert {mirror.path for mirror in shut.mirrors} == {"/", "/mnt", "/etc"}

        ordinary_user(part)

    def test_a_folder_that_the_user_cannot_write_is_rebuilt_not_written(self, base, ordinary_user):
        shared = base / "shared"
        (shared / "others").mkdir(parents=True)
        shared.chmod(0o555)
        (shared / "others").chmod(0o777)

        def part() -> None:
            folder, source = a_job(base), a_source(base)
            shut = fence(plan(mount(shared / "new", source)), folder)
            done = run(f"ls {shared}; touch {shared}/others/x; touch {shared}/lost", shut)
            assert done.stdout.split() == ["new", "others"]
            assert "Read-only file system" in done.stderr

        ordinary_user(part)
        assert [path.name for path in shared.iterdir()] == ["others"]
        shared.chmod(0o755)
        assert (shared / "others" / "x").exists()


def test_ranks_that_the_platforms_head_runs_get_a_python_behind_the_fence(base, folder, bubblewrap):
    wanted = plan(mount("/mnt/a", a_source(base)))
    placed = wanted.model_copy(update={"placement": {"actor": [RankPlacement(rank=0, gpus=[], local_rank=0)]}})
    fence(placed, folder)
    done = subprocess.run(
        [folder.fenced_python, "-c", "import sys; print(open('/mnt/a/file').read(), sys.argv[1:])", "a b"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == "content ['a b']\n"


@pytest.mark.parametrize(
    "change",
    [{"placement": {}}, {"fused": True}, {"head": "job"}, {"mounts": []}],
    ids=lambda change: next(iter(change)),
)
def test_without_ranks_outside_of_the_fence_there_is_no_other_python(base, folder, change):
    wanted = plan(mount("/mnt/a", a_source(base)))
    ranks = {"actor": [RankPlacement(rank=0, gpus=[], local_rank=0)]}
    fence(wanted.model_copy(update={"placement": ranks, **change}), folder)
    assert not folder.fenced_python.exists()


# ---- mount points on the node


def test_a_missing_mount_point_is_made_on_the_node_and_told(base, folder):
    point = base / "deep" / "point"
    assert fence(plan(mount(point, a_source(base))), folder).made == (str(point),)
    assert point.is_dir()
    assert fence(plan(mount(point, base / "source")), folder).made == ()


@pytest.mark.parametrize("path", ["/mnt/rlark-x/deep", "/srv/rlark-x", "/opt/rlark-x", "/media/rlark-x", UNSHARED])
def test_folders_that_all_share_stay_as_they_are(base, folder, path):
    shut = fence(plan(mount(path, a_source(base))), folder)
    assert shut.made == ()
    assert len(shut.mirrors) == 1
    assert not Path(path).exists()


# ---- what cannot be made


def refused(folder: JobFolder, *listed: PlannedMount, **more: Any) -> str:
    with pytest.raises(MountError) as refusal:
        fence(plan(*listed, **more), folder)
    return str(refusal.value)


def test_a_source_that_has_vanished_is_named(base, folder):
    assert refused(folder, mount("/mnt/data", base / "gone")) == (
        f"the mount /mnt/data ({base}/gone): {base}/gone does not exist on this node; make it, or correct hostPath"
    )


def test_a_source_that_the_user_may_not_read_is_named(base, ordinary_user):
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    closed.chmod(0)

    def part() -> None:
        said = refused(a_job(base), mount("/mnt/data", closed))
        assert said.endswith(f"this user may not read {closed}; correct its permissions, or hostPath")
        said = refused(a_job(base), mount("/mnt/data", closed / "inner"))
        assert f"{closed}/inner cannot be used: Permission denied" in said

    ordinary_user(part)


def test_a_volume_name_that_a_file_has_is_told(base, folder):
    (base / "home" / "volumes").mkdir()
    taken = base / "home" / "volumes" / "out"
    taken.write_text("a file")
    said = refused(folder, mount("/mnt/out", volume="out"))
    assert said.endswith(f"{taken} is no folder; move it away, or name the volume otherwise")


def test_a_full_disk_is_told(folder, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mounts.Path, "mkdir", full)
    said = refused(folder, mount("/mnt/out", volume="out"))
    assert said.endswith("volumes/out cannot be used: No space left on device")


def test_what_scratch_cannot_be_emptied_of_is_named(folder, monkeypatch):
    def fails(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path / "0"))

    monkeypatch.setattr(mounts, "remove", fails)
    said = refused(folder, mount("/mnt/tmp", scratch=True))
    assert said == (
        f"the scratch folder {folder.scratch} cannot be emptied: {folder.scratch}/0: Permission denied; "
        "remove it by hand"
    )


@pytest.mark.parametrize("path", ["/", "/proc", "/dev", "/sys", "/proc/sys", "/sys/fs"])
def test_what_no_process_can_do_without_is_not_hidden(base, folder, path):
    assert f"would hide {path} from the Job" in refused(folder, mount(path, a_source(base)))


@pytest.mark.parametrize("program", [bash.program(), sys.executable])
def test_a_program_that_every_job_needs_is_not_hidden(base, folder, program):
    place = Path(program).parent
    said = refused(folder, mount(place, a_source(base)))
    assert f"the mount {os.path.realpath(place)} ({base / 'source'}) would hide {program} from the Job" in said


def test_the_state_directory_is_neither_hidden_nor_mounted_into(base, folder):
    source = a_source(base)
    inside = [folder.root.parent / "other" / "artifacts", folder.checkpoints, folder.home.root]
    for path in (*inside, base):
        said = refused(folder, mount(path, source))
        assert f"would hide rlark's state directory {base}/home" in said
        assert "choose another mountPath" in said


def test_two_mounts_at_one_place_are_refused_even_by_way_of_a_link(base, folder):
    source = a_source(base)
    (base / "point").mkdir()
    (base / "link").symlink_to("point")
    said = refused(folder, mount(base / "link", source), mount(base / "point", volume="v"))
    assert said.endswith(f"another mount is at {base}/point already; choose another mountPath")


@pytest.mark.parametrize("of_file", [True, False])
def test_a_file_and_a_folder_do_not_lie_on_each_other(base, folder, of_file):
    source = a_source(base)
    (base / "folder").mkdir()
    (base / "plain").write_text("x")
    listed = mount(base / "folder", source / "file") if of_file else mount(base / "plain", source)
    said = refused(folder, listed)
    assert ("is a folder on this node" if of_file else "is a file on this node") in said


def test_a_mount_point_below_a_file_is_refused(base, folder):
    source = a_source(base)
    said = refused(folder, mount(source / "file" / "deeper", source))
    assert said.endswith(f"{source}/file is a file on this node; choose another mountPath")


def test_a_circle_of_links_is_told(base, folder):
    (base / "one").symlink_to("one")
    assert "symbolic links" in refused(folder, mount(base / "one" / "x", a_source(base)))


def test_a_folder_with_too_much_in_it_is_not_rebuilt(base, folder, monkeypatch):
    monkeypatch.setattr(mounts, "_MOST_ENTRIES", 0)
    said = refused(folder, mount("/mnt/rlark-x", a_source(base)))
    assert said.endswith("/mnt holds more than 0 entries; make the mount point on the node")


def test_without_a_sandbox_nothing_is_mounted_and_that_is_said(base, folder):
    said = refused(folder, mount("/mnt/data", a_source(base)), sandbox="none")
    assert "can only be made with bubblewrap" in said
    assert "apt install bubblewrap" in said


def test_process_numbers_of_its_own_go_with_a_head_of_its_own(folder):
    assert fence(plan(head="job"), folder) == Fence(own_pids=True)
    assert fence(plan(head="platform"), folder) == Fence()
