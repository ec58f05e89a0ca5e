"""Commands that look: jobs, get, wait, events, metrics, queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from rlark.cli.command import JOB, Command
from rlark.cli.output import Column, JsonObject, Output
from rlark.cli.session import Session, pass_session
from rlark.errors import OK, JobFailed, JobStopped, NotFinished, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from rlark.sdk.follow import StreamEvent

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Stopped")


def parse_labels(labels: tuple[str, ...]) -> dict[str, str]:
    """`-l team=navigation` as a mapping.

    Raises:
        UsageError: one is not written as key=value.
    """
    found = {}
    for text in labels:
        for part in text.split(","):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                raise UsageError(f"the label {part!r} is not written as key=value", hint="as in team=navigation")
            found[key.strip()] = value.strip()
    return found


def status_of(item: JsonObject) -> JsonObject:
    """A Job's status."""
    status: JsonObject = item.get("status") or {}
    return status


def name_of(item: JsonObject) -> str:
    """A Job's name."""
    return str(item["metadata"]["name"])


def age(text: object) -> str:
    """How long ago a time of the wire was."""
    from rlark.host.clock import SystemClock
    from rlark.sdk.display import duration, moment

    then = moment(text)
    return duration((SystemClock().now() - then).total_seconds()) if then else ""


def _took(item: JsonObject) -> str:
    from rlark.host.clock import SystemClock
    from rlark.sdk.display import took

    return took(status_of(item), SystemClock().now())


def _gpus(item: JsonObject) -> str:
    from rlark.sdk.display import gpus_text

    return gpus_text(status_of(item))


def _gate(item: JsonObject) -> str:
    from rlark.sdk.display import verdict_word

    return verdict_word(status_of(item).get("qualityGatePassed"), "passed", "failed")


def _progress(item: JsonObject) -> str:
    progress = status_of(item).get("progress")
    return f"{progress['iteration']}/{progress['iterations']}" if progress else ""


def _why(item: JsonObject) -> object:
    status = status_of(item)
    queue = status.get("queue")
    return queue["reason"] if queue else status.get("reason")


JOB_COLUMNS = (
    Column("NAME", name_of),
    Column("PHASE", lambda item: status_of(item).get("phase", "Pending")),
    Column("VERIFIED", lambda item: status_of(item).get("verified")),
    Column("GATE", _gate),
    Column("PROGRESS", _progress),
    Column("TOOK", _took),
    Column("AGE", lambda item: age(item["metadata"].get("creationTimestamp") or status_of(item).get("createdAt"))),
    Column("REASON", _why),
    Column("ATTEMPT", lambda item: status_of(item).get("attempt"), wide=True),
    Column("EXIT", lambda item: status_of(item).get("exitCode"), wide=True),
    Column("NODE", lambda item: status_of(item).get("node"), wide=True),
    Column("GPUS", _gpus, wide=True),
    Column(
        "LABELS",
        lambda item: ",".join(f"{k}={v}" for k, v in (item["metadata"].get("labels") or {}).items()),
        wide=True,
    ),
)


@click.command(
    cls=Command,
    short_help="List Jobs.",
    examples=("rlark jobs --phase Running", "rlark jobs -l team=navigation -o wide", "rlark stop $(rlark jobs -q)"),
)
@click.option("-l", "--label", "labels", multiple=True, metavar="K=V", help="Only Jobs with this label; repeatable.")
@click.option("--phase", type=click.Choice(PHASES, case_sensitive=False), help="Only Jobs in this phase.")
@click.option("-w", "--watch", is_flag=True, help="Go on and show every change; with -o json one object a line.")
@pass_session
def jobs(session: Session, labels: tuple[str, ...], phase: str | None, watch: bool) -> None:
    """List Jobs."""
    wanted = parse_labels(labels)
    if watch:
        _watch(session.out, session.client.watch(labels=wanted, phase=phase))
        return
    found = [job.record for job in session.client.jobs(labels=wanted, phase=phase)]
    session.out.records(found, JOB_COLUMNS, name=name_of, none="there are no Jobs; submit one with: rlark submit")


def _watch(out: Output, stream: Iterator[StreamEvent]) -> None:
    """Show every change: on a terminal as a table that stays, elsewhere as lines."""
    if out.terminal and out.mode in ("table", "wide"):
        _watch_table(out, stream)
        return
    for event in stream:
        if event.type == "deleted":
            out.say(f"{event.data['name']}: deleted")
        elif out.mode in ("json", "yaml"):
            out.stream_value(event.data)
        else:
            out.row(event.data, JOB_COLUMNS, name=name_of)


def _watch_table(out: Output, stream: Iterator[StreamEvent]) -> None:
    from rich.live import Live

    known: dict[str, JsonObject] = {}

    def table() -> Table:
        newest_first = sorted(known.values(), key=lambda item: str(item["metadata"]["creationTimestamp"]), reverse=True)
        return out.rich_table(newest_first, JOB_COLUMNS)

    with Live(console=out.screen, get_renderable=table, refresh_per_second=2):
        for event in stream:
            if event.type == "deleted":
                known.pop(event.data["name"], None)
            else:
                known[name_of(event.data)] = event.data


@click.command(
    cls=Command,
    short_help="Show one Job.",
    examples=("rlark get originbot-goalnav", "rlark get originbot-goalnav -o yaml > again.yaml"),
)
@click.argument("job", type=JOB)
@pass_session
def get(session: Session, job: str) -> None:
    """Show one Job: where it stands, why, on which GPUs, and what is proven.

    Its steps stand in order, and an arrow at the earliest whose result is missing: look there first.
    With -o yaml the text can be submitted again.
    """
    from rlark.sdk.display import story_rows

    record = session.client.job(job).record
    show_job(session.out, record, story_rows(record))


def show_job(out: Output, record: JsonObject, more: Sequence[tuple[str, object]] = ()) -> None:
    """Print one Job.

    Args:
        out: where to.
        record: the Job's object.
        more: further rows of its table.
    """
    from rlark.sdk.display import summary

    status = status_of(record)
    rows: list[tuple[str, object]] = list(summary(record))
    rows += [(f"rank {rank['component']}:{rank['rank']}", _rank_text(rank)) for rank in status.get("ranks") or ()]
    if out.mode == "wide":
        rows += [(item["type"], _condition_text(item)) for item in status.get("conditions") or ()]
    out.pairs([*rows, *more], name=name_of(record), payload=record)


def _rank_text(rank: JsonObject) -> str:
    faked = " (faked)" if rank.get("faked") else ""
    return f"pid {rank.get('pid')}, VISIBLE_DEVICES={rank.get('visibleDevices') or ''}{faked}"


def _condition_text(item: JsonObject) -> str:
    return " ".join(str(part) for part in (item["status"], item.get("reason"), item.get("message")) if part)


@click.command(
    cls=Command,
    short_help="Wait until Jobs have ended.",
    examples=("rlark wait originbot-goalnav --timeout 600", "rlark submit -d -q job.yaml | xargs rlark wait"),
)
@click.argument("job_names", metavar="JOB...", nargs=-1, required=True, type=JOB)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after so long: exit 101.")
@pass_session
def wait(session: Session, job_names: tuple[str, ...], timeout: float | None) -> int:
    """Wait until all these Jobs have ended.

    Exit code: 0 all Succeeded, 100 one Failed or missed the first signal that it expects, 103 one was Stopped,
    101 not finished in time.
    """
    start = time.monotonic()
    ended = []
    late: NotFinished | None = None
    for job in [session.client.job(name) for name in job_names]:
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - start))
        try:
            job.wait(left)
        except NotFinished as error:
            late = error
            session.out.say(error.message)
        ended.append(job)
    session.out.records([job.record for job in ended], JOB_COLUMNS, name=name_of)
    codes = {outcome_code(job.record) for job in ended}
    if late is not None:
        codes.add(late.exit_code)
    return next(
        (code for code in (JobFailed.exit_code, NotFinished.exit_code, JobStopped.exit_code) if code in codes), OK
    )


def outcome_code(record: JsonObject, *, of_the_run: bool = False) -> int:
    """The exit code that tells how a Job ended; Succeeded without what it expects counts as Failed.

    Args:
        record: the Job's object.
        of_the_run: the run's own exit code, where it is one of a failure; 128 + n for a signal n.
    """
    from rlark.spec.story import unkept

    status = status_of(record)
    code = status.get("exitCode")
    if of_the_run and isinstance(code, int) and code != 0:
        return code if code > 0 else 128 - code
    if unkept(record):
        return JobFailed.exit_code
    codes = {"Succeeded": OK, "Failed": JobFailed.exit_code, "Stopped": JobStopped.exit_code}
    return codes.get(str(status.get("phase")), NotFinished.exit_code)


EVENT_COLUMNS = (
    Column("TIME", lambda item: _clock_time(item["time"])),
    Column("ATTEMPT", lambda item: item.get("attempt")),
    Column("TYPE", lambda item: item.get("type")),
    Column("REASON", lambda item: item.get("reason")),
    Column("MESSAGE", lambda item: item.get("message")),
)


def _clock_time(text: str) -> str:
    from rlark.sdk.display import clock_time

    return clock_time(datetime.fromisoformat(text))


@click.command(
    cls=Command, short_help="Tell why things happened to a Job.", examples=("rlark events originbot-goalnav",)
)
@click.argument("job", type=JOB)
@pass_session
def events(session: Session, job: str) -> None:
    """Tell why things happened to a Job, oldest first."""
    items = session.client.job(job).events()
    told = [item for before, item in pairwise([{}, *items]) if not _repeats(before, item)]
    session.out.records(told, EVENT_COLUMNS, name=lambda item: str(item["reason"]), payload={"items": items})


def _repeats(before: JsonObject, item: JsonObject) -> bool:
    """Whether a step that failed, and the end of the attempt that it is, say the same."""
    keys = ("attempt", "reason", "message")
    return bool(before) and [before.get(key) for key in keys] == [item.get(key) for key in keys]


@click.command(
    cls=Command,
    short_help="Print a Job's training curves.",
    examples=(
        "rlark metrics originbot-goalnav",
        "rlark metrics originbot-goalnav -o json | jq .metrics.meanReward[-1]",
    ),
)
@click.argument("job", type=JOB)
@pass_session
def metrics(session: Session, job: str) -> None:
    """Print a Job's training curves, one row an iteration."""
    whole = session.client.job(job).curves()
    curves = whole["metrics"]
    names = [name for name in curves if name != "time"]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*(curves[name] for name in names), strict=True)]
    columns = [Column(name, _cell(name), wide=index >= 8) for index, name in enumerate(names)]
    out = session.out
    out.records(
        rows,
        columns,
        name=lambda row: str(row.get("iteration")),
        payload=whole,
        none=f"{job} has measured nothing yet",
    )


def _cell(name: str) -> Callable[[JsonObject], Any]:
    return lambda row: row[name]
