"""RLinf's shipped configurations: composed as RLinf composes them, with RLinf's own verdict at 0, 1, 2 and 8 GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlark import configuration
from rlark.configuration import check_text
from rlark.plan.node import Inventory, Node
from rlark.plan.placement import resolve
from rlark.plan.rules.rlinf import check_configuration
from rlark.spec.config import compose_text
from rlark.spec.finding import errors_of
from tests.acceptance.user import User

SHARED = Path(__file__).parents[2] / "../shared"
FOLDER = (SHARED / "data/rlinf-configs").resolve()
CASES = SHARED / "cases/rlinf-configs.json"
ROWS = json.loads(CASES.read_text()) if CASES.is_file() else []
COMPOSED = [row for row in ROWS if "by_gpus" in row]
UNSET = {"DIFFUSION_PATH", "REWARD_PATH"}
ASSERTED = {f"RL{number}" for number in (134, *range(136, 150), 154, *range(161, 185))} - {"RL162"}
"""Codes of what RLinf asserts or meets later, apart from the placement itself."""

NAMED = {"EMBODIED_PATH": str(FOLDER / "examples/embodiment"), "REPO_PATH": str(FOLDER)}
"""What RLinf's own scripts export."""

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CASES.is_file() or not FOLDER.is_dir(), reason="needs ../shared"),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name, value in NAMED.items():
        monkeypatch.setenv(name, value)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(configuration, "compose_text", composed_once)


_composed = {}


def composed_once(text, file):
    """Composing takes most of the time here, and gives the same for every number of GPUs."""
    if file not in _composed:
        _composed[file] = compose_text(text, file)
    return _composed[file]


def composed_of(name):
    file = FOLDER / name
    return composed_once(file.read_text(), file)


def a_node(gpus):
    return Node(name="box", gpus=gpus, cpus=256)


def check(name, gpus=8):
    file = FOLDER / name
    inventory = Inventory(nodes=[a_node(gpus)], source="nodes.yaml")
    return check_text(file.read_text(), inventory, file=name, folder=file.parent)


def ids(row):
    return row["config"].removesuffix(".yaml")


def test_no_row_is_missing():
    assert (len(ROWS), len(COMPOSED), sum(row["num_nodes"] == 1 for row in COMPOSED)) == (216, 209, 192)


@pytest.mark.parametrize("row", COMPOSED, ids=ids)
def test_the_effective_configuration_and_its_placement_are_rlinfs(row):
    composed = composed_of(row["config"])
    assert errors_of(composed.findings) == []
    cluster = composed.effective["cluster"]
    assert cluster["num_nodes"] == row["num_nodes"]
    assert cluster["component_placement"] == row["component_placement"]
    assert bool(cluster.get("node_groups")) == row["has_node_groups"]
    if row["num_nodes"] > 1:
        found = check(row["config"]).findings
        refusal = next(finding for finding in found if finding.code == "RL151")
        assert (refusal.severity, refusal.path, refusal.actual) == ("error", "cluster.num_nodes", str(row["num_nodes"]))
        assert "single node" in refusal.message
        assert "multi-node flow" in refusal.hint
        assert not {"RL119", "RL123"} & {finding.code for finding in found}
        return
    for gpus, verdict in row["by_gpus"].items():
        placement, found = resolve(cluster, a_node(int(gpus)))
        assert bool(errors_of(found)) == ("error" in verdict), (gpus, found)
        if "error" not in verdict:
            assert {name: placement.world_size(name) for name in placement.ranks} == verdict["world_size"]
            seen = {name: [rank.gpus for rank in ranks] for name, ranks in placement.ranks.items()}
            assert seen == verdict["visible_gpus"], gpus


@pytest.mark.parametrize("row", [row for row in ROWS if "compose_error" in row], ids=ids)
def test_what_cannot_be_composed_says_what_is_missing_and_where_it_was_looked_for(row):
    (finding,) = check(row["config"]).findings
    text = (FOLDER / row["config"]).read_text().splitlines()[finding.line - 1]
    assert (finding.severity, finding.file) == ("error", row["config"])
    if finding.code == "RL453":
        assert finding.actual in UNSET
        assert f"${{oc.env:{finding.actual}}}" in text
        assert finding.path.startswith("hydra.searchpath[")
    else:
        assert (finding.code, finding.actual) == ("RL460", "training_backend/fsdp")
        assert "training_backend/fsdp" in text
        assert str(FOLDER / "examples/embodiment/config") in finding.message


# what RLinf asserts, said again in its own words: reference section 4


def value(config, name, default=None):
    found = config
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return default if found is None else found


def world(placement, name):
    return placement.world_size(name)


def environments_stop(config, placement, side, chunk):
    total, ranks = value(config, f"env.{side}.total_num_envs"), world(placement, "env")
    stages, group = value(config, "rollout.pipeline_stage_num"), value(config, f"env.{side}.group_size", 1)
    steps = value(config, f"env.{side}.max_steps_per_rollout_epoch")
    stops = total <= 0 or total % ranks or total // ranks // stages <= 0
    # what the exchange of observations needs, in the first step
    exchanged = value(config, "runner.enable_decoupled_mode") or total // stages % world(placement, "rollout") == 0
    return bool(stops or total // ranks // stages % group or steps % chunk or not exchanged)


def embodied_stops(config, placement):
    only_eval = value(config, "runner.task_type") == "embodied_eval" or value(config, "runner.only_eval", False)
    model = value(config, "rollout.model" if only_eval and value(config, "rollout.model.model_type") else "actor.model")
    chunk = model["num_action_chunks"]
    interval, save = value(config, "runner.val_check_interval", -1), value(config, "runner.save_interval", -1)
    stops = (interval > 0 and save > 0 and save % interval) or (
        (interval > 0 or only_eval) and environments_stop(config, placement, "eval", chunk)
    )
    if only_eval:
        return bool(stops)
    critic = value(config, "algorithm.loss_type") in ("actor_critic", "decoupled_actor_critic")
    return bool(
        stops
        or environments_stop(config, placement, "train", chunk)
        or (critic and not value(config, "actor.model.add_value_head"))
        or value(config, "weight_syncer") is None
        or training_stops(config, placement)
        or rollout_stops(config, placement, chunk)
        or (value(config, "runner.enable_decoupled_mode") and world(placement, "env") < world(placement, "rollout"))
    )


def training_stops(config, placement):
    grouped = value(config, "algorithm.adv_type") in ("grpo", "grpo_dynamic", "reinpp_baseline")
    if grouped and value(config, "runner.task_type") != "sft" and value(config, "algorithm.group_size") <= 1:
        return True
    if value(config, "actor.training_backend") != "fsdp":
        return False
    fsdp = value(config, "actor.fsdp_config")
    kinds = set(value(fsdp, "mixed_precision").values())
    if value(fsdp, "amp_autocast.enabled") and kinds not in ({None}, {"fp32"}):
        return True
    batch = value(config, "actor.global_batch_size")
    return batch is not None and batch % (value(config, "actor.micro_batch_size") * world(placement, "actor")) != 0


def rollout_stops(config, placement, chunk):
    if value(config, "algorithm.loss_type") not in ("actor", "actor_critic", "decoupled_actor_critic", "embodied_nft"):
        return False
    epochs = value(config, "env.train.rollout_epoch", value(config, "algorithm.rollout_epoch", 1))
    steps = value(config, "env.train.max_steps_per_rollout_epoch") // chunk
    samples = epochs * steps * value(config, "env.train.total_num_envs")
    return samples % value(config, "actor.global_batch_size") != 0


def reasoning_stops(config, placement):
    batch = value(config, "data.rollout_batch_size") * value(config, "algorithm.group_size")
    batch //= value(config, "algorithm.n_minibatches", 1)
    unit = value(config, "algorithm.training_batch_size_per_gpu", 1) * world(placement, "actor")
    if value(config, "actor.training_backend") == "fsdp" and batch % unit:
        return True
    actor, rollout = (sorted(placement.gpus(name)) for name in ("actor", "rollout"))
    inference = sorted(placement.gpus("inference"))
    if not actor:
        return False
    split, sampled = (
        value(config, "actor.model.tensor_model_parallel_size", 1),
        value(config, "rollout.tensor_parallel_size", 1),
    )
    if split > len(actor) or sampled > len(rollout):
        return True
    if value(config, "cluster.auto_scheduler"):
        return actor + rollout + inference != list(range(placement.groups["cluster"].size))
    if actor == rollout:
        return bool(inference) or len(rollout) % (sampled * max(1, split // sampled)) != 0
    return bool({*actor} & {*rollout} or {*rollout} & {*inference} or {*actor} & {*inference})


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
@pytest.mark.parametrize("row", [row for row in COMPOSED if row["num_nodes"] == 1], ids=ids)
def test_nothing_is_refused_that_rlinf_would_run_and_nothing_else_let_through(row, gpus):
    config = composed_of(row["config"]).effective
    placement, found = resolve(config["cluster"], a_node(gpus))
    if placement is None:
        return
    found = check_configuration(config, placement, None, "", devices_confirmed=None)
    errors = errors_of(found)
    assert {finding.code for finding in errors} <= ASSERTED
    kind = value(config, "runner.task_type")
    if kind in ("embodied", "embodied_eval"):
        collects = "actor" not in config and "rollout" not in config
        stops = not collects and embodied_stops(config, placement)
    elif kind == "sft":
        stops = training_stops(config, placement)
    elif kind in ("reasoning", "coding_online_rl"):
        stops = reasoning_stops(config, placement)
    else:
        return
    assert bool(errors) == stops, [str(finding) for finding in errors]
    for finding in errors:
        assert finding.hint
        if finding.code in {f"RL{number}" for number in range(171, 180)}:
            assert len(re.findall(r"\d+", finding.message)) >= 2
            assert re.search(r"\d", finding.hint)


def test_findings_of_a_configuration_have_its_own_lines_or_those_of_its_group():
    name = "examples/embodiment/config/metaworld_45_ppo_openpi.yaml"
    finding = next(found for found in check(name).findings if found.code == "RL171")
    line = (FOLDER / name).read_text().splitlines()[finding.line - 1]
    assert (finding.path, finding.file) == ("env.eval.total_num_envs", name)
    assert line[finding.column - 1 :].startswith(str(finding.actual))


# the command, over all of them at once


def validated(folder: Path, names: list[str]) -> dict[str, list[dict[str, object]]]:
    """File -> findings, by one `rlark validate` on a node with eight GPUs; something is wrong with one at least."""
    nodes = folder / "nodes.yaml"
    nodes.write_text("nodes: [{name: box, cpus: 256, gpus: 8}]\n")
    user = User(folder / "home")
    user.env = {name: value for name, value in user.env.items() if name not in UNSET} | NAMED
    files = user.json("validate", "--inventory", nodes, *(FOLDER / name for name in names), code=3)["files"]
    found = {str(Path(one["file"]).relative_to(FOLDER)): one["findings"] for one in files}
    assert list(found) == names
    for one in files:
        assert one["ok"] == (not any(finding["severity"] == "error" for finding in one["findings"])), one["file"]
    return found


def codes(findings: list[dict[str, object]]) -> set[object]:
    return {finding["code"] for finding in findings}


def test_one_command_checks_every_row(tmp_path):
    found = validated(tmp_path, [row["config"] for row in ROWS])
    for row in ROWS:
        seen = codes(found[row["config"]])
        if "compose_error" in row:
            assert seen in ({"RL453"}, {"RL460"}), row["config"]
        else:
            assert ("RL151" in seen) == (row["num_nodes"] > 1), row["config"]
    assert sum("RL151" in codes(one) for one in found.values()) == 17
    assert sum(bool(codes(one) & {"RL453", "RL460"}) for one in found.values()) == 7
    assert not any("RL012" in codes(one) for one in found.values())


def test_one_command_checks_every_file_there_and_a_part_is_no_fault(tmp_path):
    names = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.yaml"))
    assert len(names) == 451
    found = validated(tmp_path, names)
    rows = {row["config"] for row in ROWS}
    parts = {name for name, findings in found.items() if "RL012" in codes(findings)}
    assert len(parts) > 100
    assert not parts & rows
    for name, findings in found.items():
        assert not any(str(finding["path"]).startswith("spec") for finding in findings), name
        assert name not in parts or not any(finding["severity"] == "error" for finding in findings), name
