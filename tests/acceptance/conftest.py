"""Platforms of the suite's own, with their own ports and state."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.user import User


def a_platform(closers: list[Callable[[], None]], *arguments: str) -> Iterator[User]:
    """A platform for the session."""
    with tempfile.TemporaryDirectory(prefix="rlark-a-", ignore_cleanup_errors=True) as folder:
        user = User(Path(folder) / "home")
        closers.append(user.down)
        user.up(*arguments)
        yield user
        user.down()


@pytest.fixture(scope="session")
def machine(closers: list[Callable[[], None]]) -> Iterator[User]:
    """This machine as it is, with four CPUs to lease and no GPU."""
    yield from a_platform(closers, "--num-cpus", "4", "--num-gpus", "0")


@pytest.fixture(scope="session")
def eight_gpus(closers: list[Callable[[], None]]) -> Iterator[User]:
    """A machine that claims eight GPUs."""
    yield from a_platform(closers, "--num-cpus", "8", "--num-gpus", "8")


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[User]:
    """Somebody who has started nothing yet."""
    with tempfile.TemporaryDirectory(prefix="rlark-n-", ignore_cleanup_errors=True) as folder:
        user = User(Path(folder) / "home")
        yield user
        user.down()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a Job file."""

    def into(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return path

    return into
