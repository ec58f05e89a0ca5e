from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rlark.evidence.export_gate import ExportGate, examine
from rlark.evidence.onnx_file import write_onnx

OBSERVATION, ACTION = 61, 14
Shape = list[Any]


def end(name: str, shape: Shape) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def linear(*, bias: float = 0.0, scale: float = 1.0, observation: int = OBSERVATION, action: int = ACTION) -> Any:
    rng = np.random.default_rng(0)
    weight = (scale * rng.normal(size=(observation, action))).astype(np.float32)
    return {
        "nodes": [helper.make_node("Gemm", ["obs", "w", "b"], ["actions"])],
        "inputs": [end("obs", ["batch", observation])],
        "outputs": [end("actions", ["batch", action])],
        "constants": {"w": weight, "b": np.full(action, bias, np.float32)},
    }


def recurrent(given: str, returned: str) -> Any:
    """A state of the action's width that is added and carried on."""
    model = linear()
    model["nodes"] = [
        helper.make_node("Gemm", ["obs", "w", "b"], ["here"]),
        helper.make_node("Add", [given, "here"], [returned]),
        helper.make_node("ReduceMean", [returned], ["middle"], axes=[1], keepdims=1),
        helper.make_node("Add", ["here", "middle"], ["actions"]),
    ]
    model["nodes"].insert(0, helper.make_node("Gemm", ["obs", "v", "c"], ["wide"]))
    model["nodes"][2] = helper.make_node("Add", [given, "wide"], [returned])
    model["constants"] |= {"v": np.ones((OBSERVATION, 32), np.float32), "c": np.zeros(32, np.float32)}
    model["inputs"].append(end(given, [1, 32]))
    model["outputs"].append(end(returned, [1, 32]))
    return model


@pytest.fixture
def gate(tmp_path: Path):
    """The verdict on a graph."""

    def judge(graph: dict[str, Any]) -> ExportGate:
        values = [numpy_helper.from_array(value, name) for name, value in graph.get("constants", {}).items()]
        made = helper.make_graph(graph["nodes"], "policy", graph["inputs"], graph["outputs"], values)
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, tmp_path / "policy.onnx")
        return examine(tmp_path / "policy.onnx", OBSERVATION, ACTION)

    return judge


def test_a_policy_passes(gate):
    found = gate(linear())
    assert found.verdict == "passed"
    assert found.checks == dict.fromkeys(("inputs", "finiteness", "determinism", "sensitivity"), True)
    assert (found.reasons, found.probes) == ([], 8)


def test_ours_passes(tmp_path, make_network):
    write_onnx(tmp_path / "policy.onnx", make_network(), producer="test")
    assert examine(tmp_path / "policy.onnx", 8, 2).verdict == "passed"


def failed(found: ExportGate, check: str) -> bool:
    assert found.verdict == "failed"
    assert found.reasons
    return found.checks[check] is False


def test_nan_is_found(gate):
    assert failed(gate(linear(bias=float("nan"))), "finiteness")


def test_chance_is_found(gate):
    model = linear()
    model["nodes"] = [
        helper.make_node("Gemm", ["obs", "w", "b"], ["here"]),
        helper.make_node("RandomNormalLike", ["here"], ["noise"]),
        helper.make_node("Add", ["here", "noise"], ["actions"]),
    ]
    assert failed(gate(model), "determinism")


def test_a_constant_is_found(gate):
    assert failed(gate(linear(scale=0.0, bias=0.5)), "sensitivity")


@pytest.mark.parametrize("sizes", [{"observation": 60}, {"action": 13}])
def test_other_widths_are_no_policy(gate, sizes):
    found = gate(linear(**sizes))
    assert failed(found, "inputs")
    assert "exactly one" in found.reasons[0]


def test_two_observations_are_one_too_many(gate):
    model = linear()
    model["inputs"].append(end("more", ["batch", OBSERVATION]))
    assert failed(gate(model), "inputs")


@pytest.mark.parametrize(
    ("given", "returned"), [("h_in", "h_out"), ("c_in", "c_out"), ("initial_h", "h"), ("state", "next")]
)
def test_a_recurrent_policy_passes(gate, given, returned):
    assert gate(recurrent(given, returned)).verdict == "passed"


def test_a_state_that_does_not_come_out_is_no_policy(gate):
    model = recurrent("h_in", "h_out")
    model["outputs"].pop()
    assert failed(gate(model), "inputs")


def test_an_output_that_belongs_to_nothing_is_no_policy(gate):
    model = linear()
    model["nodes"].append(helper.make_node("Tanh", ["obs"], ["more"]))
    model["outputs"].append(end("more", ["batch", OBSERVATION]))
    assert failed(gate(model), "inputs")


def test_what_cannot_be_run_is_no_policy(tmp_path):
    (tmp_path / "policy.onnx").write_bytes(b"no model")
    assert failed(examine(tmp_path / "policy.onnx", 8, 2), "inputs")


def test_without_a_runtime_nothing_is_claimed(tmp_path, make_network, monkeypatch):
    write_onnx(tmp_path / "policy.onnx", make_network(), producer="test")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "rlark.evidence.onnx_policy", raising=False)
    found = examine(tmp_path / "policy.onnx", 8, 2)
    assert (found.verdict, found.checks, found.probes) == ("skipped", {}, 0)
    assert "no ONNX Runtime" in found.reasons[0]


def test_a_nan_of_ours_is_found(tmp_path, make_network):
    net = make_network()
    weight, bias = net.layers[-1]
    broken = replace(net, layers=[*net.layers[:-1], (weight, bias * np.float32(np.nan))])
    write_onnx(tmp_path / "nan.onnx", broken, producer="t")
    assert failed(examine(tmp_path / "nan.onnx", 8, 2), "finiteness")
