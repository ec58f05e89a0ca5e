"""Commands that check and start nothing: validate, preview."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlark.cli.command import JOB_FILE, Command
from rlark.cli.look import parse_labels
from rlark.cli.output import Column, JsonObject, Output
from rlark.cli.session import Session, pass_session
from rlark.errors import OK, PlacementError, SpecError
from rlark.sdk.settings import OUTPUTS

if TYPE_CHECKING:
    from rlark.configuration import Checked
    from rlark.preflight import Preview
    from rlark.sdk.draft import Draft

INVENTORY = click.option(
    "--inventory",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check against the nodes described here instead of the platform's or this machine.",
)
CHANGES = click.option(
    "--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change a value, read as YAML; repeatable."
)
NAME = click.option("--name", metavar="N", help="Another name for the Job.")
LABELS = click.option("-l", "--label", "labels", multiple=True, metavar="K=V", help="A further label; repeatable.")


def draft_of(file: str, changes: tuple[str, ...], name: str | None, labels: tuple[str, ...]) -> Draft:
    """A Job file with the changes of the command line.

    Raises:
        UsageError: there is no such file, or a change is not written well.
    """
    from rlark.sdk.draft import parse_change, read_draft

    return read_draft(file).changed(dict(map(parse_change, changes)), name=name, labels=parse_labels(labels))


@click.command(
    cls=Command,
    short_help="Check Job files and configurations; nothing is started.",
    examples=(
        "rlark validate job.yaml",
        "rlark validate configs/*.yaml --inventory nodes.yaml",
        "rlark validate job_specs/*.yaml --inventory nodes.yaml",
        "cat job.yaml | rlark validate - -o json",
    ),
)
@click.argument("files", metavar="JOB.yaml...", nargs=-1, required=True, type=JOB_FILE)
@INVENTORY
@pass_session
def validate(session: Session, files: tuple[str, ...], inventory: Path | None) -> int:
    """Check Job files and print everything that was found, as file:line:column.

    A file that is no Job but has a cluster section, written or from its defaults, is checked as an
    RLinf configuration.

    Without --inventory they are checked against the platform's nodes if it runs, else against
    this machine. Exit code: 0 right (warnings included), 3 invalid, 4 right but never placeable here.
    """
    from rlark.configuration import check_text
    from rlark.sdk.draft import read_draft

    drafts = [read_draft(file) for file in files]
    nodes = session.client.inventory(inventory)
    home = session.settings.own
    checked = [check_text(draft.text, nodes, file=draft.file, folder=draft.folder, home=home) for draft in drafts]
    _print_checked(session.out, checked)
    return worst(one.exit_code for one in checked)


def worst(codes: object) -> int:
    """The exit code of several files: invalid before unplaceable before right."""
    seen = set(codes)  # type: ignore[call-overload]
    return next((code for code in (SpecError.exit_code, PlacementError.exit_code) if code in seen), OK)


def _print_checked(out: Output, checked: list[Checked]) -> None:
    items = [
        {"file": one.file, "ok": one.exit_code == OK, "findings": [found.to_json() for found in one.findings]}
        for one in checked
    ]
    if out.mode in ("json", "yaml"):
        out.value({"files": items})
    elif out.mode == "name":
        out.lines(str(item["file"]) for item in items if item["ok"])
    else:
        for one in checked:
            out.lines(str(found) for found in one.findings)
            out.say(f"{one.file}: {verdict_line(one)}")


def verdict_line(seen: Preview | Checked) -> str:
    """`ok`, or how many errors and warnings there are."""
    counts = {kind: sum(found.severity == kind for found in seen.findings) for kind in ("error", "warning", "info")}
    told = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count and kind != "info"]
    return ", ".join(["ok"] * (counts["error"] == 0) + told)


REVIEW_COLUMNS = (
    Column("CHECK", lambda row: row["check"]),
    Column("EXPECTED", lambda row: row["expected"]),
    Column("ACTUAL", lambda row: row["actual"]),
    Column("OK", lambda row: row["ok"]),
)


@click.command(
    cls=Command,
    short_help="Show everything that would be decided about a Job.",
    outputs=(*OUTPUTS, "svg"),
    examples=(
        "rlark preview job.yaml",
        "rlark preview job.yaml -o yaml > canonical.yaml",
        "rlark preview job.yaml -o svg > placement.svg",
        "rlark preview job.yaml --inventory nodes.yaml -o json",
    ),
)
@click.argument("file", metavar="JOB.yaml", type=JOB_FILE)
@INVENTORY
@CHANGES
@NAME
@LABELS
@pass_session
def preview(
    session: Session,
    *,
    file: str,
    inventory: Path | None,
    changes: tuple[str, ...],
    name: str | None,
    labels: tuple[str, ...],
) -> int:
    """Show everything that would be decided about a Job; nothing is started.

    Prints the canonical YAML (which can be submitted), the review table and the placement map.
    """
    from rlark.preflight import preflight

    draft = draft_of(file, changes, name, labels)
    seen = preflight(draft.load(), session.client.inventory(inventory), home=session.settings.own)
    out = session.out
    if out.mode == "svg":
        _print_svg(out, seen)
    elif out.mode == "json":
        out.value(seen.to_json())
    elif out.mode == "yaml":
        out.text(seen.yaml or "")
    elif out.mode == "name":
        out.lines([seen.job.metadata.name] if seen.job else [])
    else:
        _print_preview(out, seen)
    if out.mode != "json":
        for found in seen.findings:
            out.finding(found)
        out.say(f"{file}: {verdict_line(seen)}")
    return seen.exit_code


def _print_svg(out: Output, seen: Preview) -> None:
    from rlark.plan.picture import placement_svg

    if seen.plan is not None and seen.node is not None:
        out.text(placement_svg(seen.plan, seen.node))


def _print_preview(out: Output, seen: Preview) -> None:
    if seen.yaml:
        out.text(seen.yaml)
        out.lines([""])
    if seen.review:
        rows: list[JsonObject] = [row.to_json() for row in seen.review]
        out.records(rows, REVIEW_COLUMNS, name=lambda row: str(row["check"]))
    grid = grid_of(seen)
    if grid:
        out.lines(["", grid])


def grid_of(seen: Preview) -> str:
    """The placement map as text; empty while it is undecided or the Job has no components."""
    from rlark.plan.picture import placement_grid

    if seen.plan is None or seen.node is None or not seen.plan.placement:
        return ""
    return placement_grid(seen.plan, seen.node).rstrip("\n")
