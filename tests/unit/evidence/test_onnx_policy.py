from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rlark.evidence.onnx_policy import Network, OnnxPolicy, compare, probe, write_onnx


def network(seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    layers = [(normal(16, 8), normal(16)), (normal(16, 16), normal(16)), (normal(2, 16), normal(2))]
    return Network(normal(8), np.abs(normal(8)) + 0.1, 10.0, layers)


def act(net: Network, observation: np.ndarray) -> np.ndarray:
    here = np.clip((observation - net.mean) / net.std, -net.clip, net.clip)
    for index, (weight, bias) in enumerate(net.layers):
        here = here @ weight.T + bias
        if index < len(net.layers) - 1:
            here = np.tanh(here)
    return np.clip(here, -1.0, 1.0).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_onnx(tmp_path / "policy.onnx", network(), producer="test")
    return tmp_path / "policy.onnx"


def test_the_file_is_what_the_contract_says(path):
    model = onnx.load(path)
    assert (model.opset_import[0].version, model.ir_version) == (13, 8)
    ends = [*model.graph.input, *model.graph.output]
    assert [end.name for end in ends] == ["observation", "action"]
    shapes = [[dim.dim_param or dim.dim_value for dim in end.type.tensor_type.shape.dim] for end in ends]
    assert shapes == [["batch", 8], ["batch", 2]]


def test_the_same_policy_gives_the_same_bytes(path, tmp_path):
    write_onnx(tmp_path / "again.onnx", network(), producer="test")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("batch", [1, 7, 200])
def test_runs_any_batch_and_clamps(path, batch):
    observation = np.random.default_rng(batch).normal(0, 30, (batch, 8)).astype(np.float32)
    actions = OnnxPolicy(path)(observation)
    assert actions.shape == (batch, 2)
    assert np.abs(actions).max() <= 1.0
    np.testing.assert_allclose(actions, act(network(), observation), atol=1e-6)


def test_parity_passes_for_itself_and_fails_for_a_changed_weight(path):
    policy, observations = OnnxPolicy(path), np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)
    same = compare(policy, lambda seen: act(network(), seen), observations, checkpoint="c", onnx_name="policy.onnx")
    assert same.verdict == "pass"
    assert same.samples == 64
    assert same.parity_max_abs_error < 1e-6
    net = network()
    weight, bias = net.layers[-1]
    changed = replace(net, layers=[*net.layers[:-1], (weight + np.float32(0.05), bias)])
    other = compare(policy, lambda seen: act(changed, seen), observations, checkpoint="c", onnx_name="policy.onnx")
    assert other.verdict == "failed"


def test_wide_nets_with_large_weights_round_differently_and_pass(tmp_path):
    rng = np.random.default_rng(0)
    sizes = [(256, 8), (256, 256), (2, 256)]
    layers = [(rng.normal(size=size).astype(np.float32), np.zeros(size[0], np.float32)) for size in sizes]
    net = Network(np.zeros(8, np.float32), np.full(8, 0.5, np.float32), 10.0, layers)
    write_onnx(tmp_path / "wide.onnx", net, producer="t")
    observations = rng.normal(size=(32, 8)).astype(np.float32)
    policy = OnnxPolicy(tmp_path / "wide.onnx")
    found = compare(policy, lambda seen: act(net, seen), observations, checkpoint="c", onnx_name="p")
    assert 1e-6 < found.parity_max_abs_error < 1e-4
    assert found.verdict == "pass"


def test_parity_sees_a_forgotten_normaliser(path):
    bare = replace(network(), mean=np.zeros(8, np.float32), std=np.ones(8, np.float32))
    observations = np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)
    found = compare(OnnxPolicy(path), lambda seen: act(bare, seen), observations, checkpoint="c", onnx_name="p")
    assert found.verdict == "failed"


def test_a_nan_fails_parity_and_finiteness(tmp_path):
    net = network()
    weight, bias = net.layers[-1]
    write_onnx(tmp_path / "nan.onnx", replace(net, layers=[*net.layers[:-1], (weight, bias * np.nan)]), producer="t")
    policy = OnnxPolicy(tmp_path / "nan.onnx")
    gate = probe(policy)
    assert (gate.verdict, gate.checks["finiteness"]) == ("failed", False)
    seen = np.zeros((4, 8), np.float32)
    assert compare(policy, lambda _: act(net, _), seen, checkpoint="c", onnx_name="p").verdict == "failed"


def test_probe_passes_a_policy(path):
    gate = probe(OnnxPolicy(path))
    assert gate.verdict == "passed"
    assert gate.checks == {"finiteness": True, "determinism": True, "sensitivity": True}


def test_probe_finds_a_constant_policy(tmp_path):
    net = network()
    weight, bias = net.layers[-1]
    write_onnx(tmp_path / "c.onnx", replace(net, layers=[*net.layers[:-1], (weight * 0, bias)]), producer="t")
    gate = probe(OnnxPolicy(tmp_path / "c.onnx"))
    assert (gate.verdict, gate.checks["sensitivity"]) == ("failed", False)
    assert "does not look" in gate.reasons[0]


def test_probe_finds_randomness(tmp_path):
    nodes = [helper.make_node("RandomNormalLike", ["observation"], ["action"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("observation", "action")]
    graph = helper.make_graph(nodes, "random", [ends[0]], [ends[1]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "r.onnx")
    gate = probe(OnnxPolicy(tmp_path / "r.onnx"))
    assert (gate.verdict, gate.checks["determinism"]) == ("failed", False)


def test_a_file_of_another_form_is_no_policy(tmp_path):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("a", "b", "c")]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "two", info[:2], info[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "t.onnx")
    with pytest.raises(ValueError, match="no policy"):
        OnnxPolicy(tmp_path / "t.onnx")
