"""`rlark artifacts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlark.cli.command import JOB, Command
from rlark.cli.output import Column, JsonObject, Output
from rlark.cli.session import Session, pass_session
from rlark.errors import OK, JobFailed, NotFound

if TYPE_CHECKING:
    from rlark.evidence.manifest import ManifestReport

FILE_COLUMNS = (
    Column("PATH", lambda item: item["path"]),
    Column("BYTES", lambda item: item["sizeBytes"]),
    Column("SHA256", lambda item: item["sha256"]),
)


@click.command(
    cls=Command,
    short_help="List, pull or verify what a Job made.",
    examples=(
        "rlark artifacts originbot-goalnav",
        "rlark artifacts originbot-goalnav pull --to out",
        "rlark artifacts originbot-goalnav pull policy.onnx",
        "rlark artifacts originbot-goalnav verify",
        "rlark artifacts ./out verify                      # a pulled folder, offline",
    ),
)
@click.argument("job", metavar="JOB|./DIR", type=JOB)
@click.argument("action", type=click.Choice(["list", "pull", "verify"]), default="list")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--to", "target", metavar="DIR", type=click.Path(path_type=Path), help="The folder to pull into; ./JOB by default."
)
@pass_session
def artifacts(session: Session, job: str, action: str, paths: tuple[str, ...], target: Path | None) -> int:
    """List what a Job made, pull it into a folder, or verify it against its SHA256SUMS.

    A name with a slash in it, such as ./out, is a pulled folder: it is verified without any platform.
    Exit code of verify: 0 it holds, 100 it does not.
    """
    if action != "verify" and "/" in job:
        raise NotFound(f"{job} is a folder; only verify reads one", hint=f"rlark artifacts {job} verify")
    if action == "list":
        return _list(session, job)
    if action == "pull":
        return _pull(session, job, target or Path(job), paths)
    return _verify(session, job)


def _list(session: Session, job: str) -> int:
    listing = session.client.job(job).artifacts.listing()
    session.out.records(
        listing["files"],
        FILE_COLUMNS,
        name=lambda item: str(item["path"]),
        payload=listing,
        none=f"{job} has made nothing yet",
    )
    return OK


def _pull(session: Session, job: str, target: Path, paths: tuple[str, ...]) -> int:
    places = session.client.job(job).artifacts.pull(target, paths)
    items: list[JsonObject] = [{"path": str(place), "sizeBytes": place.stat().st_size} for place in places]
    columns = FILE_COLUMNS[:2]
    session.out.records(items, columns, name=lambda item: str(item["path"]), payload={"files": items})
    session.out.say(f"{len(places)} files in {target}, hashes compared")
    return OK


def _verify(session: Session, job: str) -> int:
    from rlark.sdk.artifacts import verify_folder

    if "/" in job or job in (".", ".."):
        return _print_report(session.out, job, verify_folder(job))
    return _print_report(session.out, job, session.client.job(job).artifacts.verify())


def _print_report(out: Output, subject: str, report: ManifestReport) -> int:
    rows: list[tuple[str, object]] = [
        ("verified", report.verified),
        ("files", ", ".join(report.files)),
        ("detail", report.detail),
        ("code", report.code),
    ]
    out.pairs(rows, name=subject, payload=report.to_json())
    out.say(f"{subject}: {'verified' if report.verified else 'NOT verified'}")
    return OK if report.verified else JobFailed.exit_code
