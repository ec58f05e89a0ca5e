"""The fence itself, with bubblewrap as it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rlark.host import process, sandbox
from rlark.host.sandbox import Bind, Fence, Mirror, fenced, unavailable

OWN_PIDS = pytest.mark.parametrize("own_pids", [False, True], ids=["shared pids", "own pids"])


def run(script: str, fence: Fence, **given: object) -> subprocess.CompletedProcess[str]:
    """Run a script behind a fence."""
    return subprocess.run(
        fenced(["bash", "-c", script], fence), capture_output=True, text=True, timeout=20, check=False, **given
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_text("content")
    return folder


@pytest.mark.usefixtures("bubblewrap")
class TestFence:
    @OWN_PIDS
    def test_environment_folder_descriptors_and_exit_code_pass(self, tmp_path, own_pids):
        reading, writing = os.pipe()
        try:
            done = run(
                f"pwd; echo $KEPT; echo said >&{writing}; read -r line; echo $line; exit 3",
                Fence(own_pids=own_pids),
                cwd=tmp_path,
                env={**os.environ, "KEPT": "yes"},
                pass_fds=(writing,),
                input="typed\n",
            )
            assert done.stdout.split() == [str(tmp_path), "yes", "typed"]
            assert done.returncode == 3
            assert os.read(reading, 10) == b"said\n"
        finally:
            os.close(reading)
            os.close(writing)

    def test_a_path_of_the_jobs_own_does_not_hide_bubblewrap(self, tmp_path):
        bash = shutil.which("bash")
        argv = fenced([str(bash), "-c", "echo $PATH"], Fence())
        assert subprocess.check_output(argv, env={"PATH": str(tmp_path)}, text=True) == f"{tmp_path}\n"

    @OWN_PIDS
    def test_who_is_killed_by_a_signal_exits_with_128_and_its_number(self, own_pids):
        assert run("kill -KILL $$", Fence(own_pids=own_pids)).returncode == 128 + signal.SIGKILL

    @OWN_PIDS
    def test_a_signal_to_everybody_leaves_the_inside_its_time(self, own_pids):
        script = "trap 'sleep 0.2; echo saved; exit 5' TERM; echo up; while :; do sleep 0.02; done"
        started = process.spawn(fenced(["bash", "-c", script], Fence(own_pids=own_pids)), stdout=subprocess.PIPE)
        assert started.stdout is not None
        try:
            assert started.stdout.readline() == b"up\n"
            for one in (process.identify(started.pid), *process.descendants(started.pid)):
                assert one is not None
                process.send(one, signal.SIGTERM)
            assert started.stdout.read() == b"saved\n"
            assert started.wait(10) == 5
        finally:
            started.kill()
            started.wait(10)
            started.stdout.close()

    def test_signals_inside_are_as_without_a_fence(self):
        behind = run("grep -E 'Sig(Ign|Blk)' /proc/self/status", Fence()).stdout
        assert behind == subprocess.check_output(["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], text=True)

    def test_the_inside_ends_with_the_fence(self):
        started = process.spawn(fenced(["sleep", "600"], Fence(own_pids=True)))
        until = time.monotonic() + 10
        while not any("sleep" in process.command(one.pid) for one in process.descendants(started.pid)):
            assert time.monotonic() < until
            time.sleep(0.01)
        inside = process.descendants(started.pid)
        started.kill()
        started.wait(10)
        while any(process.alive(one) for one in inside):
            assert time.monotonic() < until
            time.sleep(0.01)

    def test_own_process_numbers_show_nobody_else(self):
        seen = run("echo /proc/[0-9]*", Fence(own_pids=True)).stdout.split()
        assert 0 < len(seen) < 5
        assert f"/proc/{os.getpid()}" not in seen
        assert f"/proc/{os.getpid()}" in run("echo /proc/[0-9]*", Fence()).stdout.split()

    def test_binds_show_folders_and_files_elsewhere(self, source, tmp_path):
        point, file = tmp_path / "point", tmp_path / "a-file"
        point.mkdir()
        (point / "hidden").write_text("x")
        file.touch()
        fence = Fence((Bind(str(source), str(point)), Bind(str(source / "file"), str(file))))
        done = run(f"ls {point}; cat {file}; echo new >{point}/written", fence)
        assert done.stdout == "file\ncontent"
        assert (source / "written").read_text() == "new\n"
        assert [path.name for path in point.iterdir()] == ["hidden"]
        assert file.read_text() == ""

    def test_read_only_holds_even_for_root_and_where_the_folder_is_its_own_mount_point(self, source):
        done = run(f"echo x >{source}/file; echo x >{source}/new", Fence((Bind(str(source), str(source), True),)))
        assert done.stderr.count("Read-only file system") == 2
        assert (source / "file").read_text() == "content"

    def test_the_inner_mount_lies_over_the_outer_one(self, source, tmp_path):
        outer = tmp_path / "outer"
        (outer / "inner").mkdir(parents=True)
        binds = (Bind(str(source), f"{outer}/inner"), Bind(str(outer), str(outer), True))
        for order in (binds, binds[::-1]):
            done = run(f"echo x >{outer}/inner/file && ! echo x >{outer}/no", Fence(order))
            assert done.returncode == 0, done.stderr

    def test_a_mirror_shows_what_was_there_and_takes_nothing(self, source, tmp_path):
        real = tmp_path / "real"
        (real / "folder").mkdir(parents=True)
        (real / "file").write_text("original")
        (real / "link").symlink_to("file")
        entries = tuple(Bind(str(real / name), str(real / name)) for name in ("folder", "file", "gone"))
        mirror = Mirror(str(real), entries, (("file", str(real / "link")),))
        fence = Fence((Bind(str(source), str(real / "new")),), mirrors=(mirror,))
        done = run(f"cd {real}; ls; cat link new/file; touch folder/x; touch lost", fence)
        assert done.stdout == "file\nfolder\nlink\nnew\noriginalcontent"
        assert "cannot touch 'lost': Read-only file system" in done.stderr
        assert (real / "folder" / "x").exists()
        assert not (real / "new").exists()

    @OWN_PIDS
    def test_devices_work(self, own_pids):
        assert run("echo x >/dev/null; head -c4 /dev/urandom | wc -c", Fence(own_pids=own_pids)).stdout.strip() == "4"

    def test_it_is_available(self):
        assert unavailable() == ""
        assert unavailable(own_pids=False) == ""


def a_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_bubblewrap_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unavailable() == "bubblewrap is not installed; install it: apt install bubblewrap, or dnf install bubblewrap"


@pytest.mark.parametrize(
    ("setting", "value", "cure"),
    [
        ("apparmor_restrict_unprivileged_userns", "1", "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
        ("unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
        ("max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"),
    ],
)
def test_what_the_kernel_forbids_is_named_with_its_cure(tmp_path, monkeypatch, setting, value, cure):
    a_program(tmp_path, "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    (tmp_path / setting).write_text(value + "\n")
    settings = tuple((tmp_path / path.name, forbidden, cure) for path, forbidden, cure in sandbox._SETTINGS)
    monkeypatch.setattr(sandbox, "_SETTINGS", settings)
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    said = unavailable()
    assert said.startswith("bubblewrap does not work here (bwrap: setting up uid map: Permission denied); ")
    assert cure in said


@pytest.mark.parametrize(("inside", "cure"), [(True, "--cap-add SYS_ADMIN"), (False, "ask the administrator")])
def test_a_container_must_be_allowed_to(tmp_path, monkeypatch, inside, cure):
    a_program(tmp_path, "bwrap", "echo 'bwrap: Creating new namespace failed: Operation not permitted' >&2; exit 1")
    mark = tmp_path / ".dockerenv"
    if inside:
        mark.touch()
    monkeypatch.setattr(sandbox, "_SETTINGS", ())
    monkeypatch.setattr(sandbox, "_CONTAINER_MARKS", (str(mark),))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert cure in unavailable()


def test_an_old_env_is_named(tmp_path, monkeypatch):
    a_program(tmp_path, "bwrap", "exit 0")
    a_program(tmp_path, "env", "echo \"env: unrecognized option '--ignore-signal=TERM,INT'\" >&2; exit 125")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "install coreutils 8.31 or newer" in unavailable()


def test_one_that_says_nothing_or_never_ends_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    a_program(tmp_path, "bwrap", "exit 9")
    assert "it exits with code 9" in unavailable()
    monkeypatch.setattr(sandbox, "_PATIENCE_S", 0.05)
    a_program(tmp_path, "bwrap", "exec sleep 5")
    assert "timed out" in unavailable()
