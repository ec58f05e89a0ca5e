"""`rlark`: the commands by name, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click

from rlark import __version__
from rlark.cli.command import Entry, LazyGroup
from rlark.cli.session import Session
from rlark.errors import INTERRUPTED, OK, RlarkError

RUN, LOOK, MANAGE, PLATFORM = "Run a Job", "Look", "Manage", "The platform"
ENTRIES = {
    "submit": Entry(RUN, "submit", "Check a Job, run it and follow it to its end."),
    "validate": Entry(RUN, "check", "Check Job files and configurations; nothing is started."),
    "preview": Entry(RUN, "check", "Show everything that would be decided about a Job."),
    "export": Entry(RUN, "export", "Print a Job in RLark's form."),
    "schema": Entry(RUN, "schema", "Print the JSON schema of a Job or a configuration."),
    "jobs": Entry(LOOK, "look", "List Jobs."),
    "get": Entry(LOOK, "look", "Show one Job."),
    "logs": Entry(LOOK, "logs", "Print a Job's log."),
    "wait": Entry(LOOK, "look", "Wait until Jobs have ended."),
    "events": Entry(LOOK, "look", "Tell why things happened to a Job."),
    "metrics": Entry(LOOK, "look", "Print a Job's training curves."),
    "artifacts": Entry(LOOK, "artifacts", "List, pull or verify what a Job made."),
    "queue": Entry(LOOK, "queue", "Show which Jobs wait, and what for."),
    "stop": Entry(MANAGE, "manage", "Stop Jobs, gracefully first."),
    "start": Entry(MANAGE, "manage", "Start ended Jobs again: a new attempt."),
    "resume": Entry(MANAGE, "resume", "Replay iterations of a Job from a checkpoint, and compare."),
    "restart": Entry(MANAGE, "manage", "Stop Jobs and start them again."),
    "delete": Entry(MANAGE, "manage", "Remove Jobs and their folders."),
    "up": Entry(PLATFORM, "platform", "Start the platform, or attach to a Ray cluster."),
    "down": Entry(PLATFORM, "platform", "Stop what `up` started."),
    "doctor": Entry(PLATFORM, "doctor", "Report what this machine has and lacks."),
    "nodes": Entry(PLATFORM, "nodes", "List, cordon and label nodes."),
    "engines": Entry(PLATFORM, "nodes", "List engines and what each lacks."),
    "secrets": Entry(PLATFORM, "secrets", "List, set and delete secrets."),
    "open": Entry(PLATFORM, "open", "Open a page of the platform.", "open_"),
    "token": Entry(PLATFORM, "setup", "Show or rotate the API's token."),
    "config": Entry(PLATFORM, "setup", "Show the settings and where each comes from."),
    "version": Entry(PLATFORM, "setup", "Print versions."),
}


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    examples=(
        "rlark submit job_specs/originbot-goalnav.yaml",
        "rlark preview job.yaml --inventory nodes.yaml",
        "rlark jobs --phase Running -o json",
        "rlark logs -f originbot-goalnav",
        'eval "$(_RLARK_COMPLETE=bash_source rlark)"     # completion; also zsh_source, fish_source',
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def root(context: click.Context) -> None:
    """Checked, leased, placed and verified training jobs for robot policies on one machine."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script; ends the process with one of the exit codes of `rlark.errors`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 shows ? rather than ending the program
            stream.reconfigure(errors="replace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """One call; gives its exit code."""
    session = Session()
    try:
        code = root.main(arguments, prog_name="rlark", standalone_mode=False, obj=session)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except RlarkError as error:
        return _report(session, error)
    except click.Abort:
        click.echo("aborted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (BrokenPipeError, SystemExit):
        if "_RLARK_COMPLETE" in os.environ:  # click's own way out of shell completion
            raise
        # `rlark jobs | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # noqa: BLE001 - the last line of defence; told as a fault of ours
        return _report_fault(session, error)


def _report(session: Session, error: RlarkError) -> int:
    from rlark.cli.output import Output

    try:
        out = session.out
    except RlarkError:  # the settings themselves are the error
        out = Output(quiet=session.quiet, verbose=session.verbose)
    out.error(error)
    if session.verbose and error.__cause__ is not None:
        out.detail(f"caused by {type(error.__cause__).__name__}: {error.__cause__}")
    return error.exit_code


def _report_fault(session: Session, error: Exception) -> int:
    if session.verbose:
        import traceback

        traceback.print_exception(error)
    click.echo(f"error: a fault in rlark: {type(error).__name__}: {error}", err=True)
    click.echo("  hint: run it again with -v for the traceback, and report it with that", err=True)
    return RlarkError.exit_code


if __name__ == "__main__":
    main()
