from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlark.folder import write_json
from rlark.host import head, process, sandbox
from rlark.host.exposure import Exposure, exposed, firewall_line, is_loopback


def checks(result: Any) -> dict[str, dict[str, Any]]:
    return {f"{item['topic']}/{item['name']}": item for item in result.json["checks"]}


def test_doctor_reports_what_is_there(rlark: Any, home: Any) -> None:
    result = rlark("doctor", "-o", "json")
    assert result.code == 0
    found = checks(result)
    assert found["versions/ray"]["state"] == "ok"
    assert found["platform/api"] == {
        "topic": "platform",
        "name": "api",
        "state": "info",
        "detail": "not running",
        "fix": "rlark up",
    }
    assert found["device/cpu"]["detail"].startswith(f"{len(os.sched_getaffinity(0))} cores")
    assert result.json["device"]["memory"] > 0
    assert result.json["findings"] == []


def test_the_table_has_one_row_a_check(rlark: Any) -> None:
    rows = rlark("doctor").rows
    assert rows[0] == ["TOPIC", "CHECK", "STATE", "FOUND", "DO"]
    assert {len(row) for row in rows} == {5}


@pytest.mark.parametrize(
    ("said", "state", "detail", "fix"),
    [
        ("", "ok", "works: Jobs can have mounts and processes of their own", ""),
        ("it is not installed; install it", "warning", "it is not installed", "install it"),
    ],
)
def test_whether_jobs_can_be_fenced_in(
    rlark: Any, monkeypatch: pytest.MonkeyPatch, said: str, state: str, detail: str, fix: str
) -> None:
    monkeypatch.setattr(sandbox, "unavailable", lambda: said)
    found = checks(rlark("doctor", "-o", "json"))["device/bubblewrap"]
    assert (found["state"], found["detail"], found["fix"]) == (state, detail, fix)


def test_a_token_that_others_can_read_is_an_error(rlark: Any, home: Any) -> None:
    home.token.write_text("x", encoding="utf-8")
    home.token.chmod(0o644)
    token = checks(rlark("doctor", "-o", "json"))["platform/token"]
    assert (token["state"], token["fix"]) == ("error", f"chmod 600 {home.token}")
    home.token.chmod(0o600)
    assert checks(rlark("doctor", "-o", "json"))["platform/token"]["state"] == "ok"


def test_a_held_port_is_named_with_its_holder(rlark: Any, home: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        write_json(home.platform, {"address": f"http://127.0.0.1:{port}", "dashboard": f"http://127.0.0.1:{port}"})
        # whoever listens there says nothing: an API that hangs is an error, not a wait
        server.settimeout(0.01)
        found = checks_without_api(rlark, home)
    assert str(os.getpid()) in found[f"platform/port {port} (dashboard)"]["detail"]


def checks_without_api(rlark: Any, home: Any) -> dict[str, dict[str, Any]]:
    from rlark.sdk import doctor
    from rlark.sdk.client import Client

    return {f"{item.topic}/{item.name}": item.to_json() for item in doctor._ports(Client({"home": str(home.root)}))}


def test_a_head_without_its_api_is_an_error(rlark: Any, home: Any) -> None:
    own = process.this_process()
    write_json(head.HeadFiles(home.head).processes, {"bootId": head.boot_id(), "processes": [own.to_json()]})
    api = checks(rlark("doctor", "-o", "json"))["platform/api"]
    assert api["state"] == "error"
    assert "1 processes of its head live" in api["detail"]


@pytest.mark.parametrize("faked", [True, False])
def test_gpus_that_a_platform_only_claims_are_said_to_be_faked(home: Any, faked: bool) -> None:
    from rlark.sdk import doctor

    write_json(home.platform, {"address": "http://127.0.0.1:1", "gpusFaked": faked})
    answering = SimpleNamespace(answers=lambda: True, get=lambda _: {})
    client: Any = SimpleNamespace(
        settings=SimpleNamespace(home=home, address="http://127.0.0.1:1"), transport=answering
    )
    found = {check.name: check for check in doctor._platform(client)}
    assert found["api"].state == "ok"
    assert ("gpus" in found and found["gpus"].detail.startswith("faked")) is faked


def test_what_listens_beyond_this_machine_is_named_with_the_line_that_closes_it(rlark: Any, home: Any) -> None:
    own = process.this_process()
    with socket.create_server(("0.0.0.0", 0)) as wide, socket.create_server(("127.0.0.1", 0)) as narrow:
        ports = {found.port: found for found in exposed([own])}
        assert ports[wide.getsockname()[1]].pid == os.getpid()
        assert narrow.getsockname()[1] not in ports
        write_json(head.HeadFiles(home.head).processes, {"bootId": head.boot_id(), "processes": [own.to_json()]})
        found = checks(rlark("doctor", "-o", "json"))
        port = wide.getsockname()[1]
        assert found["exposure/ray"]["state"] == "warning"
        assert str(port) in found["exposure/ray"]["fix"]
        assert found[f"exposure/port {port}"]["detail"].startswith(f"0.0.0.0, pid {os.getpid()}")
    assert checks(rlark("doctor", "-o", "json"))["exposure/ray"]["state"] == "ok"


def test_the_firewall_line_joins_neighbours() -> None:
    line = firewall_line([12003, 12001, 12002, 44217, 12001])
    assert "tcp dport { 12001-12003, 44217 } drop;" in line
    assert 'iifname != "lo"' in line


def test_loopback_in_every_spelling() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1")))
    assert exposed([]) == list[Exposure]()


def test_doctor_of_a_job_file_that_is_not_there(rlark: Any) -> None:
    Path("job.yaml").write_text("kind: Job", encoding="utf-8")
    result = rlark("doctor", "jop.yaml")
    assert result.code == 2
    assert "did you mean job.yaml?" in result.err
