from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rlark.evidence.onnx_file import in_double, write_onnx
from rlark.evidence.onnx_policy import OnnxPolicy


@pytest.fixture
def path(tmp_path: Path, make_network) -> Path:
    write_onnx(tmp_path / "policy.onnx", make_network(), producer="test")
    return tmp_path / "policy.onnx"


def test_the_file_is_what_the_contract_says(path):
    model = onnx.load(path)
    assert (model.opset_import[0].version, model.ir_version) == (13, 8)
    ends = [*model.graph.input, *model.graph.output]
    assert [end.name for end in ends] == ["observation", "action"]
    shapes = [[dim.dim_param or dim.dim_value for dim in end.type.tensor_type.shape.dim] for end in ends]
    assert shapes == [["batch", 8], ["batch", 2]]


def test_the_same_policy_gives_the_same_bytes(path, tmp_path, make_network):
    write_onnx(tmp_path / "again.onnx", make_network(), producer="test")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


KINDS = [{}, {"hidden": "relu", "squash": "tanh"}, {"hidden": "relu"}, {"squash": "tanh"}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 7, 200])
def test_runs_any_batch_and_keeps_actions_in_range(tmp_path, make_network, batch, kind):
    network = make_network(**kind)
    write_onnx(tmp_path / "policy.onnx", network, producer="test")
    observation = np.random.default_rng(batch).normal(0, 30, (batch, 8)).astype(np.float32)
    actions = OnnxPolicy(tmp_path / "policy.onnx")(observation)
    assert (actions.shape, actions.dtype) == ((batch, 2), np.dtype(np.float32))
    assert np.abs(actions).max() <= 1.0
    rounding = 1e-6 if network.hidden == "tanh" else 1e-5  # nothing bounds the activations of a ReLU
    np.testing.assert_allclose(actions, network.exact(observation), atol=rounding)


@pytest.mark.parametrize("kind", KINDS)
def test_in_double_it_is_the_same_function_without_rounding(tmp_path, make_network, kind):
    network = make_network(width=256, **kind)
    write_onnx(tmp_path / "policy.onnx", network, producer="test")
    wide = OnnxPolicy(in_double(tmp_path / "policy.onnx"))
    observation = np.random.default_rng(0).normal(0, 30, (64, 8)).astype(np.float32)
    actions = wide(observation)
    assert actions.dtype == np.float64
    np.testing.assert_allclose(actions, network.exact(observation), atol=1e-12)


def test_what_is_no_onnx_is_told(tmp_path):
    (tmp_path / "policy.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"policy\.onnx is no ONNX file"):
        in_double(tmp_path / "policy.onnx")


def test_what_is_no_policy_is_refused(tmp_path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("a", "b")]
    graph = helper.make_graph([helper.make_node("Tanh", ["a"], ["b"])], "no policy", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "no.onnx")
    with pytest.raises(ValueError, match=r"no\.onnx is no policy"):
        OnnxPolicy(tmp_path / "no.onnx")


def test_writing_needs_no_runtime():
    code = "import sys, rlark.evidence.onnx_file; assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
