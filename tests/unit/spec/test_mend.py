from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict

from rlark.spec.invalid import JOB
from rlark.spec.mend import Mended, given, read


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Entry(Part):
    name: str
    words: list[str] = []


class Whole(Part):
    entries: list[Entry] = []
    note: str = ""


class Holed(Part):
    entries: list[Entry | None] = []


def mended(*entries: object) -> Mended[Whole]:
    return read(Whole, {"entries": list(entries)}, JOB, path="x")


def left(read_: Mended[Whole]) -> list[str]:
    assert read_.model is not None
    return [entry.name for entry in read_.model.entries]


def test_what_is_right_is_read_as_it_is():
    whole = mended({"name": "a"}, {"name": "b"})
    assert (left(whole), whole.invalid, whole.spoiled, whole.kept) == (["a", "b"], [], (), {})


def test_only_broken_entries_are_left_out_and_where_the_others_stood_is_known():
    whole = mended({"name": 1}, {"name": "b"}, "c", {"name": "d"}, {})
    assert left(whole) == ["b", "d"]
    assert set(whole.spoiled) == {"x.entries[0].name", "x.entries[2]", "x.entries[4].name"}
    assert [given(("entries", index, "name"), whole.kept) for index in (0, 1)] == [
        ("entries", 1, "name"),
        ("entries", 3, "name"),
    ]


def test_an_entry_with_several_mistakes_takes_no_other_one_with_it():
    whole = mended({"another": 1}, {"name": "b"}, {"name": "c"})
    assert left(whole) == ["b", "c"]
    assert [one.finding.path for one in whole.invalid] == ["x.entries[0].name", "x.entries[0].another"]


def test_lists_in_lists_keep_their_places():
    whole = mended({}, {"name": "b", "words": [1, "u", 2, "v"]})
    assert whole.model is not None
    assert whole.model.entries == [Entry(name="b", words=["u", "v"])]
    assert given(("entries", 0, "words", 1), whole.kept) == ("entries", 1, "words", 3)


def test_the_values_are_not_changed():
    data = {"entries": [{"name": 1}, {"name": "b"}]}
    read(Whole, data, JOB)
    assert data == {"entries": [{"name": 1}, {"name": "b"}]}


def test_one_list_at_two_places_loses_its_entry_at_both():
    shared = [1, "u", "v"]
    whole = mended({"name": "a", "words": shared}, {"name": "b", "words": shared})
    assert whole.model is not None
    assert [entry.words for entry in whole.model.entries] == [["u", "v"], ["u", "v"]]


def test_entries_may_be_left_as_holes():
    holed = read(Holed, {"entries": [{}, {"name": "b"}]}, JOB, holes=True)
    assert holed.model is not None
    assert holed.model.entries == [None, Entry(name="b")]
    assert holed.kept == {}


@pytest.mark.parametrize("loc", [(), ("note",), ("entries", 0), ("entries", 0, "words", 0)])
def test_nothing_moves_where_nothing_was_left_out(loc):
    assert given(loc, {}) == loc
