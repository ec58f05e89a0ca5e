"""A policy as one ONNX file: written from arrays, probed and compared.

The only module here that needs onnx and ONNX Runtime; engines import it, nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from pydantic import Field

from rlark.model import StoredModel

OPSET = 13
IR_VERSION = 8
INPUT = "observation"
OUTPUT = "action"
PROBES = 8
PROBE_SEED = 20260916
DETERMINISM_ATOL = 1e-7
SENSITIVITY = 1e-6
PARITY_SEED = 20260922
PARITY_ATOL = 1e-4
"""Two libraries round differently: nets of 1024 units differ by 3e-5; a wrong weight differs by far more."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Network:
    """A tanh network with its normaliser, as arrays.

    Attributes:
        mean: [O], subtracted from the observation.
        std: [O], what the difference is divided by.
        clip: the normalised observation is clamped to ± this.
        layers: (weight [out, in], bias [out]) of every layer; tanh between them, the last one is linear.
    """

    mean: Floats
    std: Floats
    clip: float
    layers: Sequence[tuple[Floats, Floats]]


def write_onnx(path: Path, network: Network, *, producer: str) -> None:
    """Write the deterministic policy: normaliser, network, and the action clamped to ±1.

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
            nodes.append(helper.make_node("Tanh", [here], [f"hidden{index}"]))
            here = f"hidden{index}"
    nodes.append(helper.make_node("Clip", [here, "action_low", "action_high"], [OUTPUT]))
    constants |= {"action_low": _scalar(-1.0), "action_high": _scalar(1.0)}
    sizes = {INPUT: len(network.mean), OUTPUT: len(network.layers[-1][1])}
    ends = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in sizes.items()
    }
    values = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "policy", [ends[INPUT]], [ends[OUTPUT]], values)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name=producer
    )
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


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


class OnnxPolicy:
    """A policy file, run by ONNX Runtime on one CPU thread."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            ValueError: it has not exactly one observation and one action, both [batch, size].
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if [len(inputs), len(outputs)] != [1, 1] or [len(inputs[0].shape), len(outputs[0].shape)] != [2, 2]:
            raise ValueError(f"{path.name} is no policy: it needs one input and one output, each [batch, size]")
        self._names = (inputs[0].name, outputs[0].name)
        self.observation_size, self.action_size = int(inputs[0].shape[1]), int(outputs[0].shape[1])

    def __call__(self, observation: Floats) -> Floats:
        """Actions [B, A] for observations [B, O]."""
        given, wanted = self._names
        actions: Floats = self._session.run([wanted], {given: np.ascontiguousarray(observation, np.float32)})[0]
        return actions


class ExportGate(StoredModel):
    """Whether an exported policy behaves like one.

    Attributes:
        verdict: `failed` files are not products.
        checks: finiteness, determinism and sensitivity.
        reasons: a sentence for each check that failed.
        probes: how many observations were tried.
    """

    verdict: Literal["passed", "failed"]
    checks: dict[str, bool] = Field(default_factory=dict)
    reasons: list[str] = Field(default_factory=list)
    probes: int = PROBES


def probe(policy: OnnxPolicy) -> ExportGate:
    """Try a policy on random observations: finite, the same twice, and not the same for all."""
    rng = np.random.default_rng(PROBE_SEED)
    observation = rng.normal(0.0, 0.5, (PROBES, policy.observation_size)).astype(np.float32)
    first, again = policy(observation), policy(observation)
    spread = float(np.abs(first[:, None] - first[None]).max()) if np.isfinite(first).all() else 0.0
    finite = bool(np.isfinite(first).all() and np.isfinite(again).all())
    checks = {
        "finiteness": finite,
        "determinism": bool(np.allclose(first, again, rtol=0.0, atol=DETERMINISM_ATOL)),
        "sensitivity": spread > SENSITIVITY,
    }
    words = {
        "finiteness": "an action is NaN or infinite",
        "determinism": "the same observation gave two different actions",
        "sensitivity": f"actions differ by {spread:.1e} over all probes: the policy does not look at what it sees",
    }
    reasons = [words[name] for name, holds in checks.items() if not holds]
    return ExportGate(verdict="failed" if reasons else "passed", checks=checks, reasons=reasons)


class Parity(StoredModel):
    """`parity.json`: the checkpoint's policy against the exported one.

    Attributes:
        checkpoint: name of the checkpoint.
        onnx: name of the file.
        samples: how many observations were compared.
        obs_dim: O.
        action_dim: A.
        atol: greatest difference allowed.
        parity_max_abs_error: greatest difference found; None when it is not finite.
        verdict: a `failed` file is not a product.
    """

    checkpoint: str
    onnx: str
    samples: int
    obs_dim: int
    action_dim: int
    atol: float
    parity_max_abs_error: float | None
    verdict: Literal["pass", "failed"]


def compare(
    policy: OnnxPolicy,
    reference: Callable[[Floats], Floats],
    observations: Floats,
    *,
    checkpoint: str,
    onnx_name: str,
    atol: float = PARITY_ATOL,
) -> Parity:
    """Compare two policies observation by observation, one at a time and in batches of seven.

    Args:
        policy: the exported one.
        reference: the checkpoint's: observations [B, O] to actions [B, A], clamped to ±1.
        observations: [S, O] that the policy meets; as many far outside of them are tried too.
        checkpoint: its name.
        onnx_name: the file's name.
        atol: greatest difference allowed.
    """
    rng = np.random.default_rng(PARITY_SEED)
    reach = np.maximum(np.abs(observations).max(axis=0), 1.0)
    beyond = (rng.uniform(-20.0, 20.0, observations.shape) * reach).astype(np.float32)
    samples = np.concatenate((observations, beyond))
    wanted = reference(samples)
    singly = np.concatenate([policy(samples[i : i + 1]) for i in range(len(samples))])
    batched = np.concatenate([policy(samples[i : i + 7]) for i in range(0, len(samples), 7)])
    error = float(max(np.abs(wanted - singly).max(), np.abs(wanted - batched).max()))
    return Parity(
        checkpoint=checkpoint,
        onnx=onnx_name,
        samples=len(samples),
        obs_dim=samples.shape[1],
        action_dim=wanted.shape[1],
        atol=atol,
        parity_max_abs_error=error if np.isfinite(error) else None,
        verdict="pass" if error <= atol else "failed",
    )
