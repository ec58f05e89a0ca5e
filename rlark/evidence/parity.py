"""`parity.json`: the checkpoint's policy against the exported file, observation by observation.

Two questions are asked. Is it the same function? Both are computed in float64, where rounding hides
nothing: they agree to 1e-6, out of range too, whatever the width of the nets. And does it act the
same as it is run? In float32 two libraries round differently, by up to 1e-6 for nets of 64 units
and 3e-5 for nets of 1,024.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlark.evidence.network import Floats, Network
from rlark.model import StoredModel

SEED = 20260922
ATOL = 1e-6
ROUNDING_ATOL = 1e-4
REACH = 20.0
"""Observations out of range lie up to this many times beyond those that the policy meets."""
BATCH = 7

Policy = Callable[[Floats], NDArray[Any]]
"""Observations [B, O] to actions [B, A]."""


class Parity(StoredModel):
    """What came of the comparison.

    Attributes:
        checkpoint: name of the checkpoint.
        onnx: name of the file.
        samples: how many observations were compared.
        obs_dim: O.
        action_dim: A.
        atol: greatest difference allowed in float64.
        parity_max_abs_error: greatest difference found in float64; None when it is not finite.
        rounding_atol: greatest difference allowed as both are run, in float32.
        rounding_max_abs_error: greatest difference found in float32, one by one and in batches.
        verdict: a `failed` file is not a product; a `skipped` one is not proven against its checkpoint.
        reason: why it was skipped.
    """

    checkpoint: str
    onnx: str
    samples: int = 0
    obs_dim: int | None = None
    action_dim: int | None = None
    atol: float = ATOL
    parity_max_abs_error: float | None = None
    rounding_atol: float = ROUNDING_ATOL
    rounding_max_abs_error: float | None = None
    verdict: Literal["pass", "failed", "skipped"]
    reason: str = ""


def samples_of(observations: Floats) -> Floats:
    """[2 S, O]: observations [S, O] that the policy meets, and as many far outside of them."""
    rng = np.random.default_rng(SEED)
    reach = np.maximum(np.abs(observations).max(axis=0), 1.0)
    beyond = (rng.uniform(-REACH, REACH, observations.shape) * reach).astype(np.float32)
    return np.concatenate((observations, beyond))


def compare(
    policy: Policy,
    exact: Policy,
    reference: Policy,
    network: Network,
    observations: Floats,
    *,
    checkpoint: str,
    onnx_name: str,
) -> Parity:
    """Compare an exported file with its checkpoint.

    Args:
        policy: the file as it is run.
        exact: the same file, computed in float64.
        reference: the checkpoint's policy as it is run.
        network: the checkpoint's arrays.
        observations: [S, O] that the policy meets.
        checkpoint: its name.
        onnx_name: the file's name.
    """
    samples = samples_of(observations)
    wanted = reference(samples)
    singly = np.concatenate([policy(samples[i : i + 1]) for i in range(len(samples))])
    batched = np.concatenate([policy(samples[i : i + BATCH]) for i in range(0, len(samples), BATCH)])
    rounding = float(max(np.abs(wanted - singly).max(), np.abs(wanted - batched).max()))
    error = float(np.abs(exact(samples) - network.exact(samples)).max())
    return Parity(
        checkpoint=checkpoint,
        onnx=onnx_name,
        samples=len(samples),
        obs_dim=samples.shape[1],
        action_dim=wanted.shape[1],
        parity_max_abs_error=error if np.isfinite(error) else None,
        rounding_max_abs_error=rounding if np.isfinite(rounding) else None,
        verdict="pass" if error <= ATOL and rounding <= ROUNDING_ATOL else "failed",
    )


def skipped(checkpoint: str, onnx_name: str, reason: str) -> Parity:
    """The record where nothing could be compared."""
    return Parity(checkpoint=checkpoint, onnx=onnx_name, verdict="skipped", reason=reason)
