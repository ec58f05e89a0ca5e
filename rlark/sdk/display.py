"""How a Job looks: its card in a notebook, its table at the end, its life in lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from rlark.sdk.follow import StreamEvent
from rlark.sdk.transport import JsonObject

if TYPE_CHECKING:
    from rlark.spec.story import Step

CHIPS = {
    "Pending": "#9a6700",
    "Running": "#0969da",
    "Succeeded": "#1a7f37",
    "Failed": "#b00020",
    "Stopped": "#8250df",
}
FIRST_METRICS = ("meanReward", "recentSuccess", "successRate", "loss", "policyLoss", "valueLoss", "entropy")
"""Which metrics stand first where there is room for a few only."""


def summary(record: JsonObject) -> list[tuple[str, str]]:
    """What there is to say about a Job in a table of two columns.

    Args:
        record: the Job's object.
    """
    status = record.get("status") or {}
    reason = " ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    rows = [
        ("job", str(record["metadata"]["name"])),
        ("phase", str(status.get("phase", "Pending"))),
        ("reason", reason),
        ("verified", verdict_word(status.get("verified"), "yes", "no")),
        ("quality gate", verdict_word(status.get("qualityGatePassed"), "passed", "failed")),
        ("exit code", _known(status.get("exitCode"))),
        ("attempt", _known(status.get("attempt") or None)),
        ("node", _known(status.get("node"))),
        ("gpus", gpus_text(status)),
        ("took", took(status)),
    ]
    return [(label, value) for label, value in rows if value]


def story_rows(record: JsonObject) -> list[tuple[str, str]]:
    """A Job's life in a table of two columns, an arrow at the earliest step whose result is missing.

    Args:
        record: the Job's object.
    """
    from rlark.spec.story import story

    steps = [step for step in story(record) if step.state != "none" or step.message]
    first = next((step for step in steps if step.state == "missing"), None)
    rows = [(f"{'-> ' if step is first else '   '}{step.name}", _step_text(step, first)) for step in steps]
    return [*rows, ("look at", first.look)] if first else rows


def _step_text(step: Step, first: Step | None) -> str:
    """`2026-01-31 12:00:00.123 the prepare script is done`; nothing for what comes behind the first that is missing."""
    if step.state == "missing" and step is not first:
        return ""
    then = moment(step.time)
    clock = clock_time(then) if then and step.state == "done" else ""
    said = f"{step.reason}: {step.message}" if step.reason and step.state == "missing" else step.message
    return " ".join(part for part in (clock, said) if part)


def verdict_word(value: object, yes: str, no: str) -> str:
    """A three-valued answer: yes, no, or nothing to say."""
    return "-" if value is None else yes if value else no


def _known(value: object) -> str:
    return "" if value is None else str(value)


def gpus_text(status: JsonObject) -> str:
    """The leased GPUs; those that do not exist are marked as faked."""
    gpus = (status.get("lease") or {}).get("gpus") or []
    return ", ".join(f"{gpu['id']} (faked)" if gpu.get("faked") else str(gpu["id"]) for gpu in gpus)


def took(status: JsonObject, now: datetime | None = None) -> str:
    """How long an attempt has run, `1m 05s`; empty before its start."""
    start, end = moment(status.get("startedAt")), moment(status.get("finishedAt")) or now
    return duration((end - start).total_seconds()) if start and end else ""


def moment(text: object) -> datetime | None:
    """A time of the wire, aware; None for nothing."""
    return datetime.fromisoformat(str(text)) if text else None


def clock_time(then: datetime) -> str:
    """A moment on this machine's clock, `2026-01-31 12:00:00.123`."""
    return then.astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]


def duration(seconds: float) -> str:
    """`9.1s`, `1m 05s`, `3h 02m`, `4d 03h`."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f}s"
    whole = int(seconds)
    for unit, size, below, under in (("m", 60, 3600, ("s", 1)), ("h", 3600, 86400, ("m", 60))):
        if whole < below:
            return f"{whole // size}{unit} {whole % size // under[1]:02d}{under[0]}"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def metrics_text(metrics: JsonObject, most: int = 5) -> str:
    """The first few metrics of an iteration, `meanReward 1.23  recentSuccess 0.45`."""
    skipped = ("iteration", "iterations", "envSteps", "elapsedSeconds", "time")
    names = [name for name in FIRST_METRICS if name in metrics]
    names += [name for name in metrics if name not in names and name not in skipped]
    shown = [(name, metrics[name]) for name in names if isinstance(metrics[name], int | float)]
    return "  ".join(f"{name} {value:.4g}" for name, value in shown[:most])


def card(record: JsonObject) -> str:
    """A Job as HTML: phase, progress, placement, last metrics, proof."""
    from rlark.sdk.placement import Placement

    status = record.get("status") or {}
    name, phase = str(record["metadata"]["name"]), str(status.get("phase", "Pending"))
    rows = "".join(
        f"<tr><td style='text-align:left;color:#57606a'>{escape(label)}</td>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for label, value in [*summary(record), *_first_look(record)]
        if label not in ("job", "phase")
    )
    placement = Placement.from_status(name, status)
    picture = placement._repr_html_() if placement.ranks else ""
    return (
        f"<div style='border:1px solid #d0d7de;border-radius:6px;padding:8px 12px;max-width:44em'>"
        f"<b>{escape(name)}</b> {chip(phase)} {_progress(status)}<table>{rows}</table>{picture}</div>"
    )


def _first_look(record: JsonObject) -> list[tuple[str, str]]:
    """Where to look first in a Job that has ended, in a row of a table; none where no result is missing."""
    from rlark.spec.status import Phase
    from rlark.spec.story import points_at

    point = points_at(record)
    if point is None or not Phase((record.get("status") or {}).get("phase", "Pending")).ended:
        return []
    said = f"{point.reason}: {point.message}" if point.reason else point.message
    return [("missing first", f"{point.step}: {said}"), ("look at", point.look)]


def chip(phase: str) -> str:
    """A phase as a coloured word."""
    color = CHIPS.get(phase, "#57606a")
    return (
        f"<span style='background:{color};color:#fff;border-radius:10px;padding:1px 8px;font-size:85%'>"
        f"{escape(phase)}</span>"
    )


def _progress(status: JsonObject) -> str:
    progress = status.get("progress")
    if not progress:
        return ""
    done, of = progress["iteration"], progress["iterations"]
    return (
        f"<progress value='{done}' max='{of}'></progress> {done}/{of} "
        f"<small>{escape(metrics_text(progress.get('metrics') or {}))}</small>"
    )


class Narrator:
    """Tells a Job's life in lines, for terminals without a bar, files and notebooks.

    Log lines go to one place and everything else to another.
    """

    def __init__(self, say: Callable[[str], Any], log: Callable[[str], Any], *, verbose: bool = False) -> None:
        """Take where the two go.

        Args:
            say: gets what happens.
            log: gets the lines of the run's stdout and stderr.
            verbose: events too.
        """
        self._say, self._log, self._verbose = say, log, verbose
        self._told = ""

    def show(self, event: StreamEvent) -> None:
        """Tell one event."""
        if event.type == "log" and event.data.get("component") is None:
            self._log(str(event.data.get("line", "")))
        elif event.type == "status":
            self._tell(status_text(event.data))
        elif event.type == "event" and (self._verbose or event.data.get("type") == "Warning"):
            self._tell(f"{event.data.get('type')}: {event.data.get('reason')}: {event.data.get('message')}")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)


def status_text(status: JsonObject) -> str:
    """Where a Job stands, in a line: `Pending: 2nd in the queue (GPU 0 leased by job x)`."""
    phase = str(status.get("phase", "Pending"))
    queue = status.get("queue")
    if phase == "Pending" and queue:
        return f"{phase}: number {queue['position']} in the queue ({queue['reason']})"
    held = [item for item in status.get("conditions") or [] if item.get("status") == "True"]
    step = str(held[-1]["type"]) if held and phase == "Running" else str(status.get("reason") or "")
    return f"{phase}: {step}" if step else phase
