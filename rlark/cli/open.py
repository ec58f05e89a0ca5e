"""`rlark open`: pages of the platform, in a browser that is signed in by a link."""

from __future__ import annotations

import os
import sys

import click

from rlark.cli.command import JOB, ActionGroup
from rlark.cli.output import JsonObject
from rlark.cli.session import Session, pass_session
from rlark.errors import ClusterError

NO_BROWSER = click.option("--no-browser", is_flag=True, help="Only print the address.")


@click.group(
    cls=ActionGroup,
    short_help="Open a page of the platform.",
    examples=(
        "rlark open dashboard",
        "rlark open console",
        "rlark open tensorboard originbot-goalnav",
    ),
)
def open_() -> None:
    """Print where a page of the platform is and open it, where there is a display.

    Links to the platform's own pages sign the browser in: once, and within 60 seconds.
    """


@open_.command("dashboard", short_help="Ray's own dashboard.")
@NO_BROWSER
@pass_session
def dashboard(session: Session, no_browser: bool) -> None:
    """Print the address of Ray's dashboard and how to give it the token; open it where there is a display.

    The dashboard asks for the token once and keeps it in a cookie of this browser for 30 days.
    """
    from rlark.sdk.settings import platform_record

    record = platform_record(session.settings.home)
    address = str(record.get("dashboard") or "")
    if not address:
        raise ClusterError("no dashboard is known here", hint="start the platform with: rlark up")
    path = str((record.get("head") or {}).get("tokenPath") or "")  # type: ignore[attr-defined]
    payload: JsonObject = {"dashboard": address, "tokenPath": path or None}
    out = session.out
    out.pairs([("dashboard", address), ("token in", path or "none is asked for")], name=address, payload=payload)
    if path:
        out.say(f"when the page asks for a token, paste what this prints: cat {path}")
        out.say(f'for programs: curl -H "Authorization: Bearer $(cat {path})" {address}/api/jobs/')
    out.say("the components of a Job stand under Actors, as JOB/component:rank")
    _show(address, no_browser)


@open_.command("console", short_help="The console; the API's pages where there is none.")
@NO_BROWSER
@pass_session
def console(session: Session, no_browser: bool) -> None:
    """Print a link to the console, good for 60 seconds and one browser; open it where there is a display."""
    front = session.client.transport.request("GET", "/", headers={"Accept": "text/html"})
    _link(session, "/" if front.type == "text/html" else "/docs", no_browser)


@open_.command("tensorboard", short_help="The TensorBoard of a Job.")
@click.argument("job_name", metavar="JOB", type=JOB)
@NO_BROWSER
@pass_session
def tensorboard(session: Session, job_name: str, no_browser: bool) -> None:
    """Print a link to a Job's TensorBoard, good for 60 seconds and one browser; open it where there is a display."""
    from rlark.sdk.transport import JOBS

    job = session.client.job(job_name)  # that there is none is better told now than in the browser
    _link(session, f"{JOBS}/{job.name}/tensorboard/", no_browser)


def _link(session: Session, to: str, no_browser: bool) -> None:
    address, out = session.client.link(to), session.out
    if out.mode in ("json", "yaml"):
        out.value({"url": address})
    else:
        out.lines([address])
    out.say("it signs one browser in, once, within 60 seconds")
    out.flush()
    _show(address, no_browser)


def _show(address: str, no_browser: bool) -> None:
    if not no_browser and has_display():
        import webbrowser

        webbrowser.open(address)


def has_display() -> bool:
    """True where a browser can be opened for somebody to see."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
