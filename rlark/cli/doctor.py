"""`rlark doctor`."""

from __future__ import annotations

import click

from rlark.cli.command import JOB_FILE, Command
from rlark.cli.output import Column
from rlark.cli.session import Session, pass_session
from rlark.errors import OK

CHECK_COLUMNS = (
    Column("TOPIC", lambda item: item["topic"]),
    Column("CHECK", lambda item: item["name"]),
    Column("STATE", lambda item: item["state"]),
    Column("FOUND", lambda item: item["detail"]),
    Column("DO", lambda item: item["fix"]),
)


@click.command(
    cls=Command,
    short_help="Report what this machine has and lacks.",
    examples=("rlark doctor", "rlark doctor job_specs/originbot-goalnav.yaml", "rlark doctor -o json"),
)
@click.argument("file", metavar="[JOB.yaml]", required=False, type=JOB_FILE)
@pass_session
def doctor(session: Session, file: str | None) -> int:
    """Report what this machine has and lacks: devices, versions, ports, engines, and what others can reach.

    With a Job file, what keeps that Job from running here is reported too, and is the exit code.
    """
    from rlark.host import device
    from rlark.sdk.doctor import examine

    out, client = session.out, session.client
    report = device.report(client.settings.home.root)
    checks = [check.to_json() for check in examine(client, report)]
    findings, code = _check_job(session, file) if file else ([], OK)
    payload = {"device": report.to_json(), "checks": checks, "findings": [found.to_json() for found in findings]}
    out.records(checks, CHECK_COLUMNS, name=lambda item: f"{item['topic']}/{item['name']}", payload=payload)
    if out.mode in ("table", "wide"):
        out.lines(str(found) for found in findings)
        if file:
            out.say(f"{file}: {'can run here' if code == OK else 'cannot run here'}")
    return code


def _check_job(session: Session, file: str) -> tuple[list, int]:  # type: ignore[type-arg]
    preview = session.client.preview(file)
    return list(preview.findings), preview.exit_code
