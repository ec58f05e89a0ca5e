"""The codes of placements and configurations stand in the one table, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

import rlark.plan
from rlark.spec.codes import CODES

ROOM = Path(rlark.plan.__file__).parent


def test_every_code_that_is_used_is_in_the_table_and_every_one_of_ours_is_used():
    used = {code for file in ROOM.rglob("*.py") for code in re.findall(r'"(RL1\d\d)"', file.read_text())}
    assert used <= set(CODES)
    assert {code for code in CODES if "RL100" <= code < "RL185"} <= used
