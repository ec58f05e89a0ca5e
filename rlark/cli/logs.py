"""`rlark logs`."""

from __future__ import annotations

import click

from rlark.cli.command import JOB, Command
from rlark.cli.look import outcome_code
from rlark.cli.session import Session, pass_session
from rlark.errors import INTERRUPTED, OK


@click.command(
    cls=Command,
    short_help="Print a Job's log.",
    examples=(
        "rlark logs -f originbot-goalnav",
        "rlark logs originbot-goalnav -n 20 --component env",
        "rlark logs originbot-goalnav --attempt 1 --since 10m",
    ),
)
@click.argument("job", type=JOB)
@click.option("-f", "--follow", is_flag=True, help="Go on until the Job has ended; exit with its outcome.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--since", metavar="TIME", help="Only lines from then on: 2026-01-31T12:00:00Z, or an age such as 10m.")
@click.option("--stream", metavar="NAME", help="Only stdout, stderr or <component>-<rank>.")
@click.option("--component", metavar="C", help="Only the ranks of this component: actor, rollout, env.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Which try; the latest by default.")
@click.option("--timestamps", is_flag=True, help="The time before each line, where it is known.")
@pass_session
def logs(
    session: Session,
    *,
    job: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    stream: str | None,
    component: str | None,
    attempt: int | None,
    timestamps: bool,
) -> int:
    """Print a Job's log; with -f go on until its end and exit with its outcome."""
    out, held = session.out, session.client.job(job)
    records = held.logs(follow=follow, tail=tail, since=since, stream=stream, component=component, attempt=attempt)
    several = component is not None
    try:
        for record in records:
            if out.mode == "json":
                out.stream_value(
                    {key: getattr(record, key) for key in ("attempt", "stream", "component", "rank", "time", "line")}
                )
                continue
            stamp = f"{record.time or '-'} " if timestamps else ""
            rank = f"[{record.stream}] " if several else ""
            out.lines([f"{stamp}{rank}{record.line}"])
            if follow:
                out.flush()
    except KeyboardInterrupt:
        out.say(f"\ndetached; {job} goes on. Come back with: rlark logs -f {job}")
        return INTERRUPTED
    return outcome_code(held.record) if follow else OK
