"""A policy as one ONNX file, written from arrays; needs onnx, and no ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rlark.evidence.network import Floats, Network

OPSET = 13
IR_VERSION = 8
INPUT = "observation"
OUTPUT = "action"


def write_onnx(path: Path, network: Network, *, producer: str) -> None:
    """Write the deterministic policy: normaliser, network, and the action brought into ±1.

    Input `observation` [batch, O], output `action` [batch, A], both float32, any batch.

    Raises:
        onnx.checker.ValidationError: the graph is not valid ONNX.
        OSError: the file cannot be written.
    """
    nodes, constants = _normaliser(network)
    last = len(network.layers) - 1
    here = "normalised"
    for index, (weight, bias) in enumerate(network.layers):
        constants |= {f"weight{index}": weight, f"bias{index}": bias}
        nodes.append(helper.make_node("Gemm", [here, f"weight{index}", f"bias{index}"], [f"linear{index}"], transB=1))
        here = f"linear{index}"
        if index < last:
            nodes.append(helper.make_node(network.hidden.capitalize(), [here], [f"hidden{index}"]))
            here = f"hidden{index}"
    if network.squash == "tanh":
        nodes.append(helper.make_node("Tanh", [here], [OUTPUT]))
    else:
        nodes.append(helper.make_node("Clip", [here, "action_low", "action_high"], [OUTPUT]))
        constants |= {"action_low": _scalar(-1.0), "action_high": _scalar(1.0)}
    model = _model(nodes, constants, {INPUT: len(network.mean), OUTPUT: len(network.layers[-1][1])}, producer)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _model(nodes: list[Any], constants: dict[str, Any], sizes: dict[str, int], producer: str) -> Any:
    ends = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in sizes.items()
    }
    values = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "policy", [ends[INPUT]], [ends[OUTPUT]], values)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name=producer
    )


def _normaliser(network: Network) -> tuple[list[Any], dict[str, Any]]:
    nodes = [
        helper.make_node("Sub", [INPUT, "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "low", "high"], ["normalised"]),
    ]
    bounds = {"low": _scalar(-network.clip), "high": _scalar(network.clip)}
    return nodes, {"mean": network.mean, "std": network.std, **bounds}


def _scalar(value: float) -> Floats:
    return np.array(value, np.float32)


def in_double(path: Path) -> bytes:
    """The same graph with the same constants, computed in float64 from end to end.

    Raises:
        ValueError: the file is no ONNX.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own
        raise ValueError(f"{path.name} is no ONNX file: {error}") from error
    graph = model.graph
    for constant in graph.initializer:
        if constant.data_type == TensorProto.FLOAT:
            value = numpy_helper.to_array(constant).astype(np.float64)
            constant.CopyFrom(numpy_helper.from_array(value, constant.name))
    for end in (*graph.input, *graph.output, *graph.value_info):
        if end.type.tensor_type.elem_type == TensorProto.FLOAT:
            end.type.tensor_type.elem_type = TensorProto.DOUBLE
    wider: bytes = model.SerializeToString()
    return wider
