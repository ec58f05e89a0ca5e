"""`rlark resume`: a Job's checkpoint, replayed and held against what the Job told."""

from __future__ import annotations

import click

from rlark.cli.command import Command
from rlark.cli.look import outcome_code
from rlark.cli.session import Session, pass_session
from rlark.errors import OK


@click.command(
    cls=Command,
    short_help="Replay iterations of a Job from a checkpoint, and compare.",
    examples=(
        "rlark resume originbot-goalnav --verify 5",
        "rlark resume originbot-goalnav@200 --verify 20 -o json",
        "rlark submit job.yaml --name demo-2 --resume demo      # to go on training from a checkpoint",
    ),
)
@click.argument("job", metavar="JOB[@STEP]")
@click.option(
    "--verify", "updates", metavar="K", type=click.IntRange(min=1), required=True, help="How many iterations to replay."
)
@pass_session
def resume(session: Session, job: str, updates: int) -> int:
    """Replay K iterations of a Job from a checkpoint and compare every number and checkpoint on the way, bit for bit.

    Without STEP it begins at the newest checkpoint after which the Job told so many iterations. The replay is a
    Job of its own, JOB-replay, on the same placement. Exit code: 0 all is the same, 100 something differs.
    """
    from rlark.sdk.resume import replaying

    out, client = session.out, session.client
    replay = client.submit(replaying(client, job, updates), replace=True)
    for _ in replay.follow():
        pass
    record = replay.refresh().record
    code = outcome_code(record, of_the_run=False)
    status = replay.status
    if out.mode in ("json", "yaml"):
        out.value(record)
    elif code == OK:
        out.lines([f"{job}: {updates} iterations gave the same numbers again, bit for bit"])
    else:
        out.lines([f"{job}: {status.get('message') or status.get('reason')}"])
    return code
