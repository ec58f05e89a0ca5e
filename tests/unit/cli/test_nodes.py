from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

HOST = socket.gethostname()


def test_nodes_in_every_form(rlark: Any, platform: Any) -> None:
    rlark("submit", "-d", platform.write_job(gpu=1))
    rows = rlark("nodes").rows
    named = dict(zip(rows[0], rows[1], strict=True))
    assert (named["NAME"], named["STATE"], named["FREE CPUS"], named["FREE GPUS"]) == (
        HOST,
        "online",
        "7/8",
        "1/2 (faked)",
    )
    assert named["LEASED BY"] == "demo"
    assert rlark("nodes", "list").rows == rows
    wide = rlark("nodes", "-o", "wide").rows
    assert "LABELS" in wide[0]
    assert dict(zip(wide[0], wide[1], strict=True))["LEASED"] == "1 CPU, 1 GPU"
    assert rlark("nodes", "-q").out == f"{HOST}\n"
    node = rlark("nodes", "list", "-o", "json").json["nodes"][0]
    assert (node["gpus"], node["freeGpus"], node["gpusFaked"]) == (2, 1, True)
    assert node["used"] == {"cpus": 1.0, "memory": 0, "gpus": 1}
    assert [(lease["job"], lease["attempt"]) for lease in node["leases"]] == [("demo", 1)]


def test_nodes_that_a_selector_hits(rlark: Any, platform: Any) -> None:
    rlark("nodes", "label", HOST, "zone=a", "team=nav")
    assert rlark("nodes", "list", "-l", "zone=b,a,team=nav", "-q").out == f"{HOST}\n"
    assert rlark("nodes", "list", "-l", "zone=a,team=other", "-q").out == ""
    assert rlark("nodes", "list", "-l", "zone").code == 2


def test_a_node_that_went_away_is_offline(rlark: Any, platform: Any) -> None:
    platform.cluster.nodes.clear()
    platform.clock.advance(3)
    platform.tick()
    row = dict(zip(*rlark("nodes").rows, strict=True))
    assert (row["NAME"], row["STATE"], row["FREE CPUS"]) == (HOST, "offline", "0/8")
    refused = rlark("submit", "-d", platform.write_job())
    assert refused.code == 4
    assert f"only {HOST} (offline)" in refused.err


def test_what_nodes_prints_is_an_inventory(rlark: Any, platform: Any) -> None:
    Path("nodes.json").write_text(rlark("nodes", "list", "-o", "json").out, encoding="utf-8")
    Path("nodes.yaml").write_text(rlark("nodes", "list", "-o", "yaml").out, encoding="utf-8")
    job = platform.write_job(gpu=2)
    for file in ("nodes.json", "nodes.yaml"):
        result = rlark("validate", job, "--inventory", file)
        assert result.code == 0, result.out
    assert rlark("validate", platform.write_job("many", gpu=3), "--inventory", "nodes.json").code == 4


def test_cordon_and_uncordon(rlark: Any, platform: Any) -> None:
    assert rlark("nodes", "cordon", HOST).code == 0
    assert rlark("nodes").rows[1][1] == "cordoned"
    assert rlark("submit", "-d", platform.write_job()).code == 4
    assert rlark("nodes", "uncordon", HOST).code == 0
    assert rlark("nodes").rows[1][1] == "online"
    result = rlark("nodes", "cordon", "nobody")
    assert result.code == 102
    assert HOST in result.err


def test_labels_are_set_and_taken_away(rlark: Any, platform: Any) -> None:
    def labels() -> dict[str, str]:
        return rlark("nodes", "list", "-o", "json").json["nodes"][0]["labels"]

    assert rlark("nodes", "label", HOST, "team=navigation", "place=desk-").code == 0
    assert (labels()["team"], labels()["place"]) == ("navigation", "desk-")
    assert rlark("nodes", "label", HOST, "team-").code == 0
    assert "team" not in labels()
    assert rlark("nodes", "label", HOST, "team").code == 2
    assert rlark("nodes", "label", HOST, "-").code == 2


def test_engines(rlark: Any, platform: Any) -> None:
    listed = rlark("engines", "-o", "json").json["items"]
    rows = rlark("engines").rows
    assert rows[0] == ["ID", "AVAILABLE", "COMPONENTS", "MISSING", "TITLE"]
    assert [row[0] for row in rows[1:]] == [item["id"] for item in listed]
    result = rlark("engines", "show", "nothing")
    assert result.code == 102
    assert "there is no engine 'nothing'" in result.err


def test_an_engine_says_what_it_lacks(rlark: Any, platform: Any, monkeypatch: Any) -> None:
    from rlark.api import engines
    from rlark.engine import Engine, Requirement

    needs = (Requirement("package", "json", "-"), Requirement("package", "no_such_package", "pip install it"))
    one = Engine("one", "Learns", "m", "m:p", "m:c", requirements=needs)
    monkeypatch.setattr(engines, "find_engines", lambda: {"one": one})
    assert rlark("engines").rows[1] == ["one", "no", "actor,rollout,env", "no_such_package", "Learns"]
    rows = rlark("engines", "show", "one").rows
    assert rows[1:] == [["json", "ok", "-"], ["no_such_package", "missing", "pip install it"]]
    assert rlark("engines", "show", "one", "-o", "json").json["id"] == "one"
