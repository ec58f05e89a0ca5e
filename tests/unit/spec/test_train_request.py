from __future__ import annotations

from typing import Any

import pytest

from rlark.spec.train_request import PROFILES, SIZES, TrainRequest


def request(**other: Any) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "accountId": "a",
        "contractId": "c",
        "model": {"modelId": "m", "displayName": "M", "version": "1.0.0"},
        "robot": {"id": "rdk-originbot", "variant": "x"},
        "contract": {"id": "c", "observationSize": 8, "actionSize": 2, "jointCount": 2, "controlHz": 10},
        "training": {"profile": "smoke", "numEnvs": 4, "maxIterations": 2, "video": False},
        **other,
    }


def test_what_is_read_and_what_a_platform_adds():
    read = TrainRequest.read(request(artifacts=[], simulator={"backends": []}))
    assert (read.model.model_id, read.model.version) == ("m", "1.0.0")
    assert (read.contract.observation_size, read.contract.action_size, read.contract.control_hz) == (8, 2, 10)
    assert (read.profile, read.training.num_envs, read.training.max_iterations) == ("smoke", 4, 2)
    assert read.task is read.resume_from is read.demonstrations is None


def test_what_is_left_out_has_its_default():
    read = TrainRequest.read({"schemaVersion": 1, "contract": {"observationSize": 42, "actionSize": 12}})
    assert read.profile == "standard"
    assert read.model is read.training is None
    assert TrainRequest.read(request(training={"profile": None})).profile == "standard"


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(profile):
    assert TrainRequest.read(request(training={"profile": profile})).profile == profile


@pytest.mark.parametrize("size", [0, -1, 1.5, 8.0, "8", True, None, [8]])
@pytest.mark.parametrize("name", ["observationSize", "actionSize"])
def test_the_contracts_sizes_are_required(name, size):
    contract = {"observationSize": 8, "actionSize": 2, name: size}
    with pytest.raises(ValueError) as refused:
        TrainRequest.read(request(contract=contract))
    assert str(refused.value) == SIZES == "contract.observationSize and contract.actionSize are required"


@pytest.mark.parametrize("contract", [None, [], {}, {"observationSize": 8}, "c"])
def test_a_contract_without_sizes_is_told_alike(contract):
    with pytest.raises(ValueError, match=SIZES):
        TrainRequest.read(request(contract=contract))


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None])
def test_only_the_first_version_is_understood(version):
    with pytest.raises(ValueError, match=f"^schemaVersion must be 1, and here is {version!r}$"):
        TrainRequest.read(request(schemaVersion=version))


@pytest.mark.parametrize("data", [None, [], "x", 1])
def test_a_request_is_an_object(data):
    with pytest.raises(ValueError, match="a training request is a JSON object"):
        TrainRequest.read(data)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"training": {"profile": "huge"}}, "training.profile: must be 'smoke', 'low-vram', 'standard' or 'high-vram'"),
        ({"training": {"numEnvs": 0}}, "training.numEnvs: must be at least 1"),
        ({"training": {"numEnvs": 16385}}, "training.numEnvs: must be at most 16384"),
        ({"training": {"numEnvs": "4"}}, "training.numEnvs: must be a whole number"),
        ({"training": {"maxIterations": 2_000_001}}, "training.maxIterations: must be at most 2000000"),
        ({"training": {"algorithm": "dqn"}}, "training.algorithm: must be 'ppo' or 'sac'"),
        ({"training": {"engine": "MJX"}}, "training.engine: "),
        ({"training": {"runName": "x; touch /tmp/pwn"}}, "training.runName: "),
        ({"training": {"seed": 2**31}}, "training.seed: must be at most 2147483647"),
        ({"training": []}, "training: must be a mapping"),
        ({"model": {"modelId": "", "version": "1"}}, "model.modelId: "),
        ({"model": {"modelId": "m"}}, "model.version: the key 'version' is missing"),
        ({"contractId": "d"}, "contractId 'd' is not contract.id 'c'"),
        ({"contract": {"observationSize": 5000, "actionSize": 2}}, "contract.observationSize: must be at most 4096"),
        ({"contract": {"observationSize": 8, "actionSize": 2, "controlHz": 0}}, "contract.controlHz: must be above 0"),
        ({"task": "originbot"}, "task: must be a mapping"),
        ({"resumeFrom": {"checkpointId": "a", "artifactRef": "http://x"}}, "resumeFrom.artifactRef: a reference is"),
        ({"resumeFrom": {"checkpointId": "../a", "artifactRef": "artifact://a"}}, "resumeFrom.checkpointId: "),
        ({"resumeFrom": {"artifactRef": "artifact://a"}}, "resumeFrom.checkpointId: the key 'checkpointId' is missing"),
    ],
)
def test_a_fault_is_told_with_its_place(part, said):
    with pytest.raises(ValueError) as refused:
        TrainRequest.read(request(**part))
    assert str(refused.value).startswith(said)


def test_every_fault_is_told():
    with pytest.raises(ValueError, match=r"training\.numEnvs: .*; training\.seed: "):
        TrainRequest.read(request(training={"numEnvs": 0, "seed": -1}))


def test_only_a_drives_scale_is_read():
    sizes = {"observationSize": 61, "actionSize": 14}
    scaled = TrainRequest.read(request(contract={**sizes, "actionScale": [0.35] * 14})).contract
    assert scaled.action_scale is None
    scaled = TrainRequest.read(request(contract={**sizes, "actionScale": {"linear": 0.3, "unit": "m/s"}})).contract
    assert (scaled.action_scale.linear, scaled.action_scale.angular) == (0.3, None)
