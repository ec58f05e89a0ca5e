"""The two ways in: `rlark.connect` for a client, `rlark.run` for one Job from file to end."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from rlark.sdk.client import Client, JobSource
from rlark.sdk.display import Narrator, chip, metrics_text, status_text
from rlark.sdk.follow import StreamEvent
from rlark.sdk.job import Job

Show = Callable[[StreamEvent], None]


def connect(address: str | None = None, token: str | None = None, *, home: str | Path | None = None) -> Client:
    """A client of a platform; nothing is asked of it yet.

    Without arguments it is the one that the settings name (`RLARK_ADDRESS`, `rlark.toml`, ...), else
    this user's own, which `submit` starts if it does not run.

    Args:
        address: `http://host:port`.
        token: its bearer token; found by itself on the platform's own machine.
        home: the state directory of one's own platform.
    """
    return Client({"address": address, "token": token, "home": str(home) if home else None})


def run(
    source: JobSource,
    *,
    set: Mapping[str, object] | None = None,  # noqa: A002 - the command line's word
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    replace: bool = False,
    resume: str | None = None,
    client: Client | None = None,
    quiet: bool = False,
) -> Job:
    """Check a Job, submit it and follow it to its end, whatever that is.

    A bad end does not raise: the Job that is returned shows itself in a notebook, and
    `rlark.run(...).check()` raises. Interrupting the call detaches; the Job goes on.

    Args:
        source: a file's name, YAML text, or the object itself.
        set: changes by path, `{"spec.tasks[0].ray.resources.gpu": 0}`.
        name: another name.
        labels: further labels.
        replace: delete an ended Job of that name first.
        resume: go on from another Job's checkpoint: `JOB` for its newest, `JOB@40` for that of iteration 40.
        client: of which platform; `connect()` by default.
        quiet: show nothing while it runs.

    Raises:
        SpecError: the Job is wrong on every node.
        PlacementError: it can never run on these nodes.
        ConflictError: another Job has that name.
        ClusterError: nothing answers.
    """
    client = client or connect()
    job = client.submit(source, set=set, name=name, labels=labels, replace=replace, resume=resume)
    with _shown(job, quiet=quiet) as show:
        for event in job.follow():
            show(event)
    return job.refresh()


@contextmanager
def _shown(job: Job, *, quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda _event: None
    elif _in_notebook():
        yield _Cell(job.name).show
    else:
        yield Narrator(_line_to(sys.stderr), _line_to(sys.stdout)).show


def _line_to(stream: Any) -> Callable[[str], None]:
    def write(text: str) -> None:
        stream.write(f"{text}\n")
        stream.flush()

    return write


def _in_notebook() -> bool:
    """True in a kernel that can update what a cell shows; IPython is never imported for the question."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class _Cell:
    """One line in a notebook's cell that follows the Job."""

    def __init__(self, name: str) -> None:
        shown: Any = importlib.import_module("IPython.display")
        self._html = shown.HTML
        self._name = name
        self._phase, self._text, self._bar = "Pending", "", ""
        self._handle = shown.display(self._line(), display_id=True)

    def show(self, event: StreamEvent) -> None:
        """Draw one event; what says nothing new is skipped."""
        before = self._line().data
        if event.type == "status":
            self._phase = str(event.data.get("phase", "Pending"))
            self._text = status_text(event.data)
        elif event.type == "metrics":
            done, of = event.data.get("iteration"), event.data.get("iterations")
            self._bar = f"<progress value='{done}' max='{of}'></progress> {done}/{of} {metrics_text(event.data)}"
        line = self._line()
        if line.data != before:
            self._handle.update(line)

    def _line(self) -> Any:
        return self._html(f"<b>{escape(self._name)}</b> {chip(self._phase)} {escape(self._text)} {self._bar}")
