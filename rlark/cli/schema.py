"""`rlark schema`: the JSON schema of a Job file or of an engine's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rlark.cli.command import Command
from rlark.cli.session import Session, pass_session
from rlark.errors import NotFound, UsageError

if TYPE_CHECKING:
    from rlark.engine import Engine


@click.command(
    cls=Command,
    short_help="Print the JSON schema of a Job or a configuration.",
    outputs=("json", "yaml"),
    examples=(
        "rlark schema > job.schema.json",
        "rlark schema config --engine starter-ppo > config.schema.json",
        "# then, as the first line of job.yaml:",
        "# yaml-language-server: $schema=job.schema.json",
    ),
)
@click.argument("what", type=click.Choice(["job", "config"]), default="job")
@click.option("--engine", metavar="ID", help="Whose configuration; not needed where only one engine is installed.")
@pass_session
def schema(session: Session, what: str, engine: str | None) -> None:
    """Print the JSON schema (draft-07) that lets an editor complete and check what you write."""
    from rlark.spec.schema import job_schema, schema_text

    if what == "job" and engine is not None:
        raise UsageError("--engine goes with config", hint=f"rlark schema config --engine {engine}")
    made = job_schema() if what == "job" else _config_schema(engine)
    if session.out.mode == "yaml":
        session.out.value(made)
    else:
        session.out.text(schema_text(made))


def _config_schema(name: str | None) -> dict[str, Any]:
    from rlark.engine import load_attribute
    from rlark.spec.schema import config_schema

    engine = _engine(name)
    return config_schema(load_attribute(engine.config), f"A configuration of {engine.id}")  # type: ignore[arg-type]


def _engine(name: str | None) -> Engine:
    """The engine that is meant.

    Raises:
        UsageError: none was named, and there is not exactly one.
        NotFound: there is none of that name.
    """
    from rlark.engine import find_engines
    from rlark.spec.nearest import did_you_mean

    engines = find_engines()
    if name is None:
        if len(engines) != 1:
            hint = f"installed: {', '.join(engines) or 'none'}"
            raise UsageError("each engine has a configuration of its own; name one with --engine", hint=hint)
        return next(iter(engines.values()))
    if name not in engines:
        near = did_you_mean(name, list(engines))
        hint = f"did you mean {near!r}?" if near else f"installed: {', '.join(engines) or 'none'}"
        raise NotFound(f"there is no engine {name!r} here", hint=hint)
    return engines[name]
