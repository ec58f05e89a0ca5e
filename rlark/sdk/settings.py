"""Settings: where the platform is and how to speak to it, each with where it came from.

flags  >  RLARK_* variables  >  ./rlark.toml  >  $XDG_CONFIG_HOME/rlark/config.toml  >  defaults
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rlark.errors import UsageError
from rlark.folder import Home, read_json
from rlark.spec.nearest import did_you_mean

DEFAULT_PORT = "19091"
DEFAULT_ADDRESS = f"http://127.0.0.1:{DEFAULT_PORT}"
OUTPUTS = ("table", "wide", "json", "yaml", "name")
KEYS = ("address", "token", "home", "output", "color", "port")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Setting:
    """One value and where it came from.

    Attributes:
        value: as text; empty when there is none.
        origin: `--address`, `RLARK_ADDRESS`, a file's path or `default`.
    """

    value: str
    origin: str


@dataclass(frozen=True)
class Settings:
    """Everything that decides which platform is meant.

    Attributes:
        values: every key of `KEYS`, resolved.
    """

    values: Mapping[str, Setting]

    @property
    def address(self) -> str:
        """The API's address, `http://host:port`, without a slash at the end."""
        return self.values["address"].value

    @property
    def token(self) -> str:
        """The bearer token; empty when none was found."""
        return self.values["token"].value

    @property
    def home(self) -> Home:
        """The state directory."""
        return Home(Path(self.values["home"].value))

    @property
    def output(self) -> str:
        """One of `OUTPUTS`."""
        return self.values["output"].value

    @property
    def start_options(self) -> list[str]:
        """What a platform that is started without further words is told: its port, where one is set."""
        port = self.values["port"]
        return [] if port.origin == "default" else ["--port", port.value]

    @property
    def color(self) -> bool:
        """False where colours were declined."""
        return self.values["color"].value != "never"

    @property
    def own(self) -> Home | None:
        """The state directory of the platform that is meant; None where that is somebody else's, or elsewhere."""
        return self.home if self.local else None

    @property
    def local(self) -> bool:
        """True when the platform meant is this user's own, under `home`: it may be started here."""
        return self.values["address"].origin in ("default", str(self.home.platform))


def find_settings(
    flags: Mapping[str, str | None] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Resolve every setting.

    Args:
        flags: what was given by hand; absent or None means not given.
        environ: the environment; the process's own by default.
        folder: where `rlark.toml` is looked for; the working directory by default.

    Raises:
        UsageError: a settings file or a value cannot be read.
    """
    environ = os.environ if environ is None else environ
    layers = [
        _flag_layer(flags or {}),
        _variable_layer(environ),
        _file_layer((folder or Path.cwd()) / "rlark.toml"),
        _file_layer(_config_folder(environ) / "rlark" / "config.toml"),
    ]
    found: dict[str, Setting] = {}
    for layer in reversed(layers):
        found.update(layer)
    found.setdefault("output", Setting("table", "default"))
    found.setdefault("color", Setting("auto", "default"))
    found.setdefault("port", Setting(DEFAULT_PORT, "default"))
    _check(found)
    found["home"] = _home(found.get("home"))
    found["address"] = _address(found.get("address"), Home(Path(found["home"].value)), found["port"].value)
    found["token"] = _token(found.get("token"), found["address"], Home(Path(found["home"].value)))
    return Settings({key: found[key] for key in KEYS})


def _flag_layer(flags: Mapping[str, str | None]) -> dict[str, Setting]:
    names = {"color": "--no-color"}
    return {key: Setting(value, names.get(key, f"--{key}")) for key, value in flags.items() if value}


def _variable_layer(environ: Mapping[str, str]) -> dict[str, Setting]:
    names = {key: f"RLARK_{key.upper()}" for key in KEYS}
    layer = {key: Setting(environ[name], name) for key, name in names.items() if environ.get(name)}
    if environ.get("NO_COLOR"):
        layer["color"] = Setting("never", "NO_COLOR")
    return layer


def _config_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _file_layer(path: Path) -> dict[str, Setting]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="mend the file, or move it away") from None
    for key, value in values.items():
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            known = f"did you mean {near!r}?" if near else f"known are {', '.join(KEYS)}"
            raise UsageError(f"{path}: there is no setting {key!r}", hint=known)
        if not isinstance(value, str) and not (key == "port" and type(value) is int):
            raise UsageError(f"{path}: {key} is {value!r} and must be text", hint=f'write {key} = "..."')
    layer = {key: Setting(str(value), str(path)) for key, value in values.items()}
    if "home" in layer:  # a relative folder in a file starts at that file
        layer["home"] = Setting(str(path.parent / Path(layer["home"].value).expanduser()), str(path))
    return layer


def _home(given: Setting | None) -> Setting:
    if given is not None:
        return Setting(str(Path(given.value).expanduser().absolute()), given.origin)
    return Setting(str(Home.find().root), "default")


def _address(given: Setting | None, home: Home, port: str) -> Setting:
    if given is not None:
        return Setting(parse_address(given.value), given.origin)
    running = platform_record(home)
    address = running.get("address")
    if isinstance(address, str) and address:
        return Setting(parse_address(address), str(home.platform))
    return Setting(f"http://127.0.0.1:{port}", "default")


def platform_record(home: Home) -> dict[str, object]:
    """What `platform.json` says is running; empty when nothing was started or the file is broken."""
    try:
        return read_json(home.platform) or {}
    except (OSError, ValueError):
        return {}


def parse_address(text: str) -> str:
    """An address as `http://host:port[/prefix]`, from that or from `host:port`.

    Raises:
        UsageError: it is neither.
    """
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{text!r} is no address", hint="write it as http://HOST:PORT, for example " + DEFAULT_ADDRESS)
    return address.rstrip("/")


def is_loopback(address: str) -> bool:
    """True when the address names this machine."""
    return urlsplit(address).hostname in LOOPBACK


def _token(given: Setting | None, address: Setting, home: Home) -> Setting:
    if given is not None:
        return given
    own = address.origin == str(home.platform) or is_loopback(address.value)
    if not own:  # the token of this machine's platform is nobody else's business
        return Setting("", "default")
    try:
        return Setting(home.token.read_text(encoding="utf-8").strip(), str(home.token))
    except OSError:
        return Setting("", "default")


def _check(found: Mapping[str, Setting]) -> None:
    output, color, port = found["output"], found["color"], found["port"]
    if output.value not in OUTPUTS:
        raise UsageError(f"{output.origin}: no output is called {output.value!r}", hint=f"one of {', '.join(OUTPUTS)}")
    if color.value not in ("auto", "never"):
        raise UsageError(f"{color.origin}: color is {json.dumps(color.value)}", hint="auto or never")
    if not port.value.isdigit() or not 0 < int(port.value) < 65536:
        raise UsageError(f"{port.origin}: port is {json.dumps(port.value)}", hint="a number from 1 to 65535")
