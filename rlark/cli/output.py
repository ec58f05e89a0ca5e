"""The one sink: data on stdout in the form that was asked for, talk on stderr.

A table on a terminal is coloured and fits the window; anywhere else it is lines of values
separated by tabs, complete and without colour, under a line of titles.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rlark.errors import RlarkError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

JsonObject = dict[str, Any]
STYLES = {
    "Pending": "yellow",
    "Running": "cyan",
    "Succeeded": "green",
    "Failed": "bold red",
    "Stopped": "magenta",
    "error": "bold red",
    "warning": "yellow",
    "yes": "green",
    "no": "red",
    "passed": "green",
    "failed": "red",
    "Warning": "yellow",
    "ok": "green",
    "missing": "red",
}
"""Words that are coloured wherever they stand alone in a cell."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: its heading, upper case.
        value: what stands in it for one record; None and empty are shown as `-`.
        wide: True when it is shown with `-o wide` only.
    """

    title: str
    value: Callable[[JsonObject], object]
    wide: bool = False


class Output:
    """Where everything that `rlark` prints goes through."""

    def __init__(self, mode: str = "table", *, quiet: bool = False, verbose: bool = False, color: bool = True) -> None:
        """Choose the form.

        Args:
            mode: `table`, `wide`, `json`, `yaml`, `name`, or a form only one command knows.
            quiet: no talk, and names where a table would stand.
            verbose: details too.
            color: False forbids colours; they appear on terminals only.
        """
        self.mode = "name" if quiet and mode in ("table", "wide") else mode
        self.quiet = quiet
        self.verbose = verbose
        self._color = color

    # data

    def records(
        self,
        items: Sequence[JsonObject],
        columns: Sequence[Column],
        *,
        name: Callable[[JsonObject], str],
        payload: Mapping[str, Any] | None = None,
        none: str = "",
    ) -> None:
        """Print a list.

        Args:
            items: one object a row.
            columns: what a table shows of each.
            name: what `-o name` and `-q` print of each.
            payload: what `-o json` and `-o yaml` print; `{"items": items}` by default.
            none: what to say, on stderr, when a table would be empty.
        """
        if self.mode == "name":
            self.lines(name(item) for item in items)
        elif self.mode in ("json", "yaml"):
            self.value({"items": list(items)} if payload is None else payload)
        else:
            if not items and none:
                self.say(none)
            self._table(*self._cells(items, columns))

    def row(self, item: JsonObject, columns: Sequence[Column], *, name: Callable[[JsonObject], str]) -> None:
        """Print one record of a list that goes on: a row without titles, or its name."""
        _, rows = self._cells([item], columns)
        self.lines([name(item) if self.mode == "name" else "\t".join(map(_flat, rows[0]))])
        self.flush()

    def pairs(self, rows: Sequence[tuple[str, object]], *, name: str, payload: Mapping[str, Any]) -> None:
        """Print one thing as a table of two columns, or whole.

        Args:
            rows: label and value.
            name: what `-o name` and `-q` print.
            payload: what `-o json` and `-o yaml` print.
        """
        if self.mode == "name":
            self.lines([name])
        elif self.mode in ("json", "yaml"):
            self.value(payload)
        else:
            self._table([], [[label, text_of(value)] for label, value in rows])

    def value(self, payload: Mapping[str, Any]) -> None:
        """Print a value as JSON or YAML, whole."""
        if self.mode == "yaml":
            from rlark.spec.emit import emit

            sys.stdout.write(emit(dict(payload)))
        else:
            self.lines([json.dumps(payload, indent=2, ensure_ascii=False)])

    def stream_value(self, payload: Mapping[str, Any]) -> None:
        """Print one of many values on a line of its own (NDJSON), or as a YAML document."""
        if self.mode == "yaml":
            sys.stdout.write("---\n")
            self.value(payload)
        else:
            self.lines([json.dumps(payload, ensure_ascii=False)])
        sys.stdout.flush()

    def lines(self, lines: Iterable[str]) -> None:
        """Print text as it is, line by line."""
        for line in lines:
            sys.stdout.write(f"{line}\n")

    def text(self, text: str) -> None:
        """Print text as it is, with a line's end behind it."""
        sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")

    def flush(self) -> None:
        """Hand over what was printed so far; for what goes on for long."""
        sys.stdout.flush()

    # talk

    def say(self, text: str) -> None:
        """Tell what happens."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def detail(self, text: str) -> None:
        """Tell what only a curious user wants to know (`-v`)."""
        if self.verbose:
            self.say(text)

    def error(self, error: RlarkError) -> None:
        """Tell what went wrong, where, and how to mend it; `-q` does not hide it."""
        sys.stderr.write(error_text(error, self._styled("error", "bold red")))
        sys.stderr.flush()

    def finding(self, finding: object) -> None:
        """Print a finding on stderr in the form that editors read."""
        self.say(str(finding))

    # terminals

    @property
    def terminal(self) -> bool:
        """True when stdout is a terminal."""
        return sys.stdout.isatty()

    @property
    def live(self) -> bool:
        """True when a progress bar can be drawn: stderr is a terminal and talk is wanted."""
        return sys.stderr.isatty() and not self.quiet and self.mode not in ("json", "yaml")

    @cached_property
    def talk(self) -> Console:
        """The console on stderr, for bars and spinners."""
        from rich.console import Console

        return Console(file=sys.stderr, no_color=not self._color or None, highlight=False)

    def _styled(self, word: str, style: str) -> str:
        if not self._color or not sys.stderr.isatty():
            return word
        from rich.style import Style

        return Style.parse(style).render(word)

    @cached_property
    def screen(self) -> Console:
        """The console on stdout, for tables on a terminal."""
        from rich.console import Console

        return Console(file=sys.stdout, no_color=not self._color or None, highlight=False)

    def _table(self, titles: list[str], rows: list[list[str]]) -> None:
        if self.terminal:
            self.screen.print(_rich_table(titles, rows))
        else:
            self.lines("\t".join(_flat(cell) for cell in row) for row in ([titles] if titles else []) + rows)

    def rich_table(self, items: Sequence[JsonObject], columns: Sequence[Column]) -> Table:
        """A list as a table for a live display."""
        titles, rows = self._cells(items, columns)
        return _rich_table(titles, rows)

    def _cells(self, items: Sequence[JsonObject], columns: Sequence[Column]) -> tuple[list[str], list[list[str]]]:
        shown = [column for column in columns if self.mode == "wide" or not column.wide]
        rows = [[text_of(column.value(item)) for column in shown] for item in items]
        return [column.title for column in shown], rows


def _rich_table(titles: list[str], rows: list[list[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=bool(titles), header_style="bold")
    for title in titles or ("", ""):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    return table


def error_text(error: RlarkError, word: str = "error") -> str:
    """An error as people read it: its findings, one a line, then the message and the hint."""
    lines = [str(finding) for finding in error.findings]
    lines.append(f"{word}: {error.message}")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines) + "\n"


def text_of(value: object) -> str:
    """A cell's text: `-` for nothing, `yes` and `no`, numbers short."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _flat(cell: str) -> str:
    return cell.replace("\t", " ").replace("\n", " ")
