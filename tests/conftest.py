"""What every test may rely on: nothing skipped in CI, nothing left running at the end."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlark.host import sandbox

NOBODY = 65534
LAST = "test_nothing_is_left_running"
PR_SET_CHILD_SUBREAPER = 36
CLOSERS = pytest.StashKey[list[Callable[[], None]]]()


def pytest_configure(config: pytest.Config) -> None:
    # Orphans of the tests become children of this process, so the last test can see them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    config.stash[CLOSERS] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = ("unit", "integration", "acceptance")

    def place(item: pytest.Item) -> tuple[bool, int]:
        room = next((i for i, name in enumerate(order) if name in item.path.parts), len(order))
        return item.name == LAST, room

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and nothing may be skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def closers(request: pytest.FixtureRequest) -> list[Callable[[], None]]:
    """What session fixtures have started; each closer is harmless when called twice."""
    return request.config.stash[CLOSERS]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference cases beside the project."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"the reference cases are not here: {folder.name}/ beside the project")
    return folder


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """bubblewrap works here."""
    if reason := sandbox.unavailable():
        pytest.skip(reason)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may reach and write."""
    folder = Path(tempfile.mkdtemp(prefix="rlark-t-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ordinary_user() -> Callable[[Callable[[], None]], None]:
    """Runs a test's part in a process of a user who is not root, and fails where it does."""

    def become(part: Callable[[], None]) -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        part()

    def run(part: Callable[[], None]) -> None:
        child = multiprocessing.get_context("fork").Process(target=become, args=(part,))
        child.start()
        child.join()
        assert child.exitcode == 0, "it fails for an ordinary user; the traceback is in the captured output"

    return run
