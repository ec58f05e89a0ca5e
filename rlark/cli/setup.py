"""Commands about this installation: token, config, version."""

from __future__ import annotations

import platform

import click

from rlark import __version__
from rlark.cli.command import ActionGroup, Command
from rlark.cli.output import Column, JsonObject
from rlark.cli.session import Session, pass_session
from rlark.errors import NotFound
from rlark.sdk.settings import KEYS

PACKAGES = ("ray", "torch", "jax", "mujoco", "onnx", "onnxruntime", "numpy", "pydantic", "fastapi")


@click.group(
    cls=ActionGroup,
    short_help="Show or rotate the API's token.",
    examples=("export RLARK_TOKEN=$(rlark token show)", "rlark token rotate"),
)
def token() -> None:
    """Show or rotate the token of the platform on this machine; `show` is what happens without a verb."""


@token.command("show", short_help="Print it.")
@pass_session
def show_token(session: Session) -> None:
    """Print the token that the API on this machine asks for."""
    path = session.settings.home.token
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        raise NotFound(f"there is no token in {path}", hint="the first `rlark up` makes one") from None
    out = session.out
    out.detail(f"from {path}")
    if out.mode in ("json", "yaml"):
        out.value({"token": text, "path": str(path)})
    else:
        out.lines([text])


@token.command("rotate", short_help="Replace it.")
@pass_session
def rotate(session: Session) -> None:
    """Replace the token; the API asks for the new one from its next request on.

    Whoever has the old one is out, and so is every browser that signed in.
    """
    import secrets

    from rlark.folder import write_text

    path = session.settings.home.token
    if not path.exists():
        raise NotFound(f"there is no token in {path}", hint="the first `rlark up` makes one")
    write_text(path, secrets.token_urlsafe(32) + "\n")
    session.out.say(f"a new token stands in {path}; print it with: rlark token show")
    session.out.say("browsers must sign in again: rlark open console")


@click.group(
    cls=ActionGroup, short_help="Show the settings and where each comes from.", examples=("rlark config show --origin",)
)
def config() -> None:
    """Show the settings: flags > RLARK_* > ./rlark.toml > $XDG_CONFIG_HOME/rlark/config.toml > defaults."""


@config.command("show", short_help="Every setting.")
@click.option("--origin", is_flag=True, help="And where each value comes from.")
@pass_session
def show_config(session: Session, origin: bool) -> None:
    """Show every setting; the token itself is not printed."""
    values = session.settings.values
    items: list[JsonObject] = [
        {
            "key": key,
            "value": ("(set)" if values[key].value else "") if key == "token" else values[key].value,
            **({"origin": values[key].origin} if origin else {}),
        }
        for key in KEYS
    ]
    columns = [Column(key.upper(), lambda item, key=key: item[key]) for key in items[0]]  # type: ignore[misc]
    session.out.records(items, columns, name=lambda item: str(item["key"]))


@click.command(cls=Command, short_help="Print versions.", examples=("rlark version -o json",))
@pass_session
def version(session: Session) -> None:
    """Print the versions of rlark, Python and what the engines are made of; nothing of it is imported."""
    from rlark.sdk.doctor import installed

    found: dict[str, object] = {"rlark": __version__, "python": platform.python_version()}
    found |= {package: installed(package) for package in PACKAGES}
    session.out.pairs(list(found.items()), name=__version__, payload=found)
