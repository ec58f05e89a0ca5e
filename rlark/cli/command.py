"""What every command shares: the global options, before and after its name, and the form of its help."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from rlark.cli.session import Session
from rlark.folder import Home
from rlark.sdk.settings import OUTPUTS
from rlark.spec.nearest import did_you_mean


class GlobalOption(click.Option):
    """An option of every command; it is kept in the session and not passed to the command."""

    def __init__(self, *declarations: str, **attributes: Any) -> None:
        super().__init__(list(declarations), expose_value=False, callback=_remember, **attributes)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    session = context.ensure_object(Session)
    if value and parameter.name:  # given here; nothing is forgotten that was given before the command's name
        session.remember(parameter.name, value)


def global_options(outputs: Sequence[str] = OUTPUTS) -> list[click.Parameter]:
    """The options of every command, made anew for one."""
    return [
        GlobalOption("--address", metavar="URL", help="The API; else RLARK_ADDRESS, rlark.toml, the running platform."),
        GlobalOption("--token", metavar="TOKEN", help="The API's token; else RLARK_TOKEN, the state directory's."),
        GlobalOption("--home", metavar="DIR", help="The state directory; else RLARK_HOME."),
        GlobalOption("-o", "--output", type=click.Choice(list(outputs)), help="Form of the data on stdout."),
        GlobalOption("-q", "--quiet", is_flag=True, help="Names only, no talk; for pipes."),
        GlobalOption("-v", "--verbose", is_flag=True, help="Say more; tracebacks of faults."),
        GlobalOption("--no-color", is_flag=True, help="No colours; NO_COLOR does the same."),
    ]


class Command(click.Command):
    """A command with the global options and examples under its help."""

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), outputs: Sequence[str] = OUTPUTS, **attributes: Any
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = tuple(examples)
        self.params.extend(global_options(outputs))

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then everybody's."""
        write_options(self, ctx, formatter)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples."""
        write_examples(self.examples, formatter)


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Two sections: the options of this command, and those of all commands."""
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Global options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            sections["Global options" if isinstance(parameter, GlobalOption) else "Options"].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """One line an example, never wrapped, so that it can be copied."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


@dataclass(frozen=True)
class Entry:
    """A command that is imported only when it is called.

    Attributes:
        section: the heading it stands under in the help.
        module: where it is defined, under `rlark.cli`.
        summary: its line in the help; the same as the command's own `short_help`.
        attribute: its name in the module, where that is not the command's own.
    """

    section: str
    module: str
    summary: str
    attribute: str = ""


class Group(click.Group):
    """A group with the global options, examples under its help, and a guess at a command that does not exist."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = tuple(examples)
        self.params.extend(global_options())

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples."""
        write_examples(self.examples, formatter)

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = did_you_mean(args[0], self.list_commands(ctx))
            if near is None:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near!r}?", error.ctx) from None


class LazyGroup(Group):
    """The root: it knows its commands by name and summary, and imports the one that is called."""

    def __init__(
        self, *arguments: Any, entries: Mapping[str, Entry], examples: Sequence[str], **attributes: Any
    ) -> None:
        super().__init__(*arguments, examples=examples, **attributes)
        self.entries = entries

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        return list(self.entries)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import it."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"rlark.cli.{entry.module}")
        found = getattr(module, entry.attribute or cmd_name)
        return found if isinstance(found, click.Command) else None

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their headings, without importing one, then the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)
        write_options(self, ctx, formatter)


class ActionGroup(Group):
    """A noun with verbs under it, such as `nodes`; without a verb it does the first one."""

    command_class = Command

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, examples=examples, **(attributes | {"invoke_without_command": True}))
        self.callback = click.pass_context(self._first_unless_named)

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of their definition; the first is what happens without a verb."""
        return list(self.commands)

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs, then the options."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def _first_unless_named(self, ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            first = next(iter(self.commands.values()))
            with first.make_context(first.name, [], parent=ctx) as sub:
                first.invoke(sub)


class JobName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A Job's name; completes to the folders of the state directory, without asking the network."""

    name = "job"

    @override
    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names of Jobs that this machine knows."""
        session = ctx.ensure_object(Session)
        home = Home.find(session.flags.get("home"))
        try:
            names = sorted(path.name for path in Path(home.jobs).iterdir() if path.is_dir())
        except OSError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


JOB = JobName()
JOB_FILE = click.Path(allow_dash=True)
"""A Job file, or `-`; completes to files. It is opened later, with better words where that fails."""
