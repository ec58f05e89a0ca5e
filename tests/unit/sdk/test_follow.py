from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rlark.errors import ClusterError, NotFound
from rlark.sdk.follow import StreamEvent, follow, parse
from rlark.testing import FakeClock

END = ["id: 9", "event: end", 'data: {"phase": "Succeeded"}', ""]


def log(cursor: int, line: str) -> list[str]:
    return [f"id: {cursor}", "event: log", f'data: {{"line": "{line}"}}', ""]


class Streams:
    """Opens one list of lines after another; an exception in a list breaks the stream there."""

    def __init__(self, *streams: list[object]) -> None:
        self.streams = list(streams)
        self.cursors: list[str] = []

    @contextmanager
    def __call__(self, cursor: str) -> Iterator[Iterator[str]]:
        self.cursors.append(cursor)
        yield self._lines(self.streams.pop(0))

    def _lines(self, lines: list[object]) -> Iterator[str]:
        for line in lines:
            if isinstance(line, Exception):
                raise line
            yield str(line)


def test_parse_reads_fields_heartbeats_and_several_data_lines() -> None:
    lines = [": heartbeat", "", "id:7", "event: log", 'data: {"line":', 'data: "x"}', "", "data: 3", ""]
    assert list(parse(lines)) == [StreamEvent("log", {"line": "x"}, "7"), StreamEvent("message", {"value": 3}, "7")]


def test_an_unfinished_event_is_dropped() -> None:
    assert list(parse(["event: log", 'data: {"line": "half'])) == []


def test_a_broken_stream_goes_on_behind_the_last_event() -> None:
    broken = ClusterError("gone")
    streams = Streams([*log(1, "a"), *log(2, "b"), broken], [], [broken], [*log(3, "c"), *END])
    events = list(follow(streams, clock=FakeClock()))
    assert [event.data.get("line") for event in events] == ["a", "b", "c", None]
    assert streams.cursors == ["", "2", "2", "2"]
    assert events[-1].data == {"phase": "Succeeded"}


def test_it_stops_at_the_end_even_if_the_stream_would_go_on() -> None:
    assert len(list(follow(Streams([*END, *log(10, "late")]), clock=FakeClock()))) == 1


def test_a_refusal_is_final() -> None:
    streams = Streams([*log(1, "a"), NotFound("deleted")])
    with pytest.raises(NotFound, match="deleted"):
        list(follow(streams, clock=FakeClock()))


def test_it_gives_up_after_a_minute_of_silence() -> None:
    clock = FakeClock()
    streams = Streams(*([ClusterError("connection refused")] for _ in range(100)))
    with pytest.raises(ClusterError, match=r"nothing was heard for 60 s \(connection refused\)"):
        list(follow(streams, clock=clock))
    assert 60 < clock.monotonic() < 63


def test_heartbeats_count_as_an_answer() -> None:
    clock = FakeClock()

    class Slow(Streams):
        def _lines(self, lines: list[object]) -> Iterator[str]:
            for line in super()._lines(lines):
                clock.advance(50)
                yield line

    streams = Slow([": heartbeat", ": heartbeat", ClusterError("gone")], END)
    assert len(list(follow(streams, clock=clock))) == 1
