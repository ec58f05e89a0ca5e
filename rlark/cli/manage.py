"""Commands that change a Job: stop, start, restart, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from rlark.cli.command import JOB, Command
from rlark.cli.look import JOB_COLUMNS, name_of
from rlark.cli.session import Session, pass_session
from rlark.errors import OK, RlarkError, UsageError
from rlark.sdk.job import Job

LIVE = ("Pending", "Running")
ALREADY = {"Pending": "waits for its turn already; see rlark queue", "Running": "runs already"}
JOBS_ARGUMENT = click.argument("job_names", metavar="JOB...", nargs=-1, required=True, type=JOB)


def _each(session: Session, names: tuple[str, ...], act: Callable[[Job], str]) -> int:
    """Do it to every Job and say what was done; one that refuses does not keep the others from it.

    Returns:
        The exit code of the first refusal, else 0.
    """
    changed, code = [], OK
    for name in names:
        try:
            job = session.client.job(name)
            done = act(job)
        except RlarkError as error:
            session.out.error(error)
            code = code or error.exit_code
        else:
            session.out.say(f"{name}: {done}")
            changed.append(job.record)
    if session.out.mode != "table":
        session.out.records(changed, JOB_COLUMNS, name=name_of)
    return code


def _stands(job: Job) -> tuple[str, bool]:
    """The phase as it was last seen, and whether a stop was asked for."""
    return str(job.status["phase"]), bool(job.record["spec"].get("stopped"))


def _stop(job: Job) -> str:
    phase, _ = _stands(job)
    if phase not in LIVE:
        return f"has ended already: {phase}"
    job.stop()
    return "stopping" if _stands(job)[0] in LIVE else "stopped"


def _start(job: Job) -> str:
    phase, stopping = _stands(job)
    if phase in LIVE and not stopping:
        return ALREADY[phase]
    job.start()
    return "starts again when it has stopped" if phase in LIVE else "started again"


def _restart(job: Job) -> str:
    phase, stopping = _stands(job)
    if phase == "Pending" and not stopping:
        return ALREADY[phase]
    job.restart()
    return "restarting"


@click.command(cls=Command, short_help="Stop Jobs, gracefully first.", examples=("rlark stop originbot-goalnav",))
@JOBS_ARGUMENT
@pass_session
def stop(session: Session, job_names: tuple[str, ...]) -> int:
    """Stop Jobs: SIGTERM, then SIGKILL after the Job's grace. Returns at once; `rlark wait JOB` waits."""
    return _each(session, job_names, _stop)


@click.command(
    cls=Command, short_help="Start ended Jobs again: a new attempt.", examples=("rlark start originbot-goalnav",)
)
@JOBS_ARGUMENT
@pass_session
def start(session: Session, job_names: tuple[str, ...]) -> int:
    """Start ended Jobs again. Each gets a new attempt and keeps the logs of the earlier ones."""
    return _each(session, job_names, _start)


@click.command(cls=Command, short_help="Stop Jobs and start them again.", examples=("rlark restart originbot-goalnav",))
@JOBS_ARGUMENT
@pass_session
def restart(session: Session, job_names: tuple[str, ...]) -> int:
    """Stop Jobs and start them again: a new attempt each."""
    return _each(session, job_names, _restart)


@click.command(
    cls=Command,
    short_help="Remove Jobs and their folders.",
    examples=("rlark delete originbot-goalnav", "rlark jobs --phase Failed -q | xargs rlark delete -y"),
)
@JOBS_ARGUMENT
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, job_names: tuple[str, ...], yes: bool) -> int:
    """Remove Jobs with their folders; a running one is stopped first. What they wrote to a hostPath stays."""
    if not yes:
        _ask(job_names)

    def act(job: Job) -> str:
        return "deleted" if job.delete() else "deleting; its last processes still end"

    return _each(session, job_names, act)


def _ask(names: tuple[str, ...]) -> None:
    if not sys.stdin.isatty():
        raise UsageError("delete asks before it removes, and there is no terminal to ask at", hint="say yes with -y")
    if not click.confirm(f"Remove {', '.join(names)} with logs, checkpoints and artifacts?", err=True):
        raise click.Abort
