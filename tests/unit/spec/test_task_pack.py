from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from pydantic import ValidationError

from rlark.spec.dynamics import Envelope
from rlark.spec.task_pack import TaskPack

PACK: dict[str, Any] = {
    "id": "originbot-goal-navigation",
    "adapterId": "rdk-originbot",
    "observationAdapterId": "originbot-imu-odom-v1",
    "actionAdapterId": "diff-drive-velocity-v1",
    "reward": {"progress": 1, "collision": -5, "goal": 10, "actionPenalty": -0.01, "dwell": 0.2},
    "termination": {"goalDistance": 0.15, "timeoutSteps": 200},
    "workspace": {"bound": 2, "obstacles": {"count": 3, "radius": 0.15}},
    "curriculum": {"initialGoalDistance": [0.8, 1.2], "finalGoalDistance": [1.4, 1.6], "lookbackEpisodes": 50},
    "domainRandomization": {
        "motorGain": [0.8, 1.2],
        "actionLatencySteps": [0, 2],
        "slipScale": [0.8, 1],
        "evalEnvelopes": {
            "nominal": [1, 0.1, 0.01, 0.005, 0, 1, 0, 1],
            "hard": [0.8, 0.25, 0.02, 0.05, 0.05, 2, 0.05, 0.8],
        },
    },
    "qualityGate": {"minSuccessRate": 0.7, "maxCollisionRate": 0.15, "gateOn": "ciLowerBound"},
}


def with_value(path: str, value: object) -> dict[str, Any]:
    pack = copy.deepcopy(PACK)
    *parents, last = path.split(".")
    here = pack
    for key in parents:
        here = here.setdefault(key, {})
    here[last] = value
    return pack


def wrong(path: str, value: object) -> str:
    with pytest.raises(ValidationError) as raised:
        TaskPack.model_validate(with_value(path, value))
    return str(raised.value)


def test_the_pack_is_read_with_its_units():
    pack = TaskPack.model_validate(PACK)
    assert pack.domain_randomization.eval_envelopes.hard == Envelope(0.8, 0.25, 0.02, 0.05, 0.05, 2, 0.05, 0.8)
    assert pack.workspace.obstacles.keep_out == pytest.approx(0.45)
    assert (pack.seed, pack.kind, pack.drive.dt) == (7, "goal-navigation", pytest.approx(0.1))
    assert (pack.observation_size, pack.action_size) == (8, 2)


def test_what_is_written_out_reads_back_the_same():
    pack = TaskPack.model_validate(PACK)
    assert TaskPack.model_validate(pack.to_json()) == pack


def test_the_older_envelope_of_six_has_no_dropout_and_no_slip():
    pack = TaskPack.model_validate(with_value("domainRandomization.evalEnvelopes.nominal", [1, 0.1, 0, 0, 0, 1]))
    assert pack.domain_randomization.eval_envelopes.nominal == Envelope(1, 0.1, 0, 0, 0, 1, 0, 1)


def test_history_multiplies_the_observation():
    assert TaskPack.model_validate(with_value("observationHistory.frames", 3)).observation_size == 24
    wide = TaskPack.model_validate(with_value("observationAdapterId", "imu-gravity-v1"))
    assert wide.observation_size == 42


ENVELOPE = "domainRandomization.evalEnvelopes.hard"


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("domainRandomization.motorGain", [2, 1], "ends below its start"),
        ("domainRandomization.motorGain", [0, 1], "greater than 0"),
        ("domainRandomization.motorGain", [1], "Field required"),
        ("domainRandomization.slipScale", [0.5, 1.5], "less than or equal to 1"),
        ("domainRandomization.odomDropoutProb", [0, 2], "less than or equal to 1"),
        ("domainRandomization.actionLatencySteps", [-1, 2], "greater than or equal to 0"),
        ("domainRandomization.actionLatencySteps", [0, 1.5], "whole control steps"),
        ("domainRandomization.actionLatencySteps", [0, float("nan")], "whole control steps"),
        (ENVELOPE, [1] * 7, "8 numbers, or 6"),
        (ENVELOPE, [1] * 9, "8 numbers, or 6"),
        (ENVELOPE, [1, 0.1, 0, 0, 0, 1.5, 0, 1], "latency in whole steps"),
        (ENVELOPE, [1, 0.1, 0, 0, 0, -1, 0, 1], "latency in whole steps"),
        (ENVELOPE, [1, 0.1, 0, 0, 0, True, 0, 1], "latency in whole steps"),
        (ENVELOPE, [1, 0.1, 0, 0, 0, float("inf"), 0, 1], "latency in whole steps"),
        (
            ENVELOPE,
            [0, -0.1, -1, -1, 0, 1, 2, 2],
            "number 1, .*number 2, .*number 3, .*number 4, .*number 7, .*number 8, ",
        ),
        (ENVELOPE, [1, float("nan"), 0, 0, 0, 1, 0, 1], "finite"),
        (ENVELOPE, "hard", "valid"),
        ("observationHistory.frames", 0, "greater than or equal to 1"),
        ("observationHistory.frames", 65, "less than or equal to 64"),
        ("reward.collision", 5, "less than or equal to 0"),
        ("reward.actionPenalty", 0.01, "less than or equal to 0"),
        ("reward.goal", "10", "valid number"),
        ("qualityGate.gateOn", "mean", "'point' or 'ciLowerBound'"),
        ("qualityGate.minSuccessRate", 1.5, "less than or equal to 1"),
        ("curriculum.finalGoalDistance", [0.5, 1.6], "goals only grow"),
        ("curriculum.expandFactor", 0.9, "greater than or equal to 1"),
        ("termination.goalDistance", 0.9, "before its first step"),
        ("termination.timeoutSteps", 0, "greater than or equal to 1"),
        ("evaluationConfig.episodesPerEnvelope", 201, "less than or equal to 200"),
        ("workspace.bound", True, "valid number"),
        ("workspace.obstacles.clearance", -0.1, "greater than or equal to 0"),
        ("observationAdapterId", "camera", "originbot-imu-odom-v1"),
        ("actionAdapterId", "joints", "diff-drive-velocity-v1"),
        ("kind", "cooking", "goal-navigation"),
        ("id", "Origin Bot", "pattern"),
        ("drive.controlHz", 0, "greater than 0"),
        ("colour", "red", "Extra inputs"),
    ],
)
def test_wrong_values_are_refused(path, value, says):
    message = wrong(path, value).replace("\n", " ")
    assert re.search(says, message), message


def with_formula(*terms: object) -> dict[str, Any]:
    return {key: value for key, value in PACK.items() if key != "reward"} | {"rewardFormula": list(terms)}


SMOOTH = {"term": "action_rate", "op": "smoothness", "weight": 1.0}


def test_a_formula_is_read_and_written():
    pack = TaskPack.model_validate(with_formula(SMOOTH | {"curriculum": {"introduceAfterIteration": 5}}))
    assert (pack.formula[0].quantity, pack.formula[0].after) == ("action", 5)
    assert TaskPack.model_validate(pack.to_json()) == pack


def test_a_plain_reward_is_a_formula_too():
    assert [(term.term, term.op, term.weight) for term in TaskPack.model_validate(PACK).formula] == [
        ("progress", "potential", 1),
        ("collision", "penalty", 5),
        ("goal_reach", "bonus", 10),
        ("action_magnitude", "penalty", 0.01),
        ("goal_hold", "bonus", 0.2),
    ]


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ([SMOOTH | {"term": "speed"}], "'progress', 'heading'"),
        ([SMOOTH | {"op": "jackpot"}], "'potential', 'shaping'"),
        ([SMOOTH | {"weight": 0}], "greater than 0"),
        ([SMOOTH | {"weight": -1}], "greater than 0"),
        ([SMOOTH | {"weight": 1001}], "less than or equal to 1000"),
        ([SMOOTH | {"weight": float("inf")}], "finite"),
        ([SMOOTH | {"weight": True}], "valid number"),
        ([SMOOTH | {"params": {"speed": 1}}], "Extra inputs"),
        ([SMOOTH | {"params": {"axis": "z"}}], "action_rate takes no axis"),
        ([SMOOTH | {"term": "upright", "params": {"axis": "w"}}], "'x', 'y' or 'z'"),
        ([SMOOTH | {"colour": "red"}], "Extra inputs"),
        ([SMOOTH | {"curriculum": {"introduceAfterIteration": -1}}], "greater than or equal to 0"),
        ([SMOOTH | {"curriculum": {"introduceAfterIteration": 1.5}}], "valid integer"),
        ([SMOOTH | {"op": "penalty", "curriculum": {"introduceAfterIteration": 5}}], "is for the op smoothness"),
        ([SMOOTH] * 25, "at most 24"),
        ([], "at least 1"),
    ],
)
def test_a_formula_has_nothing_unknown(terms, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        TaskPack.model_validate(with_formula(*terms))


def test_twenty_four_terms_are_enough():
    assert len(TaskPack.model_validate(with_formula(*[SMOOTH] * 24)).formula) == 24


def test_a_pack_says_what_it_pays_for_once():
    with pytest.raises(ValidationError, match="not both, and here are both"):
        TaskPack.model_validate(PACK | {"rewardFormula": [SMOOTH]})
    with pytest.raises(ValidationError, match="here are neither"):
        TaskPack.model_validate({key: value for key, value in PACK.items() if key != "reward"})


def test_other_kinds_have_other_layouts():
    pack = with_value("kind", "microduck-locomotion") | {"observationAdapterId": "microduck-61d-v1"}
    assert TaskPack.model_validate(pack).kind == "microduck-locomotion"
