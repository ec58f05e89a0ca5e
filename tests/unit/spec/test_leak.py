"""Secrets in a Job's values: found where they stand, and never shown."""

from __future__ import annotations

import json
import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.spec.finding import Finding
from rlark.spec.leak import Leak, Veil, find_in_comments, find_in_text, find_leaks
from rlark.spec.yaml import parse

GITHUB = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
KEY = """\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ
AAAAtzc2gtZWQyNTUxOQAAACDkq1N7
-----END OPENSSH PRIVATE KEY-----
"""


def where(data) -> list[tuple[str, str, int, int]]:
    return [(leak.code, leak.path, leak.line, leak.column) for leak in find_leaks(data)]


def test_everywhere_in_the_values():
    data = {
        "metadata": {"labels": {"a": GITHUB}, "annotations": {GITHUB: "b"}},
        "spec": {
            "sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGH7rN0pO0eW0C2b3J6cK0xW3iB9k2fQeXv8mJY5tYzA",
            "tasks": [
                {
                    "runScript": f"cd /x\n  git clone https://me:{GITHUB}@example.com\n{KEY}true\n",
                    "ray": {
                        "env": [
                            {"name": "DB_PASSWORD", "value": "hunter2"},
                            {"name": "X", "value": "q7Zp2LxW9vRk4TnB8cYd3MfH6gJs1QaE"},
                            {"name": "HF_TOKEN", "valueFrom": {"secretRef": {"name": "hf", "key": "token"}}},
                        ],
                        "config": {"inline": {"wandb": {"api_key": "abcdef0123456789"}}, "overrides": [f"a={GITHUB}"]},
                        "passwd": "hunter2",
                    },
                }
            ],
        },
        "status": {"x": GITHUB},
    }
    ray = "spec.tasks[0].ray"
    assert where(data) == [
        ("RL351", "metadata.labels.a", 1, 1),
        ("RL351", f"metadata.annotations.{GITHUB}", 1, 1),
        ("RL351", "spec.tasks[0].runScript", 2, 24),
        ("RL350", "spec.tasks[0].runScript", 3, 1),
        ("RL352", f"{ray}.env[0].value", 1, 1),
        ("RL353", f"{ray}.env[1].value", 1, 1),
        ("RL351", f"{ray}.config.inline.wandb.api_key", 1, 1),
        ("RL351", f"{ray}.config.overrides[0]", 1, 3),
        ("RL352", f"{ray}.passwd", 1, 1),
    ]


def test_a_place_is_left_out():
    data = {"a": {"b": GITHUB}, "c": GITHUB}
    assert [leak.path for leak in find_leaks(data, without="a")] == ["c"]
    assert [leak.path for leak in find_leaks(data["a"], path="x")] == ["x.b"]


def test_comments_hold_no_values_but_may_hold_secrets():
    text = f"a: |\n  # {GITHUB}\nb: 1 # {GITHUB[:-1]}y\n# {GITHUB[:-1]}x\nc: d#{GITHUB[:-1]}z"
    known = find_leaks(parse(text).data)
    assert [(leak.path, leak.line) for leak in known] == [("a", 1), ("c", 1)]
    assert [(leak.path, leak.line, leak.column) for leak in find_in_comments(text, known)] == [
        ("", 3, 8),
        ("", 4, 3),
    ]


def test_a_broken_text_is_read_line_by_line():
    assert [(leak.code, leak.line) for leak in find_in_text(f"a: [\n password: hunter2\n x: {GITHUB}")] == [
        ("RL352", 2),
        ("RL351", 3),
    ]


def test_of_very_many_some_are_told():
    assert len(find_leaks([GITHUB] * 1000)) == 200
    assert len(find_in_text(f"{GITHUB}\n" * 1000)) == 200


def test_job_files_and_configurations_that_people_use_hold_none(shared):
    files = [*(shared / "data" / "rlinf-configs").rglob("*.yaml"), *(shared / "cases").glob("*.yaml")]
    assert len(files) > 400
    for file in files:
        text = file.read_text()
        assert find_in_text(text) == [], file
        assert find_leaks(parse(text).data) == [], file
    for file in (shared / "cases").glob("*.json"):
        assert find_leaks(json.loads(file.read_text())) == [], file


def veil(*values: str) -> Veil:
    return Veil([Leak("RL351", "a token", "x", 1, 1, 1, "", value) for value in values])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"here is {GITHUB}", "here is ***"),
        (f"here is {GITHUB!r}, {GITHUB}x", "here is '***', ***x"),
        (f"cut '{GITHUB[:20]}...'", "cut '***...'"),
        (f"cut '{GITHUB[:5]}...'", "cut '***...'"),
        (f"cut {GITHUB[12:]!r}", "cut '***'"),
        (f"cut '{GITHUB[:6]}'", "cut '***'"),
        ("nothing of it", "nothing of it"),
        ("hunter2 and hunter21", "*** and hunter21"),
    ],
)
def test_no_part_is_shown(text, shown):
    assert veil(GITHUB, "hunter2")(text) == shown


def test_lines_of_a_key_are_hidden_in_every_form():
    hidden = veil(KEY)
    body = KEY.splitlines()[1]
    for form in (KEY, repr(KEY), json.dumps(KEY), body, f"{body[:30]}...", KEY.replace("\n", " ")):
        assert body[:8] not in hidden(form)
        assert body[-8:] not in hidden(form)


def test_findings_keep_what_is_no_secret():
    finding = Finding(
        code="RL025", path="a.b", file=f"{GITHUB}.yaml", line=3, message=f"here is {GITHUB}", actual=GITHUB
    )
    shown = veil(GITHUB).shown(finding)
    assert (shown.code, shown.path, shown.line, shown.message, shown.actual) == (
        "RL025",
        "a.b",
        3,
        "here is ***",
        "***",
    )
    assert shown.file == finding.file
    assert veil().shown(finding) is finding
    assert not veil()


@given(st.text(alphabet="abcXYZ019_-", min_size=8, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_whatever_stands_around_it(secret, before, after):
    assert secret not in veil(secret)(before + secret + after)


def test_hiding_is_quick_however_long_and_many_the_secrets_are():
    source = random.Random(7)
    long = "".join(source.choices(string.ascii_letters + string.digits + "+/", k=1_000_000))
    many = [f"ghp_{source.randbytes(18).hex()}" for _ in range(200)]
    start = time.process_time()
    hidden = veil(long, *many)
    for token in many:
        assert hidden(f"'{token}', '{token[:6]}...' and '{long[:60]}...' it is") == "'***', '***...' and '***...' it is"
    assert time.process_time() - start < 5
