"""`rlark secrets`: what Jobs read by `valueFrom.secretRef`. A value is never an argument, and never printed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rlark.cli.command import ActionGroup
from rlark.cli.output import Column
from rlark.cli.session import Session, pass_session
from rlark.errors import UsageError

COLUMNS = (
    Column("NAME", lambda secret: secret["name"]),
    Column("KEYS", lambda secret: ",".join(secret["keys"])),
    Column("UPDATED", lambda secret: secret["updatedAt"]),
)
_PIPE = "pipe it in, `rlark secrets set {name} {key} < FILE`, or name a file with --from-file"


@click.group(
    cls=ActionGroup,
    short_help="List, set and delete secrets.",
    examples=(
        "rlark secrets",
        "rlark secrets set huggingface token                  # asks for the value without showing it",
        "rlark secrets set huggingface token < token.txt",
        "rlark secrets set deploy key --from-file ~/.ssh/id_ed25519",
        "rlark secrets delete huggingface token",
    ),
)
def secrets() -> None:
    """List, set and delete secrets; `list` is what happens without a verb.

    A Job reads one with each attempt: env: [{name: HF_TOKEN, valueFrom: {secretRef: {name: huggingface, key: token}}}]
    """


@secrets.command("list", short_help="Every secret with its keys; never a value.")
@pass_session
def list_secrets(session: Session) -> None:
    """List secrets with their keys and when they were changed; values are never told."""
    found = session.client.secrets.list()
    session.out.records(
        found, COLUMNS, name=lambda secret: str(secret["name"]), none="no secrets; see: rlark secrets set --help"
    )


@secrets.command(
    "set",
    short_help="Set a value, from a prompt, a pipe or a file.",
    context_settings={"allow_extra_args": True},  # refused below: click would print what may be the value
)
@click.argument("name")
@click.argument("key")
@click.option("--from-file", metavar="FILE", type=click.Path(), help="Take the value from this file.")
@pass_session
def set_secret(session: Session, name: str, key: str, from_file: str | None) -> None:
    """Set a value; it is asked for without being shown, or read from a pipe or a file.

    The end of the line behind a value of one line does not belong to it. Attempts that run keep the old value.
    """
    if "=" in name + key or click.get_current_context().args:
        raise UsageError(
            "a value is no argument: everybody on this machine could read it in the list of processes",
            hint="rlark secrets set NAME KEY asks for it; " + _PIPE.format(name="NAME", key="KEY"),
        )
    value = _of_one_line(_value(name, key, from_file))
    session.client.secrets.set(name, key, value)
    session.out.say(f"{name}/{key}: set")


@secrets.command("delete", short_help="Delete a secret, or one of its values.")
@click.argument("name")
@click.argument("key", required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, key: str | None, yes: bool) -> None:
    """Delete a secret, or one of its values. Jobs that refer to it fail with their next attempt, and say so."""
    shown = f"{name}/{key}" if key else name
    if not yes:
        _ask(shown)
    session.client.secrets.delete(name, key)
    session.out.say(f"{shown}: deleted")


def _value(name: str, key: str, file: str | None) -> str:
    try:
        if file is not None:
            return Path(file).expanduser().read_text(encoding="utf-8")
        if not sys.stdin.isatty():
            return sys.stdin.read()
    except UnicodeDecodeError:
        hint = f"store it encoded: base64 -w0 FILE | rlark secrets set {name} {key}"
        raise UsageError(f"the value of {name}/{key} is not UTF-8 text", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{file or 'standard input'} cannot be read: {error.strerror}", hint="is it yours?") from None
    return str(click.prompt(f"Value of {name}/{key}", hide_input=True, err=True))


def _of_one_line(text: str) -> str:
    """The text; without its end where that is all there is behind one line."""
    line = text.rstrip("\r\n")
    return line if "\n" not in line else text


def _ask(shown: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("delete asks before it removes, and there is no terminal to ask at", hint="say yes with -y")
    if not click.confirm(f"Delete the secret {shown}? What is deleted cannot be read again.", err=True):
        raise click.Abort
