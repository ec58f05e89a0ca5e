"""Broken Jobs, each with what is found in it, to the column.

A file in `broken/` says in its first lines what must be found, in this order and nothing else:
`# expect LINE:COLUMN severity CODE path`, with the name of another file in front where the finding
is about that one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rlark.spec.codes import CODES

FOLDER = Path(__file__).parent / "broken"
FILES = sorted(FOLDER.glob("*.yaml"))
ELSEWHERE = {
    "RL010": "test_yaml.py",
    "RL058": "test_generator.py",
    "RL193": "test_preflight.py",
    "RL200": "test_preflight.py",
    "RL215": "test_preflight.py",
    "RL240": "test_inventory_file.py",
    "RL241": "test_inventory_file.py",
    "RL242": "test_inventory_file.py",
    "RL243": "test_inventory_file.py",
    "RL451": "test_config.py",
    "RL457": "test_config.py",
}


def expected(file: Path) -> list[str]:
    lines = [line.removeprefix("# expect ") for line in file.read_text().splitlines() if line.startswith("# expect ")]
    assert lines, f"{file.name} does not say what must be found"
    return lines


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_found(file, found_in):
    assert found_in(file) == expected(file)


def test_a_right_job_has_nothing_to_tell(check):
    text = (FOLDER / "replicas_2.yaml").read_text().replace("replicas: 2", "replicas: 1")
    preview = check(text, folder=FOLDER)
    assert (preview.findings, preview.exit_code) == ([], 0)
    assert preview.plan is not None


def test_every_code_outside_placement_has_a_broken_job():
    told = {line.split()[2] for file in FILES for line in expected(file)}
    ours = {code for code in CODES if not "RL100" <= code < "RL185"}
    assert ours - told - set(ELSEWHERE) == set()


@pytest.mark.parametrize("code", sorted(ELSEWHERE))
def test_the_other_codes_are_where_they_are_said_to_be(code):
    tests = Path(__file__).parents[1].rglob(ELSEWHERE[code])
    assert any(code in file.read_text() for file in tests)
