"""`rlark queue`."""

from __future__ import annotations

import click

from rlark.cli.command import JOB_FILE, Command
from rlark.cli.output import Column
from rlark.cli.session import Session, pass_session

QUEUE_COLUMNS = (
    Column("POSITION", lambda item: item["position"]),
    Column("JOB", lambda item: item["job"]),
    Column("PRIORITY", lambda item: item.get("priority", 0)),
    Column("REASON", lambda item: item["reason"]),
)


@click.command(
    cls=Command,
    short_help="Show which Jobs wait, and what for.",
    examples=("rlark queue", "rlark queue --what-if job.yaml"),
)
@click.option(
    "--what-if", "file", metavar="JOB.yaml", type=JOB_FILE, help="Where this Job would stand if it were submitted now."
)
@pass_session
def queue(session: Session, file: str | None) -> None:
    """Show which Jobs wait, in their order, and what each waits for."""
    items = session.client.queue()
    if file is None:
        session.out.records(items, QUEUE_COLUMNS, name=lambda item: str(item["job"]), none="nothing waits")
    else:
        _what_if(session, file, items)


def _what_if(session: Session, file: str, items: list[dict[str, object]]) -> None:
    from rlark.sdk.what_if import what_if
    from rlark.spec.finding import refusal

    seen = session.client.preview(file)
    if seen.exit_code:
        raise refusal(seen.findings)
    priority = seen.job.spec.priority if seen.job is not None else 0
    answer = what_if(seen.name, priority, seen.findings, items)
    word = "at once" if answer["startsNow"] else f"waits at position {answer['position']}"
    rows = [("job", answer["job"]), ("starts", word), ("reason", answer["reason"])]
    session.out.pairs(rows, name=str(answer["job"]), payload=answer)
