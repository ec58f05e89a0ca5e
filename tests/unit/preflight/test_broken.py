"""Broken Jobs, each with what is found in it, to the column, and what mends it.

A file in `broken/` says in its lines what must be found, in this order and nothing else:
`# expect LINE:COLUMN severity CODE path`, with the name of another file in front where the finding
is about that one. `# mend: OLD => NEW` at its end is the one change after which nothing is found any
more; `\\n` in it starts a new line. Every code is the only finding of one file that says how to mend it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlark.spec.codes import CODES

FOLDER = Path(__file__).parent / "broken"
FILES = sorted(FOLDER.glob("*.yaml"))


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


def code_of(line: str) -> str:
    return re.search(r" (RL\d{3})(?: |$)", line)[1]


def mends(file: Path) -> tuple[str, str] | None:
    """What is to be replaced by what; None where a file does not say."""
    found = re.search(r"^# mend: (.*) => ?(.*)$", file.read_text(), re.M)
    return (found[1].replace("\\n", "\n"), found[2].replace("\\n", "\n")) if found else None


MENDED = {file: change for file in FILES if (change := mends(file)) is not None}


@pytest.mark.parametrize("file", MENDED, ids=lambda file: file.stem)
def test_one_change_and_nothing_is_found(file, golden):
    old, new = MENDED[file]
    text = re.sub(r"^# expect .*$", "#", file.read_text().partition("# mend: ")[0], flags=re.M)
    assert old in text
    assert golden(text.replace(old, new, 1), file) == []


def test_every_code_is_the_only_finding_of_a_broken_job_that_can_be_mended():
    alone = {code_of(lines[0]) for file in MENDED if len(lines := expected(file)) == 1}
    assert set(CODES) - alone == set()
