"""Commands that start and stop the platform: up, down."""

from __future__ import annotations

import os
import sys

import click

from rlark.cli.command import Command
from rlark.cli.output import JsonObject
from rlark.cli.session import Session, pass_session

FLAGS = ("host", "port", "dashboard_port", "num_cpus", "num_gpus", "labels", "ray_address")


@click.command(
    cls=Command,
    short_help="Start the platform, or attach to a Ray cluster.",
    examples=(
        "rlark up",
        "rlark up --num-gpus 8                         # claim GPUs that are not there; marked as faked",
        "rlark up --ray-address 10.0.0.5:6379",
        "rlark up --labels team=navigation,rlark.io/node-category-cloud=true",
    ),
)
@click.option("--host", metavar="HOST", help="Where the API listens; 127.0.0.1 by default.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The API's port; 19091 by default.")
@click.option("--dashboard-port", type=click.IntRange(1, 65535), metavar="N", help="The port of Ray's dashboard.")
@click.option("--num-cpus", type=click.IntRange(min=1), metavar="N", help="How many CPUs Jobs may lease.")
@click.option("--num-gpus", type=click.IntRange(min=0), metavar="N", help="How many GPUs; more than exist are faked.")
@click.option("--labels", metavar="K=V,...", help="The node's labels, instead of the usual ones.")
@click.option("--ray-address", metavar="HOST:PORT", help="Attach to this Ray cluster instead of starting a head.")
@click.option("--foreground", is_flag=True, help="Stay, and end the platform with Ctrl-C.")
@pass_session
def up(session: Session, /, foreground: bool, **options: str | int | None) -> None:
    """Start a Ray head and the API, or attach to a Ray cluster; does nothing if they run already."""
    from rlark.sdk.local import boot, boot_command, boot_environment

    settings = session.settings
    home = settings.home
    given = [part for name in FLAGS for part in _argument(name, options.get(name))]
    given += settings.start_options if options.get("port") is None else []
    if foreground:
        session.out.say(f"the platform runs here until Ctrl-C; state in {home.root}")
        command = boot_command(home, "up", [*given, "--foreground"])
        sys.stdout.flush()
        os.execve(command[0], command, boot_environment())  # noqa: S606 - this process becomes the platform, signals and all
    from rlark.cli.progress import starting

    with starting(session.out, "starting the platform") as talk:
        record = boot(home, "up", given, talk)
    session.out.pairs(_record_rows(session, record), name=str(record["address"]), payload=record)


def _argument(name: str, value: str | int | None) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


def _record_rows(session: Session, record: JsonObject) -> list[tuple[str, object]]:
    head = record.get("head") or {}
    home = session.settings.home
    return [
        ("address", record.get("address")),
        ("token", home.token),
        ("state", home.root),
        ("ray", f"{head.get('address')}{' (attached, not ours)' if record.get('attached') else ''}"),
        ("dashboard", record.get("dashboard")),
        ("gpus", "faked" if record.get("gpusFaked") else "as found"),
        ("stop with", f"rlark down --home {home.root}"),
    ]


@click.command(
    cls=Command, short_help="Stop what `up` started.", examples=("rlark down", "rlark down --force       # at once")
)
@click.option("--force", is_flag=True, help="Do not wait for Jobs to end with their grace.")
@pass_session
def down(session: Session, force: bool) -> None:
    """Stop what `up` started, by process id: Jobs first, with their grace. An attached cluster lives on."""
    from rlark.cli.progress import starting
    from rlark.sdk.local import boot

    with starting(session.out, "stopping the platform") as talk:
        answer = boot(session.settings.home, "down", ["--force"] if force else [], talk)
    if session.out.mode in ("json", "yaml"):
        session.out.value(answer)
    session.out.say("the platform is down; Jobs and their files are kept in " + str(session.settings.home.jobs))
