"""`rlark export`: a Job in the form of another system."""

from __future__ import annotations

import click

from rlark.cli.check import CHANGES, LABELS, NAME, draft_of
from rlark.cli.command import JOB_FILE, Command
from rlark.cli.session import Session, pass_session


@click.command(
    cls=Command,
    short_help="Print a Job in RLark's form.",
    outputs=("yaml", "json", "name"),
    examples=(
        "rlark export job.yaml --to rlark > rlark-job.yaml",
        "rlark export job.yaml --to rlark -o json",
        "rlark get my-job -o yaml | rlark export - --to rlark",
    ),
)
@click.argument("file", metavar="JOB.yaml", type=JOB_FILE)
@click.option("--to", "system", type=click.Choice(["rlark"]), required=True, help="Whose form.")
@CHANGES
@NAME
@LABELS
@pass_session
def export(
    session: Session,
    *,
    file: str,
    system: str,  # noqa: ARG001
    changes: tuple[str, ...],
    name: str | None,
    labels: tuple[str, ...],
) -> None:
    """Print a Job in RLark's form, and warn on stderr about what RLark cannot carry.

    A Job in RLark's Kubernetes form comes back without loss. Exit code: 0, or 3 where the file is no Job.
    """
    from rlark.spec.finding import refusal
    from rlark.spec.generator import to_rlark

    source = draft_of(file, changes, name, labels).load()
    if source.job is None:
        raise refusal(source.findings)
    made, left_out = to_rlark(source.job, source.data)
    out = session.out
    for found in sorted(map(source.place, left_out), key=lambda found: (found.line, found.column)):
        out.finding(found)
    if out.mode == "name":
        out.lines([source.job.name])
    elif out.mode == "json":
        out.value(made)
    else:
        from rlark.spec.emit import emit

        out.text(emit(made))
