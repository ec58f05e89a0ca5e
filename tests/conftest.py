"""What every test may rely on: nothing skipped in CI, nothing left running at the end."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
