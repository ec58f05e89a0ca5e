"""Whether an exported file behaves like a policy: the right ends, finite, repeatable, and looking at what it sees.

Eight observations are tried, with the state of a recurrent policy at zero. A state goes in by one
name and comes out by another: `h_in` and `h_out`, `c_in` and `c_out`, `initial_h` and `h`; where names
do not tell, sizes must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rlark.evidence.network import Floats
from rlark.model import StoredModel

PROBES = 8
PROBE_SEED = 20260916
PROBE_STD = 0.5
DETERMINISM_ATOL = 1e-7
SENSITIVITY = 1e-6
CHECKS = ("inputs", "finiteness", "determinism", "sensitivity")


class ExportGate(StoredModel):
    """What came of the probes.

    Attributes:
        verdict: `failed` files are not products; `skipped` ones are kept and labelled unproven.
        checks: inputs, finiteness, determinism and sensitivity; none where nothing was tried.
        reasons: a sentence for each check that failed, or why nothing was tried.
        probes: how many observations were tried.
    """

    verdict: Literal["passed", "failed", "skipped"]
    checks: dict[str, bool] = Field(default_factory=dict)
    reasons: list[str] = Field(default_factory=list)
    probes: int = PROBES


class Unlike(Exception):
    """The file's inputs and outputs are not a policy's."""


def examine(path: Path, observation_size: int, action_size: int) -> ExportGate:
    """Try a file on random observations.

    Args:
        path: the ONNX file.
        observation_size: O, the width of its one observation.
        action_size: A, the width of its one action.
    """
    try:
        from rlark.evidence.onnx_policy import session_of
    except ImportError as error:
        return ExportGate(verdict="skipped", reasons=[f"there is no ONNX Runtime here: {error}"], probes=0)
    try:
        session = session_of(path.read_bytes())
        act = _actor(session, observation_size, action_size)
        return _probe(act, observation_size)
    except Unlike as error:
        return ExportGate(verdict="failed", checks={"inputs": False}, reasons=[str(error)], probes=0)
    except Exception as error:  # noqa: BLE001  ONNX Runtime raises its own; what cannot be run is no policy
        reason = f"ONNX Runtime cannot run {path.name}: {error}"
        return ExportGate(verdict="failed", checks={"inputs": False}, reasons=[reason], probes=0)


def _probe(act: Callable[[Floats], NDArray[Any]], size: int) -> ExportGate:
    rng = np.random.default_rng(PROBE_SEED)
    observations = rng.normal(0.0, PROBE_STD, (PROBES, 1, size)).astype(np.float32)
    first, again = (np.stack([act(seen).ravel() for seen in observations]) for _ in range(2))
    finite = bool(np.isfinite(first).all() and np.isfinite(again).all())
    spread = float(np.abs(first[:, None] - first[None]).max()) if finite else 0.0
    checks = {
        "inputs": True,
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


class _End(NamedTuple):
    name: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, end: Any) -> _End:
        """An input or output, free dimensions taken as 1."""
        return cls(end.name, tuple(size if isinstance(size, int) and size > 0 else 1 for size in end.shape))


def _actor(session: Any, observation_size: int, action_size: int) -> Callable[[Floats], NDArray[Any]]:
    inputs, outputs = [_End.of(end) for end in session.get_inputs()], [_End.of(end) for end in session.get_outputs()]
    seen = _only("observation", "input", inputs, observation_size)
    done = _only("action", "output", outputs, action_size)
    states = [end for end in inputs if end != seen]
    _pair(states, [end for end in outputs if end != done])
    zeros = {end.name: np.zeros(end.shape, np.float32) for end in states}

    def act(observation: Floats) -> NDArray[Any]:
        action: NDArray[Any] = session.run([done.name], {seen.name: observation.reshape(seen.shape), **zeros})[0]
        return action

    return act


def _only(what: str, kind: str, ends: Sequence[_End], size: int) -> _End:
    found = [end for end in ends if end.shape and end.shape[-1] == size]
    if len(found) != 1:
        shown = ", ".join(f"{end.name} {list(end.shape)}" for end in ends) or "none"
        raise Unlike(f"it needs exactly one {what} of width {size} and has {len(found)}; its {kind}s are {shown}")
    return found[0]


def _pair(given: Sequence[_End], returned: Sequence[_End]) -> None:
    """Every state that goes in must come out."""
    left = list(returned)
    for state in given:
        names = {state.name.replace("_in", "_out"), state.name.removeprefix("initial_")} - {state.name}
        match = [end for end in left if end.name in names] or [end for end in left if end.shape == state.shape]
        if len(match) != 1:
            raise Unlike(f"the state {state.name} {list(state.shape)} has {len(match)} outputs that could be its own")
        left.remove(match[0])
    if left:
        raise Unlike(f"the output {left[0].name} belongs to no input")
