from __future__ import annotations

import pytest

from rlark.plan.plan import Signal
from rlark.worker.signal import FirstSignal


def test_the_first_line_that_matches_is_kept():
    signal = FirstSignal(Signal(pattern=r"iter \d+/\d+"))
    signal.hear(["loading", "[toy] iter 1/4 " + "x" * 500, "iter 2/4"])
    assert signal.line == ("[toy] iter 1/4 " + "x" * 500)[:200]
    assert (signal.awaited, signal.in_time, signal.expected) == (True, True, False)


def test_a_signal_is_overdue_once():
    signal = FirstSignal(Signal(pattern="iter", within=5, expected=True))
    assert [signal.overdue(t) for t in (4.9, 5.0, 6.0)] == [False, True, False]
    assert (signal.stalled, signal.in_time, signal.expected) == (True, False, True)


def test_a_line_that_comes_too_late_is_seen_but_not_in_time():
    signal = FirstSignal(Signal(pattern="iter", within=5, expected=True))
    signal.overdue(5.0)
    signal.hear(["iter 1"])
    assert (signal.line, signal.in_time) == ("iter 1", False)


def test_a_signal_that_was_seen_is_never_overdue():
    signal = FirstSignal(Signal(pattern="iter", within=5))
    signal.hear(["iter 1"])
    assert not signal.overdue(100)


@pytest.mark.parametrize("signal", [None, Signal(pattern="iter")])
def test_without_a_deadline_nothing_is_overdue(signal):
    assert not FirstSignal(signal).overdue(1e9)


def test_without_a_signal_nothing_is_awaited():
    signal = FirstSignal(None)
    signal.hear(["anything"])
    assert (signal.line, signal.awaited, signal.expected) == (None, False, False)


def test_a_pattern_that_is_none_says_so():
    with pytest.raises(ValueError, match=r"firstSignal.pattern is no regular expression: .* at position 0"):
        FirstSignal(Signal(pattern="*"))
