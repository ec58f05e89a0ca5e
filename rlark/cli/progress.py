"""A Job's life on a terminal: a bar, a line of metrics, and the log above them; elsewhere plain lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rlark.cli.output import Output
from rlark.sdk.display import Narrator, metrics_text, status_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from rlark.sdk.follow import StreamEvent

Show = Callable[["StreamEvent"], None]


@contextmanager
def starting(out: Output, what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal, one line elsewhere; gives what takes further talk."""
    if not out.live:
        out.say(f"{what} ...")
        yield out.detail
        return
    with out.talk.status(f"{what} ...") as status:
        yield lambda line: status.update(f"{what}: {line}")


@contextmanager
def follower(out: Output) -> Iterator[Show]:
    """What shows the events of a Job in the form that fits the terminal."""
    if out.mode in ("json", "yaml", "name"):
        yield lambda _event: None  # the Job itself is the data; it is printed at the end
    elif out.live:
        with _Bar(out) as bar:
            yield bar.show
    else:
        yield _plain(out).show


def _plain(out: Output) -> Narrator:
    def log(line: str) -> None:
        out.lines([line])
        out.flush()

    return Narrator(out.say, log, verbose=out.verbose)


class _Bar:
    """The bar; while it stands, everything else is printed above it."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._progress = _make_progress(out)
        self._task = self._progress.add_task("Pending", total=None, metrics="")
        self._narrator = Narrator(lambda _text: None, self._log)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, event: StreamEvent) -> None:
        """Draw one event."""
        if event.type == "status":
            self._progress.update(self._task, description=status_text(event.data))
        elif event.type == "metrics":
            data = event.data
            done, of = data.get("iteration"), data.get("iterations")
            self._progress.update(self._task, completed=done, total=of, metrics=metrics_text(data))
        elif event.type == "event" and event.data.get("type") == "Warning":
            self._progress.console.print(f"{event.data.get('reason')}: {event.data.get('message')}", style="yellow")
        self._narrator.show(event)

    def _log(self, line: str) -> None:
        if self._out.terminal:  # one terminal for both: print above the bar
            self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def _make_progress(out: Output) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[metrics]}"),
        console=out.talk,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=5,
    )
