"""A controller over a fake cluster, and what tests need beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rlark.control.controller import Controller
from rlark.control.phases import replay
from rlark.control.reader import LedgerReader
from rlark.folder import Home
from rlark.testing import FakeClock, FakeCluster, a_node


@dataclass
class Platform:
    """Everything of one platform; `again` is what a killed controller leaves behind and a new one finds."""

    home: Home
    clock: FakeClock
    cluster: FakeCluster
    controller: Controller
    reader: LedgerReader

    def again(self) -> Controller:
        """Forget the controller without closing anything, as SIGKILL does, and start another."""
        self.controller = Controller(self.home, self.cluster, self.clock)
        return self.controller

    def status(self, name: str = "demo") -> dict[str, Any]:
        return self.reader.job(name)["status"]

    def phase(self, name: str = "demo") -> str:
        return self.status(name)["phase"]

    def reasons(self, name: str = "demo") -> list[str]:
        return [event.reason for event in self.reader.events(name)]

    def tick(self, times: int = 2) -> None:
        for _ in range(times):
            self.controller.tick()

    def replays(self, name: str = "demo") -> bool:
        record = self.reader.record(name)
        return replay(self.reader.history(record.uid)) == record


@pytest.fixture
def platform(tmp_path):
    home, clock = Home(tmp_path / "home"), FakeClock()
    cluster = FakeCluster([a_node(gpus=2)], clock)
    made = Platform(home, clock, cluster, Controller(home, cluster, clock), LedgerReader(home))
    yield made
    made.controller.close()
    made.reader.close()
