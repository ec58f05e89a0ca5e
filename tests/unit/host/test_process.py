from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from rlark.host import process, sandbox
from rlark.host.clock import SystemClock

CLOCK = SystemClock()


@pytest.fixture
def started():
    """Starts small processes and leaves none behind."""
    children = []

    def start(code: str, *, wait_for: str = "ready", isolated: bool = True) -> subprocess.Popen:
        flags = ["-S"] if isolated else []
        child = process.spawn([sys.executable, *flags, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
        children.append(child)
        if wait_for:
            assert child.stdout is not None
            assert child.stdout.readline().decode().startswith(wait_for)
        return child

    yield start
    for child in children:
        own = process.identify(child.pid)
        if own is not None:
            process.end_tree(own, 0, CLOCK)
        child.wait(5)
        child.stdout.close()


SLEEP = "print('ready', flush=True); import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def test_a_process_is_alive_until_it_has_ended_and_its_zombie_is_gone(started):
    child = started(SLEEP)
    own = process.identify(child.pid)
    assert own is not None
    assert process.alive(own)
    os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while process.alive(own) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process.alive(own)  # nobody has waited for it: it is a zombie
    assert process.identify(child.pid) is None


def test_another_start_time_is_another_process_and_gets_no_signal(started):
    child = started(SLEEP)
    own = process.identify(child.pid)
    recycled = process.ProcessId(child.pid, own.starttime + 1)
    assert not process.alive(recycled)
    assert process.send(recycled, signal.SIGKILL) is False
    assert process.end([recycled], 0, CLOCK) == []
    assert process.alive(own)


def test_spawn_makes_a_session_of_its_own_without_standard_input(started):
    child = started("import os, sys; print('ready', os.getsid(0) == os.getpid(), sys.stdin.read() == '')", wait_for="")
    assert child.stdout.readline().decode().split() == ["ready", "True", "True"]


def test_descendants_come_parents_first_and_without_the_root(started):
    child = started(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-S", "-c", {SLEEP!r}])
        time.sleep(60)
        """)
    found = process.descendants(child.pid)
    assert len(found) == 1
    assert child.pid not in [one.pid for one in found]
    assert child.pid in [one.pid for one in process.descendants(os.getpid())]


def test_end_tree_ends_on_sigterm_within_the_grace(started):
    child = started(SLEEP)
    begun = time.monotonic()
    assert process.end_tree(process.identify(child.pid), 10, CLOCK) == []
    assert time.monotonic() - begun < 5
    assert child.wait(5) == -signal.SIGTERM


def test_end_tree_kills_what_ignores_sigterm(started):
    child = started(STUBBORN)
    assert process.end_tree(process.identify(child.pid), 0.2, CLOCK) == []
    assert child.wait(5) == -signal.SIGKILL


def test_a_process_that_is_halted_has_its_grace_too(started):
    child = started(SLEEP)
    child.send_signal(signal.SIGSTOP)
    assert process.end_tree(process.identify(child.pid), 20, CLOCK) == []
    assert child.wait(5) == -signal.SIGTERM


def test_end_tree_takes_children_that_outlive_their_parent(started):
    """The parent dies by SIGTERM at once, its child ignores it and is orphaned: the walk must not lose it."""
    child = started(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-S", "-c", {STUBBORN!r}])
        time.sleep(60)
        """)
    [orphan] = process.descendants(child.pid)
    assert process.end_tree(process.identify(child.pid), 0.3, CLOCK) == []
    assert not process.alive(orphan)


def test_a_subreaper_ends_daemons_that_left_the_session(started):
    """`setsid` and a double fork lead out of every group, not out of a subreaper's tree."""
    child = started(
        """
        import os, signal, time
        from rlark.host import process, sandbox
        from rlark.host.clock import SystemClock

        process.become_subreaper()
        first = os.fork()
        if first == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
            os._exit(0)
        os.waitpid(first, 0)
        [daemon] = process.descendants(os.getpid())
        left = process.end_tree(None, 0.2, SystemClock())
        process.reap()
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            left.append("nobody")
        print("ready", process.describe(daemon) == str(daemon.pid), left, flush=True)
        """,
        isolated=False,
        wait_for="",
    )
    assert child.stdout.readline().decode().split() == ["ready", "True", "['nobody']"]


def test_what_is_spared_goes_on_with_or_without_what_is_below(started):
    family = f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-S", "-c", {SLEEP!r}])
        time.sleep(60)
        """
    alone, tree = started(family), started(family)
    roots = [process.identify(child.pid) for child in (alone, tree)]
    below = [process.descendants(child.pid)[0] for child in (alone, tree)]
    spared = process.Spared(processes=frozenset([roots[0]]), trees=frozenset([roots[1]]))
    mine = frozenset(process.descendants(os.getpid())) - {*roots, *below}
    others = process.Spared(spared.processes | mine, spared.trees)
    assert process.end_tree(None, 0.2, CLOCK, others) == []
    assert [process.alive(one) for one in (*roots, *below)] == [True, True, False, True]


def test_lineage_leads_from_a_process_up_to_another(started):
    child = started(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-S", "-c", {SLEEP!r}])
        time.sleep(60)
        """)
    [grandchild] = process.descendants(child.pid)
    assert process.lineage(grandchild, os.getpid()) == [process.identify(child.pid)]
    assert process.lineage(grandchild, child.pid) == []
    assert process.lineage(process.ProcessId(2**22, 1), os.getpid()) == []


def test_without_a_namespace_inner_and_outer_numbers_are_the_same(started):
    child = started(SLEEP)
    assert process.outer([child.pid, 2**22], os.getpid()) == {child.pid: process.identify(child.pid)}


@pytest.mark.skipif(bool(sandbox.unavailable()), reason="bubblewrap does not work here: apt install bubblewrap")
def test_numbers_of_an_inner_namespace_are_told_as_ours():
    code = "import os; print(os.getpid(), flush=True); import time; time.sleep(60)"
    argv = sandbox.fenced([sys.executable, "-S", "-c", code], sandbox.Fence(own_pids=True))
    child = process.spawn(argv, stdout=subprocess.PIPE)
    try:
        inner = int(child.stdout.readline())
        found = process.outer([inner], child.pid)[inner]
        assert found.pid != inner
        assert "time.sleep(60)" in process.command(found.pid)
        assert found in process.descendants(child.pid)
    finally:
        process.end_tree(process.identify(child.pid), 0, CLOCK)
        child.wait(5)
        child.stdout.close()


def test_several_families_are_told_apart_in_one_look(started):
    one, two = (started(SLEEP) for _ in range(2))
    ours, none = process.families([os.getpid(), one.pid])
    assert {process.identify(one.pid), process.identify(two.pid)} <= set(ours)
    assert none == []


def test_a_process_is_described_by_pid_and_command(started):
    child = started(SLEEP)
    own = process.identify(child.pid)
    assert process.describe(own).startswith(f"{child.pid} ({sys.executable}")
    assert process.describe(process.ProcessId(child.pid, 1)) == str(child.pid)
    assert process.name(child.pid).startswith("python")
    assert process.name(2**22) == ""


@pytest.mark.parametrize("value", [None, [], {}, {"pid": 1}, {"pid": "1", "starttime": 2}])
def test_what_is_no_identity_is_read_as_none(value):
    assert process.ProcessId.from_json(value) is None


def test_an_identity_survives_a_file():
    own = process.this_process()
    assert process.ProcessId.from_json(own.to_json()) == own
