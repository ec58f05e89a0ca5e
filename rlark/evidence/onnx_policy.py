"""A policy file as it is run: ONNX Runtime, on the CPU, in one thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rlark.evidence.network import Floats


def session_of(model: bytes) -> Any:
    """ONNX Runtime on one CPU thread.

    Raises:
        Exception: its own, where it cannot take the model.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OnnxPolicy:
    """A policy without a memory: observations in, actions out."""

    def __init__(self, model: Path | bytes) -> None:
        """Load it from a file, or from the bytes of one.

        Raises:
            ValueError: it has not exactly one observation and one action, both [batch, size].
        """
        name = model.name if isinstance(model, Path) else "the model"
        self._session = session_of(model.read_bytes() if isinstance(model, Path) else model)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if [len(inputs), len(outputs)] != [1, 1] or [len(inputs[0].shape), len(outputs[0].shape)] != [2, 2]:
            raise ValueError(f"{name} is no policy: it needs one input and one output, each [batch, size]")
        self._names = (inputs[0].name, outputs[0].name)
        self._type = np.float64 if inputs[0].type == "tensor(double)" else np.float32
        self.observation_size, self.action_size = int(inputs[0].shape[1]), int(outputs[0].shape[1])

    def __call__(self, observation: Floats) -> NDArray[Any]:
        """Actions [B, A] for observations [B, O], in the type that the model computes in."""
        given, wanted = self._names
        seen = np.ascontiguousarray(observation, self._type)
        actions: NDArray[Any] = self._session.run([wanted], {given: seen})[0]
        return actions
