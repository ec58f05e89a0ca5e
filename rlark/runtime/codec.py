"""Values on their way to another process of the run: a small body, and the large arrays beside it, not copied.

Anything that pickles can go: numbers, strings, dataclasses, nested as they like. numpy arrays and
torch tensors in it are not pickled but stand beside the body as flat bytes. A tensor arrives as a
tensor on the CPU, or on the same GPU where the receiver shares it (`rlark.runtime.device_memory`).
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from rlark.runtime import device_memory
from rlark.runtime.device_memory import Handle


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, keep: Callable[[pickle.PickleBuffer], Any], sees: Collection[str]) -> None:
        super().__init__(file, protocol=5, buffer_callback=keep)
        self._sees = sees
        self._torch = sys.modules.get("torch")  # where it is not loaded there are no tensors

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and not value.flags.forc:  # numpy would pickle it into the body
            return np.ascontiguousarray(value).__reduce_ex__(5)
        torch = self._torch
        if torch is None or not isinstance(value, torch.Tensor):
            return NotImplemented
        if value.layout is not torch.strided or value.is_quantized:  # there is more to it than its numbers
            return NotImplemented
        if value.device.type == "cuda":
            handle = device_memory.shared(value, self._sees)
            if handle is not None:
                return Handle.open, (handle,)
        plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        row = plain.as_strided((plain.numel(),), (1,))  # a single number may have any stride
        flat = row.view(torch.uint8).numpy()  # numpy does not know bfloat16
        return _tensor, (flat, str(plain.dtype).removeprefix("torch."), tuple(plain.shape))


def _tensor(flat: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.from_numpy(flat).view(getattr(torch, dtype)).view(shape)


def pack(value: object, sees: Collection[str] = ()) -> tuple[bytes, list[memoryview]]:
    """Take a value apart.

    Args:
        value: anything that pickles.
        sees: the physical GPUs that every receiver sees: tensors on those stay there.

    Returns:
        A body, and flat views of the arrays in it, in the order in which `unpack` wants them.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, buffers.append, sees).dump(value)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def unpack(body: bytes | bytearray | memoryview, buffers: Sequence[memoryview | bytearray]) -> Any:
    """Put it together again; its arrays look into the buffers, so give buffers that nobody else writes."""
    return pickle.loads(body, buffers=buffers)  # noqa: S301  a process of this run sent it


def same(left: memoryview, right: memoryview) -> bool:
    """Whether two pieces of memory of one length hold the same bytes."""
    words = len(left) // 8 * 8
    if not np.array_equal(np.frombuffer(left[:words], np.uint64), np.frombuffer(right[:words], np.uint64)):
        return False
    return bool(left[words:] == right[words:])
