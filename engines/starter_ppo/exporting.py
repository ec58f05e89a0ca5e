"""The policy as an ONNX file that is proven against its checkpoint, or withheld."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engines.ppo.normaliser import CLIP
from engines.ppo.policy import NetShape
from engines.ppo.trained import Trained
from engines.tasks.evaluate import PolicyFunction
from rlark.evidence.latency import control_latency_ms
from rlark.folder import write_json
from rlark.runtime.component import FloatArray

if TYPE_CHECKING:
    from rlark.evidence.onnx_policy import ExportGate, Parity

POLICY = "policy.onnx"
REJECTED = "policy.onnx.rejected"
PARITY = "parity.json"
LOG = logging.getLogger("export")


@dataclass(frozen=True)
class Exported:
    """What came of the export.

    Attributes:
        policy: what is measured from here on: the exported file where there is one.
        file: the product's name in `artifacts/`: the ONNX file, else the checkpoint.
        onnx: True when `policy.onnx` is a product.
        gate: the probes of the exported file; None without onnx.
        parity: the comparison with the checkpoint; None without onnx.
        latency_ms: median time of one decision.
        stage: where that was measured: `host-onnx`, or `host-torch` where nothing was exported.
    """

    policy: PolicyFunction
    file: str
    onnx: bool
    gate: ExportGate | None
    parity: Parity | None
    latency_ms: float
    stage: str

    def facts(self) -> dict[str, Any]:
        """The export's part of `training-summary.json`."""
        return {
            "onnxExported": self.onnx,
            "onnxExportGate": None if self.gate is None else self.gate.to_json(),
            "parity": None if self.parity is None else self.parity.to_json(),
            "controlLatencyMs": self.latency_ms,
            "measurementStage": self.stage,
            "measuredOn": "cpu",
            "threads": 1,
        }


def export(shape: NetShape, policy: Trained, checkpoint_id: str, artifacts: Path, observations: FloatArray) -> Exported:
    """Write the checkpoint and the ONNX file, and compare the two.

    Args:
        shape: of the nets.
        policy: the chosen one.
        checkpoint_id: its name.
        artifacts: the folder of products.
        observations: [S, O] that the policy meets, for the comparison.
    """
    folder = artifacts / "checkpoints"
    folder.mkdir(mode=0o700, exist_ok=True)
    checkpoint = f"checkpoints/{checkpoint_id}.npz"
    policy.save(artifacts / checkpoint)
    saved = Trained.load(shape, artifacts / checkpoint)
    try:
        from rlark.evidence import onnx_policy
    except ImportError as error:
        LOG.warning("onnx is missing (%s): policy.onnx is not written; python -m pip install onnx onnxruntime", error)
        write_json(artifacts / PARITY, {"verdict": "skipped", "reason": f"no ONNX here: {error}"})
        return _unexported(saved, checkpoint, None, None)
    scaling = saved.weights.scaling
    network = onnx_policy.Network(scaling.mean, scaling.std, CLIP, saved.layers())
    onnx_policy.write_onnx(artifacts / POLICY, network, producer="rlark starter-ppo")
    exported = onnx_policy.OnnxPolicy(artifacts / POLICY)
    gate = onnx_policy.probe(exported)
    parity = onnx_policy.compare(exported, saved, observations, checkpoint=checkpoint, onnx_name=POLICY)
    write_json(artifacts / PARITY, parity.to_json())
    if gate.verdict == "failed" or parity.verdict == "failed":
        (artifacts / POLICY).rename(artifacts / REJECTED)
        LOG.warning(
            "policy.onnx is withheld as %s: %s", REJECTED, "; ".join(gate.reasons) or "it differs from its checkpoint"
        )
        return _unexported(saved, checkpoint, gate, parity)
    latency = control_latency_ms(exported, shape.observation)
    return Exported(exported, POLICY, onnx=True, gate=gate, parity=parity, latency_ms=latency, stage="host-onnx")


def _unexported(policy: Trained, checkpoint: str, gate: ExportGate | None, parity: Parity | None) -> Exported:
    latency = _torch_latency_ms(policy)
    return Exported(policy, checkpoint, onnx=False, gate=gate, parity=parity, latency_ms=latency, stage="host-torch")


def _torch_latency_ms(policy: Trained) -> float:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return control_latency_ms(policy, len(policy.weights.scaling.mean))
    finally:
        torch.set_num_threads(threads)
