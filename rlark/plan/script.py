"""A bash script's simple commands, read without running anything: words, where they stand, how deep in subshells.

This is no parser of bash. It knows quotes, comments, here-documents, continuation lines and what parts one
command from the next, which is enough to say what a command is called and what it is given.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEREDOC = re.compile(r"<<(-?)\s*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|()<>'\"]+))")
_REDIRECT = re.compile(r"[0-9]*(?:<<<|>>|>\||<>|>&|<&|&>>|&>|>|<)")
_PLAIN = re.compile(r"[^\s'\"\\`$;&|()<>]+")
_CLOSES = {"(": ")", "{": "}"}


@dataclass(frozen=True)
class Word:
    """One word of a command.

    Attributes:
        text: without its quotes; expansions stand in it as they are written.
        line: from 1.
        column: from 1.
        redirect: the sign before it where it is a file that is read or written; empty for an argument.
    """

    text: str
    line: int
    column: int
    redirect: str = ""


@dataclass
class Command:
    """A simple command.

    Attributes:
        words: its name and what it is given, assignments in front included.
        files: what it reads from and writes to by redirection.
        depth: how many subshells it stands in.
    """

    words: list[Word] = field(default_factory=list)
    files: list[Word] = field(default_factory=list)
    depth: int = 0


def commands(script: str) -> Iterator[Command]:
    """The simple commands of a script in their order; keywords such as `then` stand before the words they lead."""
    return _Reader(script).read()


class _Reader:
    """Goes through a script once."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._lines = [0, *(newline.end() for newline in re.finditer("\n", script))]  # where each starts
        self._at = 0
        self._depth = 0
        self._bodies: list[tuple[str, bool]] = []

    def read(self) -> Iterator[Command]:
        command = Command()
        while self._at < len(self._script):
            sign = self._script[self._at]
            redirect = _REDIRECT.match(self._script, self._at)
            if sign == "\\" and self._script.startswith("\\\n", self._at):
                self._at += 2
            elif sign in " \t\r":
                self._at += 1
            elif sign == "#":
                self._at = self._end_of_line()
            elif heredoc := _HEREDOC.match(self._script, self._at):
                self._bodies.append((next(filter(None, heredoc.groups()[1:])), bool(heredoc[1])))
                self._at = heredoc.end()
            elif redirect:
                self._at = redirect.end()
                self._skip_blanks()
                command.files.append(self._word(redirect[0]))
            elif sign in ";&|()\n":
                if command.words or command.files:
                    yield command
                self._part(sign)
                command = Command(depth=self._depth)
            else:
                command.words.append(self._word())
        if command.words or command.files:
            yield command

    def _part(self, sign: str) -> None:
        self._depth = max(0, self._depth + {"(": 1, ")": -1}.get(sign, 0))
        self._at += 1
        if sign == "\n" and self._bodies:
            self._skip_bodies()

    def _skip_blanks(self) -> None:
        while self._script[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1

    def _skip_bodies(self) -> None:
        """Go behind the here-documents that start on this line."""
        for end, tabs in self._bodies:
            while self._at < len(self._script):
                stop = self._end_of_line()
                line = self._script[self._at : stop]
                self._at = stop + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self._bodies = []

    def _end_of_line(self) -> int:
        end = self._script.find("\n", self._at)
        return len(self._script) if end < 0 else end

    def _word(self, redirect: str = "") -> Word:
        start, text = self._at, ""
        while self._at < len(self._script) and self._script[self._at] not in " \t\r\n;&|()<>":
            text += self._part_of_word()
        if self._at == start:  # a redirection to nothing, or a sign that starts no word
            self._at += 1
        line = bisect_right(self._lines, start)
        return Word(text, line, start - self._lines[line - 1] + 1, redirect)

    def _part_of_word(self) -> str:
        """The next part of a word: quoted, expanded or plain."""
        sign, at = self._script[self._at], self._at
        if sign in "'\"`":
            self._at = self._behind(sign)
            return self._script[at + 1 : self._at - 1] if sign != "`" else self._script[at : self._at]
        if sign == "\\":
            self._at += 2
            return self._script[at + 1 : self._at].replace("\n", "")
        if sign == "$" and self._script[at + 1 : at + 2] in _CLOSES:
            self._at = self._behind_bracket()
            return self._script[at : self._at]
        plain = _PLAIN.match(self._script, at)
        self._at = plain.end() if plain else at + 1
        return self._script[at : self._at]

    def _behind(self, quote: str) -> int:
        """The place behind a quoted part."""
        at = self._at + 1
        while at < len(self._script) and self._script[at] != quote:
            at += 2 if self._script[at] == "\\" and quote != "'" else 1
        return min(at + 1, len(self._script))

    def _behind_bracket(self) -> int:
        """The place behind `$(...)` or `${...}`, with whatever is nested in it."""
        opens = self._script[self._at + 1]
        depth, at = 0, self._at + 1
        while at < len(self._script):
            sign = self._script[at]
            depth += (sign == opens) - (sign == _CLOSES[opens])
            at += 1
            if not depth:
                break
        return at
