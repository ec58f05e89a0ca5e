from __future__ import annotations

from pathlib import Path

import pytest

from rlark.errors import UsageError
from rlark.folder import Home, write_json
from rlark.sdk.settings import DEFAULT_ADDRESS, find_settings, parse_address


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def settings(home: Home, flags: dict[str, str | None] | None = None, **environ: str):
    config = home.root.parent / "config"
    base = {"XDG_CONFIG_HOME": str(config), "RLARK_HOME": str(home.root)}
    return find_settings(flags, environ=base | environ, folder=home.root.parent)


def write_settings(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_defaults_name_the_own_platform(home: Home) -> None:
    found = settings(home)
    assert found.address == DEFAULT_ADDRESS
    assert found.values["address"].origin == "default"
    assert found.local
    assert (found.token, found.output, found.color) == ("", "table", True)


def test_each_layer_gives_way_to_the_one_above(home: Home) -> None:
    user_file = home.root.parent / "config" / "rlark" / "config.toml"
    project_file = home.root.parent / "rlark.toml"
    seen = []
    write_settings(user_file, 'address = "http://user:1"')
    seen.append(settings(home).values["address"])
    write_settings(project_file, 'address = "http://project:2"')
    seen.append(settings(home).values["address"])
    seen.append(settings(home, RLARK_ADDRESS="http://variable:3").values["address"])
    seen.append(settings(home, {"address": "http://flag:4"}, RLARK_ADDRESS="http://variable:3").values["address"])
    assert [(item.value, item.origin) for item in seen] == [
        ("http://user:1", str(user_file)),
        ("http://project:2", str(project_file)),
        ("http://variable:3", "RLARK_ADDRESS"),
        ("http://flag:4", "--address"),
    ]


def test_a_running_platform_says_its_address_and_stays_ours(home: Home) -> None:
    write_json(home.platform, {"address": "http://127.0.0.1:20202"})
    found = settings(home)
    assert found.address == "http://127.0.0.1:20202"
    assert found.local
    assert not settings(home, {"address": "http://127.0.0.1:20202"}).local


def test_a_broken_platform_record_is_as_good_as_none(home: Home) -> None:
    home.platform.write_text("{", encoding="utf-8")
    assert settings(home).address == DEFAULT_ADDRESS


def test_the_token_on_disk_is_for_this_machine_only(home: Home) -> None:
    home.token.write_text("local-secret\n", encoding="utf-8")
    assert settings(home).token == "local-secret"
    assert settings(home).values["token"].origin == str(home.token)
    assert settings(home, {"address": "http://elsewhere:19091"}).token == ""
    assert settings(home, {"address": "http://elsewhere:19091"}, RLARK_TOKEN="given").token == "given"
    write_json(home.platform, {"address": "http://10.0.0.5:19091"})
    assert settings(home).token == "local-secret"


def test_no_color_in_every_spelling(home: Home) -> None:
    assert not settings(home, NO_COLOR="1").color
    assert not settings(home, {"color": "never"}).color
    assert settings(home, {"color": "never"}).values["color"].origin == "--no-color"


def test_a_relative_home_in_a_file_starts_at_the_file(home: Home) -> None:
    folder = home.root.parent
    write_settings(folder / "rlark.toml", 'home = "state"')
    found = find_settings(environ={"XDG_CONFIG_HOME": str(folder)}, folder=folder)
    assert found.home.root == folder / "state"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('adress = "x"', "did you mean 'address'"),
        ("address = 5", "must be text"),
        ("address =", "cannot be read"),
        ('output = "xml"', "no output is called 'xml'"),
        ('color = "red"', 'color is "red"'),
        ('address = "ftp://x"', "is no address"),
        ('port = "x"', 'port is "x"'),
        ("port = 70000", 'port is "70000"'),
    ],
)
def test_a_bad_settings_file_is_named(home: Home, text: str, told: str) -> None:
    write_settings(home.root.parent / "rlark.toml", text)
    with pytest.raises(UsageError) as caught:
        settings(home)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.5:19091", "http://10.0.0.5:19091"),
        ("https://host/rlark/", "https://host/rlark"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["http://", "http://host:0", "http://host:x", "ssh://host"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_address(text)


def test_the_port_of_a_platform_that_is_yet_to_start(home: Home) -> None:
    assert settings(home).start_options == []
    found = settings(home, RLARK_PORT="20001")
    assert (found.address, found.local, found.start_options) == ("http://127.0.0.1:20001", True, ["--port", "20001"])
    write_settings(home.root.parent / "rlark.toml", "port = 20002")
    assert settings(home).start_options == ["--port", "20002"]
    write_json(home.platform, {"address": "http://127.0.0.1:5"})
    assert settings(home).address == "http://127.0.0.1:5"
