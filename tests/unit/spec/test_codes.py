from __future__ import annotations

import re
from pathlib import Path

import rlark
from rlark.spec.codes import CODES, SECTIONS, render

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_the_table():
    page = ROOT / "docs/findings.md"
    assert page.read_text(encoding="utf-8") == render(), "run: python -m rlark.spec.codes > docs/findings.md"


def test_every_code_has_a_section_and_every_code_of_the_table_stands_on_the_page():
    assert all(any(first <= int(code[2:]) <= last for first, last, _ in SECTIONS) for code in CODES)
    assert all(f"| {code} |" in render() for code in CODES)


def test_every_code_that_is_told_is_in_the_table_and_every_code_of_the_table_is_told():
    package = Path(rlark.__file__).parent
    files = [file for file in package.rglob("*.py") if file.name != "codes.py"]
    told = {code for file in files for code in re.findall(r'"(RL\d{3})"', file.read_text(encoding="utf-8"))}
    assert told == set(CODES)
