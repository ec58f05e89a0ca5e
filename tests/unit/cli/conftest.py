from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml

from rlark.api.app import build_app
from rlark.cli.main import run
from rlark.control.controller import Controller
from rlark.control.reader import LedgerReader
from rlark.folder import Home, write_json
from rlark.testing import FakeClock, FakeCluster, FakeWorker, a_node, job_text


@dataclass
class Result:
    """What one call of `rlark` gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a plain table, its titles first."""
        return [line.split("\t") for line in self.out.splitlines()]


Rlark = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A state directory of the test's own; nothing of the user's settings is seen."""
    home = Home(tmp_path / "home")
    home.create()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RLARK_HOME", str(home.root))
    for name in (
        "RLARK_ADDRESS",
        "RLARK_TOKEN",
        "RLARK_OUTPUT",
        "RLARK_COLOR",
        "NO_COLOR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
    ):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def rlark(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rlark:
    """Call `rlark` in this process."""

    def call(*arguments: object, stdin: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@dataclass
class Platform:
    """A whole platform but for its machines: ledger, controller and API on a port of loopback."""

    home: Home
    controller: Controller
    cluster: FakeCluster
    clock: FakeClock
    address: str

    def tick(self) -> None:
        self.controller.tick()

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Let the controller look at its Jobs all the time, as `rlark.boot` does."""
        over = threading.Event()

        def loop() -> None:
            while not over.wait(0.01):
                self.controller.tick()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def write_job(self, name: str = "demo", **job: Any) -> Path:
        """A Job file in the working directory."""
        path = Path(f"{name}.yaml")
        path.write_text(job_text(name, **job), encoding="utf-8")
        return path

    def worker(self, name: str = "demo") -> FakeWorker:
        return self.cluster.worker(name)


class Server:
    """One HTTP server on loopback for all tests; each test puts its own app behind it."""

    def __init__(self) -> None:
        self.app: Any = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(self._dispatch, interface="asgi3", log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._thread.start()

    async def _dispatch(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=10)
        self._listener.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def platform(home: Home, server: Server) -> Iterator[Platform]:
    clock = FakeClock()
    cluster = FakeCluster([a_node(socket.gethostname(), gpus=2)], clock)
    controller = Controller(home, cluster, clock)
    reader = LedgerReader(home)
    home.token.write_text("secret", encoding="utf-8")
    write_json(home.platform, {"address": server.address, "dashboard": ""})
    server.app = build_app(controller, reader, home)
    yield Platform(home, controller, cluster, clock, server.address)
    reader.close()
    controller.close()
