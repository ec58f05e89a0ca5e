"""The policy as an ONNX file that is proven against its checkpoint, or withheld."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from engines.tasks.evaluate import PolicyFunction
from rlark.evidence.export_gate import ExportGate, examine
from rlark.evidence.latency import control_latency_ms
from rlark.evidence.network import Network
from rlark.evidence.parity import Parity, compare, skipped
from rlark.folder import write_json
from rlark.runtime.component import FloatArray

POLICY = "policy.onnx"
REJECTED = "policy.onnx.rejected"
PARITY = "parity.json"
LOG = logging.getLogger("export")


class Exportable(Protocol):
    """A trained policy: observations [B, O] to actions [B, A]."""

    def __call__(self, observation: FloatArray) -> FloatArray:
        """Act."""
        ...

    def save(self, path: Path) -> None:
        """Write it as `.npz`."""
        ...

    def network(self) -> Network:
        """Its arrays."""
        ...


P = TypeVar("P", bound=Exportable)


@dataclass(frozen=True)
class Exported:
    """What came of the export.

    Attributes:
        policy: what is measured from here on: the exported file where there is one that runs.
        file: the product's name in `artifacts/`: the ONNX file, else the checkpoint.
        onnx: True when `policy.onnx` is a product.
        gate: the probes of the exported file; None where none was written.
        parity: the comparison with the checkpoint.
        latency_ms: median time of one decision.
        stage: where that was measured: `host-onnx`, or `host-torch` where no file could be run.
    """

    policy: PolicyFunction
    file: str
    onnx: bool
    gate: ExportGate | None
    parity: Parity
    latency_ms: float
    stage: str

    def facts(self) -> dict[str, Any]:
        """The export's part of `training-summary.json`."""
        return {
            "onnxExported": self.onnx,
            "onnxExportGate": None if self.gate is None else self.gate.to_json(),
            "parity": self.parity.to_json(),
            "controlLatencyMs": self.latency_ms,
            "measurementStage": self.stage,
            "measuredOn": "cpu",
            "threads": 1,
        }


def export(
    policy: P, load: Callable[[Path], P], checkpoint_id: str, artifacts: Path, observations: FloatArray
) -> Exported:
    """Write the checkpoint and the ONNX file, and compare the two.

    Args:
        policy: the chosen one.
        load: reads what `policy.save` wrote; the file is compared with what was read back.
        checkpoint_id: its name.
        artifacts: the folder of products.
        observations: [S, O] that the policy meets, for the comparison.
    """
    (artifacts / "checkpoints").mkdir(mode=0o700, exist_ok=True)
    checkpoint = f"checkpoints/{checkpoint_id}.npz"
    policy.save(artifacts / checkpoint)
    saved = load(artifacts / checkpoint)
    network = saved.network()
    try:
        from rlark.evidence import onnx_file
    except ImportError as error:
        LOG.warning("onnx is missing (%s): policy.onnx is not written; python -m pip install onnx onnxruntime", error)
        return _told(artifacts, _by_torch(saved, checkpoint, None, f"no ONNX here: {error}"))
    onnx_file.write_onnx(artifacts / POLICY, network, producer="rlark starter-ppo")
    gate = examine(artifacts / POLICY, len(network.mean), len(network.layers[-1][1]))
    if gate.verdict == "skipped":
        LOG.warning("policy.onnx is not proven: %s", "; ".join(gate.reasons))
        unproven = _by_torch(saved, checkpoint, gate, "; ".join(gate.reasons), file=POLICY)
        return _told(artifacts, unproven)
    return _told(artifacts, _proven(artifacts, saved, checkpoint, gate, observations))


def _proven(artifacts: Path, saved: P, checkpoint: str, gate: ExportGate, observations: FloatArray) -> Exported:
    """The file where it stands both tests, else the checkpoint with the file withheld."""
    from rlark.evidence.onnx_file import in_double
    from rlark.evidence.onnx_policy import OnnxPolicy

    if gate.verdict == "failed":
        return _withheld(artifacts, saved, gate, skipped(checkpoint, POLICY, "the file failed the probes"))
    network = saved.network()
    exported, exact = OnnxPolicy(artifacts / POLICY), OnnxPolicy(in_double(artifacts / POLICY))
    parity = compare(exported, exact, saved, network, observations, checkpoint=checkpoint, onnx_name=POLICY)
    if parity.verdict == "failed":
        return _withheld(artifacts, saved, gate, parity)
    latency = control_latency_ms(exported, len(network.mean))
    return Exported(exported, POLICY, onnx=True, gate=gate, parity=parity, latency_ms=latency, stage="host-onnx")


def _withheld(artifacts: Path, saved: P, gate: ExportGate, parity: Parity) -> Exported:
    (artifacts / POLICY).rename(artifacts / REJECTED)
    why = "; ".join(gate.reasons) or "it differs from its checkpoint"
    LOG.warning("policy.onnx is withheld as %s: %s", REJECTED, why)
    latency = _torch_latency_ms(saved)
    return Exported(
        saved, parity.checkpoint, onnx=False, gate=gate, parity=parity, latency_ms=latency, stage="host-torch"
    )


def _by_torch(saved: P, checkpoint: str, gate: ExportGate | None, reason: str, *, file: str = "") -> Exported:
    """Where there is no ONNX Runtime to prove and time the file, torch acts."""
    parity, latency = skipped(checkpoint, POLICY, reason), _torch_latency_ms(saved)
    name, onnx = file or checkpoint, bool(file)
    return Exported(saved, name, onnx=onnx, gate=gate, parity=parity, latency_ms=latency, stage="host-torch")


def _told(artifacts: Path, exported: Exported) -> Exported:
    write_json(artifacts / PARITY, exported.parity.to_json())
    return exported


def _torch_latency_ms(policy: Exportable) -> float:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return control_latency_ms(policy, len(policy.network().mean))
    finally:
        torch.set_num_threads(threads)
