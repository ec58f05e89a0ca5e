"""A secret on its way from the store into a run, which prints it in every form: it is found in the store only."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from rlark.folder import Home, JobFolder, write_json
from rlark.host import process
from rlark.plan.node import Device, HeadAddress, Lease
from rlark.plan.plan import Plan, SecretSource, Signal
from rlark.secrets import SecretStore

from .conftest import Attempt, Forked

TOKEN = "tk/9+\"quoted' \\ größe&x=%41"
KEY = "-----BEGIN KEY-----\nMIIEabcdefghijklmnop\nqrstuvwxyz0123456789\n-----END KEY-----\n"
PRINTS = r"""
import base64, json, os, sys, time
from urllib.parse import quote, quote_plus
token, key = os.environ["TOKEN"], os.environ["KEY"]
plain = token.encode()
for text in (token, f"Bearer {token}.", repr(token), json.dumps(token), json.dumps({"a": [token]}, ensure_ascii=False)):
    print(text)
    print("complaint:", text, file=sys.stderr)
print(quote(token), quote(token, safe=""), quote_plus(token))
print(base64.b64encode(plain).decode(), base64.urlsafe_b64encode(plain).decode().rstrip("="))
for user in ("u", "us", "use", "user"):
    print("Basic", base64.b64encode(f"{user}:{token}".encode()).decode())
print(base64.b64encode(key.encode()).decode())
print(base64.encodebytes(key.encode()).decode())
print(key)
print(json.dumps(key), "mid MIIEabcdefghijklmnop mid")
for piece in (plain[:7], plain[7:20], plain[20:] + b"\n"):
    os.write(1, piece)
    time.sleep(0.02)
for before in (65536 - 9, 65536 - len(plain), 65536 + 3):
    os.write(1, b"x" * before + plain + b"y" * 70000 + b"\n")
print(f"iter 1/2 meanReward=1.5 note={token}")
print("the values are", len(plain), len(key))
"""


def secret_words() -> list[bytes]:
    """What must not stand anywhere: the values, and what they can be made of again."""
    plain = TOKEN.encode()
    shifted = [base64.b64encode(b"x" * n + plain)[4:-4] for n in range(3)]
    forms = [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        quote(TOKEN),
        quote(TOKEN, safe=""),
        repr(TOKEN)[1:-1],
    ]
    lines = [line.encode() for line in KEY.splitlines()]
    return [*(form.encode() for form in forms), *shifted, *lines, base64.b64encode(KEY.encode())[:60]]


def places(root: Path, words: list[bytes]) -> set[Path]:
    """The files under a folder that hold one of the words."""
    files = [path for path in root.rglob("*") if path.is_file()]
    assert files
    return {path for path in files if any(word in path.read_bytes() for word in words)}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    store = SecretStore(home.secrets)
    store.put("hub", "token", TOKEN)
    store.put("deploy", "key.pem", KEY)
    return home


@pytest.fixture
def begin(home: Home, head: str):
    started: list[Attempt] = []

    def start(**plan: object) -> Attempt:
        folder = JobFolder(home.jobs / "demo")
        folder.create()
        given = {
            "job": "demo",
            "node": "box",
            "grace_s": 5.0,
            "secrets": {
                "TOKEN": SecretSource(name="hub", key="token"),
                "KEY": SecretSource(name="deploy", key="key.pem"),
            },
        }
        write_json(folder.plan, Plan.model_validate(given | plan).to_json())
        lease = Lease(job="demo", attempt=1, key="k", node="box", devices=[Device(id="3", faked=True)])
        lease = lease.model_copy(update={"head": HeadAddress(address=head, session="session_1")})
        write_json(folder.lease, lease.to_json())
        started.append(Attempt(folder, 1, Forked(folder.root, {"PATH": os.environ["PATH"]})))
        return started[-1]

    yield start
    for attempt in started:
        if attempt.process.poll() is None:
            attempt.stop()


def test_what_the_run_prints_in_whatever_form_stands_masked_in_its_logs(begin, home, tmp_path):
    (tmp_path / "prints.py").write_text(PRINTS)
    run = f'python3 {tmp_path}/prints.py\nset -x\n: "$TOKEN" "$KEY"\nset +x\necho "the end: $TOKEN" >&2\nexit 3'
    attempt = begin(run=run, signal=Signal(pattern=r"iter \d")).end()
    out, err = attempt.log("stdout"), attempt.log("stderr")
    assert f"the values are {len(TOKEN.encode())} {len(KEY)}" in out  # they were the real ones, in full
    assert "Bearer ***." in out
    assert "complaint: ***" in err
    assert "mid *** mid" in " ".join(out)
    assert sum(line.count("x") > 60000 for line in out) == 3
    assert sum(line.count("***") for line in out) >= 25
    assert attempt.outcome["message"].endswith("the end: ***")
    assert "note=***" in attempt.report("SignalSeen")["message"]
    assert places(home.root, secret_words()) == {home.secrets / "hub.json", home.secrets / "deploy.json"}


def test_what_a_failing_run_says_of_itself_is_told_masked(begin, home):
    cause = '{"exception": "E", "message": "no " + os.environ["TOKEN"], "lines": ["a", os.environ["KEY"]]}'
    write = f"import json, os; print(json.dumps({cause}))"
    run = f"python3 -c '{write}' > $RLARK_JOB_DIR/failure.json; exit 1"
    attempt = begin(run=run).end()
    assert attempt.outcome["message"].startswith("E: no ***")
    assert attempt.outcome["data"]["cause"]["lines"][0] == "a"
    told = attempt.folder.reports.read_bytes()
    assert not [word for word in secret_words() if word in told]


def test_a_prepare_script_that_fails_shows_no_secret_either(begin, home):
    attempt = begin(prepare='echo "$TOKEN"\nuse() { echo "no: $1" >&2; return 1; }\nuse "$TOKEN"', run="true").end()
    assert attempt.outcome["reason"] == "PrepareFailed"
    assert "***" in attempt.outcome["message"]
    assert "***" in attempt.log("stdout")
    assert places(home.root, secret_words()) == {home.secrets / "hub.json", home.secrets / "deploy.json"}


def test_no_command_line_and_no_file_of_the_job_holds_it_while_it_runs(begin, home):
    attempt = begin(
        prepare="true", run="python3 -c \"import time; print('it runs', flush=True); time.sleep(60)\" & wait"
    )
    attempt.wait_for("it runs")
    worker = attempt.process._process.pid
    running = process.descendants(worker)
    assert len(running) >= 2
    shown = b"".join(Path(f"/proc/{one.pid}/cmdline").read_bytes() for one in running)
    inside = b"".join(Path(f"/proc/{one.pid}/environ").read_bytes() for one in running)
    assert TOKEN.encode() in inside
    assert not [word for word in secret_words() if word in shown]
    assert places(home.root, secret_words()) == {home.secrets / "hub.json", home.secrets / "deploy.json"}
    attempt.stop()
    assert attempt.outcome["reason"] == "Stopped"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda store: store.delete("hub"),
        lambda store: store.put("hub", "other", "something") and store.delete("hub", "token"),
        lambda store: (store.folder / "hub.json").write_text("tk/9 no JSON"),
        lambda store: (store.folder / "hub.json").unlink() or (store.folder / "hub.json").mkdir(),
    ],
    ids=["deleted", "key deleted", "broken", "unreadable"],
)
def test_a_secret_that_is_missing_ends_the_attempt_before_prepare(begin, home, break_it):
    break_it(SecretStore(home.secrets))
    attempt = begin(prepare="touch $RLARK_JOB_DIR/ran", run="touch $RLARK_JOB_DIR/ran").end()
    assert attempt.steps == ["Worker", "Outcome"]
    outcome = attempt.outcome
    assert (outcome["status"], outcome["reason"]) == (False, "SecretMissing")
    for word in ("TOKEN", "'hub'", "'token'", "rlark secrets set hub token", "rlark start demo"):
        assert word in outcome["message"]
    assert "tk/9" not in outcome["message"]
    assert not (attempt.folder.root / "ran").exists()


def test_each_attempt_reads_the_store_anew(begin, home):
    first = begin(run="echo ${#TOKEN}").end()
    SecretStore(home.secrets).put("hub", "token", "another-value")
    second = begin(run="echo ${#TOKEN}; echo $TOKEN").end()
    assert str(len(TOKEN)) in first.log() or str(len(TOKEN.encode())) in first.log()
    assert second.log()[-3:] == ["13", "***", "Stopping Ray cluster..."]
