"""The same is found through both doors: `rlark validate` on a file, and the API on its text."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlark import configuration
from rlark.api.app import build_app
from rlark.cli.main import run
from rlark.control import submission
from rlark.control.controller import Controller
from rlark.control.reader import LedgerReader
from rlark.folder import Home, write_text
from rlark.spec.finding import Finding
from rlark.testing import FakeClock, FakeCluster, a_node

FOLDER = Path(__file__).parent / "broken"
TOKEN = "a-token-for-tests-0123456789"
ELSEWHERE = ("nodes", "read as", "exported", "grown to")
"""What a Job of `broken/` may say of itself that one of the doors knows nothing of."""
FILES = [
    file
    for file in sorted(FOLDER.glob("*.yaml"))
    if not any(f"# {key}: " in file.read_text(errors="replace") for key in ELSEWHERE)
]


@pytest.fixture
def as_golden(monkeypatch, judge):
    """Both doors look at the nodes, engines and facts of the broken Jobs."""

    def judged(source: Any, *_nodes: Any, **_more: Any) -> Any:
        return judge(source)

    monkeypatch.setattr(submission, "preflight", judged)
    monkeypatch.setattr(configuration, "preflight", judged)


@pytest.fixture
def post(tmp_path, as_golden):
    """Send a text to the API."""
    home = Home(tmp_path / "home")
    controller, reader = Controller(home, FakeCluster([a_node()], FakeClock()), FakeClock()), LedgerReader(home)
    write_text(home.token, TOKEN + "\n")
    app = build_app(controller, reader, home)

    def send(path: str, text: str) -> httpx.Response:
        async def send_it() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:1") as client:
                return await client.post(path, content=text, headers={"Authorization": f"Bearer {TOKEN}"})

        return asyncio.run(send_it())

    yield send
    controller.close()
    reader.close()


def told(findings: list[dict[str, Any]], file: str) -> list[str]:
    """Findings as lines, wherever the Job's own text was called something else."""
    lines = [str(Finding.model_validate(finding)) for finding in findings]
    return [re.sub(rf"^(?:-|{re.escape(file)}):", "job.yaml:", line) for line in lines]


def text_of(file: Path) -> str:
    """A broken Job without what mends it, which may hold the secret that is to go."""
    return file.read_text().partition("# mend: ")[0]


def over_http(text: str) -> str:
    """The same Job with its configuration named by an absolute path."""
    return re.sub(r"((?:path|dir|task): )(?=configs?/|\.\./configs|(?:robots/)?tasks/)", rf"\g<1>{FOLDER}/", text)


def test_the_api_finds_what_the_user_finds(post, golden):
    differ = {}
    for file in FILES:
        text = over_http(text_of(file))
        answer = post("/api/v1/validate", text).json()
        here = [finding.to_json() for finding in golden(text, file)]
        if told(answer["findings"], file.name) != told(here, file.name):
            differ[file.name] = (told(answer["findings"], file.name), told(here, file.name))
    assert list(differ.items()) == []


@pytest.mark.parametrize("path", ["validate", "preview", "preview?format=yaml", "rlinf.io/v1alpha1/jobs"])
@pytest.mark.parametrize("name", ["secret_in_script", "secret_aws", "secret_label", "secret_password", "secret_random"])
def test_no_answer_shows_a_secret(post, path, name):
    text = (FOLDER / f"{name}.yaml").read_text()
    secret = re.search(r"^# mend: \W*(\S+?)\"? => ", text, re.M)[1]
    assert len(secret) >= 7
    answer = post(f"/api/v1/{path}", over_http(text))
    assert answer.status_code in (200, 422)
    assert '"RL35' in answer.text
    assert secret not in answer.text


def test_the_command_finds_what_is_expected(as_golden, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("RLARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    shutil.copytree(FOLDER, tmp_path / "broken")
    monkeypatch.chdir(tmp_path / "broken")
    names = [file.name for file in FILES if "# over: " not in file.read_text()]
    for name in names:
        Path(name).write_text(text_of(FOLDER / name))
    run(["validate", *names, "--inventory", "nodes/box.yaml", "-o", "json"])
    out, err = capsys.readouterr()
    assert not err
    answers = json.loads(out)["files"]
    assert [answer["file"] for answer in answers] == names
    differ = {}
    for answer in answers:
        expected = re.findall(r"^# expect .*?(\w+ RL\d{3})", (FOLDER / answer["file"]).read_text(), re.M)
        if [f"{one['severity']} {one['code']}" for one in answer["findings"]] != expected:
            differ[answer["file"]] = (answer["findings"], expected)
    assert list(differ.items()) == []
