"""`rlark submit`: check here, start the platform if need be, hand over, follow to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rlark.cli.check import CHANGES, LABELS, NAME, draft_of, grid_of, verdict_line
from rlark.cli.command import JOB_FILE, Command
from rlark.cli.look import outcome_code, show_job
from rlark.cli.output import Output
from rlark.cli.session import Session, pass_session
from rlark.errors import INTERRUPTED, OK, UsageError

if TYPE_CHECKING:
    from rlark.folder import Home
    from rlark.preflight import Preview
    from rlark.sdk.draft import Draft
    from rlark.sdk.job import Job
    from rlark.sdk.transport import JsonObject


@click.command(
    cls=Command,
    short_help="Check a Job, run it and follow it to its end.",
    examples=(
        "rlark submit job_specs/originbot-goalnav.yaml",
        "rlark submit job.yaml --set spec.tasks[0].ray.resources.gpu=0 --name cpu-run",
        "rlark submit -d -q job.yaml | xargs rlark wait",
        "rlark submit job.yaml --dry-run",
        "rlark submit job.yaml --name demo-2 --resume demo",
        "rlark get originbot-goalnav -o yaml | rlark submit --name again -",
    ),
)
@click.argument("file", metavar="JOB.yaml", type=JOB_FILE)
@CHANGES
@NAME
@LABELS
@click.option("-d", "--detach", is_flag=True, help="Do not follow; print the Job's name.")
@click.option("--dry-run", is_flag=True, help="Check here and on the platform; start nothing.")
@click.option("--replace", is_flag=True, help="Delete an ended Job of that name first.")
@click.option(
    "--resume", metavar="JOB[@STEP]", help="Go on from another Job's checkpoint: its newest, or that of an iteration."
)
@click.option("--exit-code", type=click.Choice(["rlark", "job"]), default="rlark", help="job: end with the run's own.")
@pass_session
def submit(
    session: Session,
    *,
    file: str,
    changes: tuple[str, ...],
    name: str | None,
    labels: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    replace: bool,
    resume: str | None,
    exit_code: str,
) -> int:
    """Check a Job, run it and follow it to its end; `-` reads it from standard input.

    Nothing is started while the check finds an error. Ctrl-C while following detaches: the Job goes on.
    Exit code: 0 Succeeded, 100 Failed or without the first signal that it expects, 103 Stopped, 130 Ctrl-C,
    3 invalid, 4 can never run here, 5 no platform, 6 token, 7 the name is taken.
    """
    from rlark.preflight import preflight
    from rlark.sdk.resume import require_same, resumed

    out, client = session.out, session.client
    draft = draft_of(file, changes, name, labels).anew()
    checkpoint = None if resume is None else _checkpoint(session, draft, resume, replace=replace)
    if checkpoint:
        draft = resumed(draft, checkpoint)
    seen = preflight(draft.load(), client.inventory(), home=session.settings.own)
    _tell_findings(out, file, seen)
    if checkpoint:
        require_same(seen.yaml or "", checkpoint)
    if dry_run:
        return _dry_run(session, seen)
    _ensure_platform(session)
    job, created = client.send(seen.yaml or "", replace=replace)
    out.say(f"{job.name}: {'submitted to' if created else 'already there, on'} {session.client.settings.address}")
    if seen.job is not None and seen.job.spec.stopped:
        return _detached(out, job, f"not started, because spec.stopped is true; start it: rlark start {job.name}")
    if detach:
        return _detached(out, job, come_back(job.name))
    grid = grid_of(seen)
    if grid:
        out.say(grid)
    home = client.settings.home if client.settings.local else None
    return _follow(out, job, home, of_the_run=exit_code == "job")


def _checkpoint(session: Session, draft: Draft, choice: str, *, replace: bool) -> JsonObject:
    """What the Job goes on from; what `--replace` is about to delete is none."""
    from rlark.sdk.resume import checkpoint_of

    of = choice.partition("@")[0]
    loaded = draft.load().job
    if replace and loaded is not None and loaded.name == of:
        raise UsageError(
            f"--replace deletes {of}, and with it the checkpoint to go on from",
            hint=f"give the new Job another name: --name {of}-2",
        )
    return checkpoint_of(session.client, choice)


def _tell_findings(out: Output, file: str, seen: Preview) -> None:
    """Warnings are told and errors raised."""
    from rlark.spec.finding import errors_of, refusal

    if errors_of(seen.findings):
        raise refusal(seen.findings)
    for found in seen.findings:
        out.finding(found)
    out.detail(f"{file}: {verdict_line(seen)}")


def _dry_run(session: Session, seen: Preview) -> int:
    """Ask the platform too, where one runs."""
    from rlark.sdk.local import running

    if not session.settings.local or running(session.settings.home):
        session.client.send(seen.yaml or "", dry_run=True)
        session.out.say("the platform would take this Job; nothing was started")
    else:
        session.out.say("this machine would take this Job; no platform runs, and nothing was started")
    if session.out.mode == "json":
        session.out.value(seen.to_json())
    else:
        session.out.text(seen.yaml or "")
    return OK


def _ensure_platform(session: Session) -> None:
    """Start the platform where none runs, and say so."""
    from rlark.sdk.local import running

    if session.settings.local and not running(session.settings.home):
        from rlark.cli.progress import starting

        with starting(session.out, "starting the platform") as talk:
            session.client.ensure_platform(talk)


def _detached(out: Output, job: Job, next_steps: str) -> int:
    if out.mode in ("json", "yaml"):
        out.value(job.record)
    else:
        out.lines([job.name])
    out.say(next_steps)
    return OK


def come_back(name: str) -> str:
    """What to do next with a Job that runs by itself."""
    return f"follow it: rlark logs -f {name}    look: rlark get {name}    end it: rlark stop {name}"


def _follow(out: Output, job: Job, home: Home | None, *, of_the_run: bool) -> int:
    from rlark.cli.progress import follower

    if out.mode == "name":
        out.lines([job.name])
        out.flush()
    try:
        with follower(out) as show:
            for event in job.follow():
                show(event)
    except KeyboardInterrupt:
        out.say(f"\ndetached: {job.name} goes on\n{come_back(job.name)}")
        return INTERRUPTED
    record = job.refresh().record
    if out.mode in ("json", "yaml"):
        out.value(record)
    elif out.mode != "name":
        show_job(out, record, _whereabouts(home, job))
        out.say(f"why it went so: rlark events {job.name}    again: rlark start {job.name}")
    return outcome_code(record, of_the_run=of_the_run)


def _whereabouts(home: Home | None, job: Job) -> list[tuple[str, object]]:
    """Where its products and its logs are.

    Args:
        home: the state directory, where it is on this machine.
        job: whose.
    """
    files = [str(item["path"]) for item in job.artifacts.list()]
    logs = home.job(job.name).logs(int(job.status.get("attempt") or 1)) if home else None
    return [
        ("artifacts", f"{', '.join(files)}; to get them: rlark artifacts {job.name} pull" if files else ""),
        ("logs", f"{logs}; to read them: rlark logs {job.name}" if logs else f"rlark logs {job.name}"),
    ]
