"""The grammar of a placement: `all`, `0-3`, `0-1:0-3, 2:4`, read with the place of every mistake.

    scalar = part ("," part)*          blanks stripped, empty parts skipped
    part   = resources [":" processes]
    resources = "all" | n | a-b
    processes = n | a-b

Nothing here knows what a resource is or how many there are; that is rlark.plan.placement's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_PROCESSES = 10_000
"""Of one component on one node; more is a slip of the keyboard, not a plan."""

_RANGE = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)
_WIDTH = 72
"""How much of a long expression stands above its caret."""


class Fault(NamedTuple):
    """Something wrong (or remarkable) in an expression.

    Attributes:
        code: of the finding it becomes.
        start: first offending character in the expression.
        end: one past the last.
        what: what is wrong and why.
        hint: how to mend it.
        expected: what would be right, short.
        warning: True when the expression is accepted all the same.
        curable: True when another node could run the expression as it stands.
    """

    code: str
    start: int
    end: int
    what: str
    hint: str
    expected: str
    warning: bool = False
    curable: bool = False


class Range(NamedTuple):
    """Numbers from first to last, both included, and where they stand in the expression."""

    first: int
    last: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many numbers."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


class Part(NamedTuple):
    """What stands between two commas.

    Attributes:
        resources: which; None for `all`.
        processes: their numbers; None where each resource has one.
        start: first character in the expression.
        end: one past the last.
    """

    resources: Range | None
    processes: Range | None
    start: int
    end: int

    def covers(self, total: int | None) -> Range | None:
        """The resources as numbers, `all` being those below the total; None where that is unknown or 0."""
        if self.resources is not None or not total:
            return self.resources
        return Range(0, total - 1, self.start, self.end)


def show(text: str, start: int, end: int) -> str:
    """The expression with carets under the offending characters, in two indented lines.

    Args:
        text: the expression.
        start: first offending character.
        end: one past the last; at least one caret is drawn.
    """
    first = max(0, min(start - _WIDTH // 2, len(text) - _WIDTH))
    shown = "".join(c if c.isprintable() else " " for c in text[first : first + _WIDTH])
    carets = "^" * max(1, min(end, first + _WIDTH) - start)
    return f"    {shown}\n    {' ' * (start - first)}{carets}"


def parse(text: str) -> tuple[list[Part], list[Fault]]:
    """Read an expression.

    Args:
        text: the expression, as in `0-1:0-3,2`.

    Returns:
        The parts that can be read, in their order, and everything that cannot.
    """
    parts: list[Part] = []
    faults: list[Fault] = []
    for start, end in _split(text, 0, len(text), ","):
        if start == end:
            continue
        part = _part(text, start, end, faults)
        if part is not None:
            parts.append(part)
    if not parts and not faults:
        hint = "say where: all, a number (0), a range (0-3), or several of them with commas"
        faults.append(Fault("RL101", 0, len(text), "nothing stands here", hint, "all, n or a-b"))
    return parts, faults


def _split(text: str, start: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Bounds of the fields between separators, without the blanks around them."""
    while start <= end:
        stop = text.find(separator, start, end)
        stop = end if stop < 0 else stop
        field = text[start:stop]
        blank = len(field) - len(field.lstrip())
        yield (start + blank, start + len(field.rstrip())) if field.strip() else (start, start)
        start = stop + 1


def _part(text: str, start: int, end: int, faults: list[Fault]) -> Part | None:
    fields = list(_split(text, start, end, ":"))
    if len(fields) > 2:
        what = "a part has at most one colon: resources, then processes"
        faults.append(Fault("RL102", start, end, what, "write for example 0-3:0-7", "resources:processes"))
        return None
    before = len(faults)
    resources = None if _is_all(text, *fields[0]) else _range(text, *fields[0], "resource", faults)
    processes = _processes(text, *fields[1], faults) if len(fields) == 2 else None
    return Part(resources, processes, start, end) if len(faults) == before else None


def _is_all(text: str, start: int, end: int) -> bool:
    return text[start:end].lower() == "all"


def _processes(text: str, start: int, end: int, faults: list[Fault]) -> Range | None:
    if _is_all(text, start, end):
        hint = "give the processes' numbers (0-7), or leave the colon out: one process for each resource"
        faults.append(Fault("RL103", start, end, "processes cannot be 'all'", hint, "n or a-b"))
        return None
    found = _range(text, start, end, "process", faults)
    if found is not None and found.size > MAX_PROCESSES:
        what = f"{found.size} processes on one node, more than {MAX_PROCESSES}"
        faults.append(Fault("RL104", start, end, what, "use fewer processes", f"at most {MAX_PROCESSES}"))
        return None
    return found


def _range(text: str, start: int, end: int, kind: str, faults: list[Fault]) -> Range | None:
    field = text[start:end]
    expected = "n or a-b" if kind == "process" else "all, n or a-b"
    if not field:
        side = "after" if kind == "process" else "before"
        hint = f"write for example {'0-3:0-7' if kind == 'process' else 'all:0-3'}, or leave the colon out"
        faults.append(Fault("RL105", start, start + 1, f"no {kind} number {side} the colon", hint, expected))
        return None
    match = _RANGE.fullmatch(field)
    if match is None:
        what = f"{field[:40]!r} is neither a number nor a range{'' if kind == 'process' else ', nor all'}"
        faults.append(Fault("RL106", start, end, what, _advice(field, kind), expected))
        return None
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if first > last:
        what = f"the range starts at {first} and ends before it, at {last}"
        faults.append(Fault("RL107", start, end, what, f"write {last}-{first}", "a-b with a <= b"))
        return None
    return Range(first, last, start, end)


def _advice(field: str, kind: str) -> str:
    """What to write instead of something that is no range."""
    for mark, advice in (
        ("_", "write the number without underscores"),
        ("x", "write a plain decimal number"),
        (";", "separate parts with commas"),
        ("[", "write the numbers with commas and without brackets"),
        (".", "whole numbers only; a range is 0-3"),
    ):
        if mark in field:
            return advice
    if field.startswith("-"):
        return "numbers start at 0 and have no sign"
    if field.count("-") > 1:
        return "a range has two ends; separate parts with commas"
    return "write a number (0) or a range (0-3)" + ("" if kind == "process" else ", or all")


def relations(parts: Sequence[Part], total: int | None, noun: str, *, whole: bool = True) -> list[Fault]:
    """What is wrong between parts: resources that repeat or descend, processes that do not go on.

    Args:
        parts: in the order they stand.
        total: how many resources there are; None where nobody knows.
        noun: what a resource is called, for example `GPU`.
        whole: False where some parts could not be read, so that nobody knows how processes go on.
    """
    numbers = _continuity(parts, total) if whole else ()
    return [*_ascent(parts, total, noun), *numbers, *_sharing(parts, total, noun)]


def _ascent(parts: Sequence[Part], total: int | None, noun: str) -> Iterator[Fault]:
    seen: list[Range] = []
    grouped = False
    for part in parts:
        here = part.covers(total)
        if here is None:
            continue
        twice = next((max(here.first, r.first) for r in seen if r.first <= here.last and here.first <= r.last), None)
        if twice is not None:
            hint = "a comma starts a new part: give processes as one range" if grouped else f"name each {noun} once"
            what = f"{noun} {twice} stands here a second time"
            yield Fault("RL108", part.start, part.end, what, hint, f"each {noun} once")
        elif seen and here.first < seen[-1].last:
            what = f"{noun} {here.first} stands after {noun} {seen[-1].last}: they ascend"
            yield Fault("RL109", part.start, part.end, what, "put the parts in ascending order", "ascending numbers")
        seen.append(here)
        grouped = grouped or part.processes is not None


def _continuity(parts: Sequence[Part], total: int | None) -> Iterator[Fault]:
    due: int | None = 0  # the number the next process should have; None while that is unknown
    for index, part in enumerate(parts):
        given, here = part.processes, part.covers(total)
        if given is None:
            due = None if due is None or here is None else due + here.size
            continue
        if due is not None and given.first != due:
            yield _number_fault(given, due, first=index == 0)
        due = given.last + 1


def _number_fault(given: Range, due: int, *, first: bool) -> Fault:
    hint = f"write {Range(due, due + given.size - 1, 0, 0)}"
    if first:
        what = f"process numbers start at {given.first}; they are counted from 0 all the same"
        return Fault("RL130", given.start, given.end, what, hint, "processes from 0", warning=True)
    what = f"process numbers go on at {due}, not at {given.first}"
    return Fault("RL110", given.start, given.end, what, hint, f"processes from {due}")


def _sharing(parts: Sequence[Part], total: int | None, noun: str) -> Iterator[Fault]:
    for part in parts:
        here = part.covers(total)
        if here is None or part.processes is None:
            continue
        have, want = here.size, part.processes.size
        if max(have, want) % min(have, want):
            what = f"{want} processes on {have} {noun}s: neither count divides the other"
            counts = " or ".join(str(count) for count in _fitting(have, want))
            yield Fault(
                "RL111",
                part.start,
                part.end,
                what,
                f"use {counts} processes, or another number of {noun}s",
                f"{counts} processes",
                curable=part.resources is None,
            )


def _fitting(have: int, want: int) -> list[int]:
    """The process counts next to `want`, below and above, that share `have` resources evenly."""
    fits = [count for count in range(1, have) if have % count == 0] + [have]
    below = max((count for count in fits if count < want), default=None) if want < have else want // have * have
    above = min(count for count in fits if count > want) if want < have else (want // have + 1) * have
    return [count for count in (below, above) if count is not None]


def blocks(parts: Sequence[Part], total: int) -> list[tuple[int, ...]]:
    """What each process gets, in the order of the processes; the parts must be without fault.

    Args:
        parts: as read.
        total: how many resources there are.

    Returns:
        For each process the numbers of its resources: a consecutive block, or one that it shares.
    """
    found: list[tuple[int, ...]] = []
    for part in parts:
        here = part.covers(total)
        if here is None:
            continue
        processes = here.size if part.processes is None else part.processes.size
        if processes > here.size:
            share = processes // here.size
            found += [(number,) for number in range(here.first, here.last + 1) for _ in range(share)]
        else:
            step = here.size // processes
            found += [tuple(range(at, at + step)) for at in range(here.first, here.last + 1, step)]
    return found
