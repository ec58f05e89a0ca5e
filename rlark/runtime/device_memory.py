"""The one place where a tensor stays on its GPU on its way to another process: CUDA's memory handles.

Two ranks may share a GPU and yet count it differently, since each sees its own GPUs only. So a
handle names the physical GPU, as CUDA_VISIBLE_DEVICES does, and is opened at the place that GPU has
in the receiver's own list. A tensor whose GPU the receiver does not see goes through the host's
memory instead (`rlark.runtime.codec`).

An opened tensor is the sender's own memory. torch keeps that memory until the receiver has let go
of it; but what stands in it changes when the sender goes on, so a receiver copies what it keeps.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

_DEVICE = 6
"""Where torch's `rebuild_cuda_tensor` takes the number of the GPU."""


class Handle(NamedTuple):
    """A tensor on a GPU, for a process that sees that GPU.

    Attributes:
        gpu: the physical GPU, an entry of the sender's CUDA_VISIBLE_DEVICES.
        rebuild: torch's function that opens it.
        arguments: what that function takes.
    """

    gpu: str
    rebuild: Any
    arguments: tuple[Any, ...]

    def open(self) -> Any:
        """The tensor, in this process.

        Raises:
            ValueError: this process does not see that GPU.
        """
        gpus = visible()
        if self.gpu not in gpus:
            raise ValueError(f"a tensor lies on GPU {self.gpu}, and this process sees {', '.join(gpus) or 'none'}")
        arguments = list(self.arguments)
        arguments[_DEVICE] = gpus.index(self.gpu)
        return self.rebuild(*arguments)


def visible() -> list[str]:
    """The physical GPUs this process sees, in its own order; none where nobody narrowed them."""
    return [gpu.strip() for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu.strip()]


def seen_by_all(own: Sequence[int], others: Sequence[Sequence[int]]) -> list[str]:
    """The physical GPUs that this process and others see.

    Args:
        own: the Job's numbers of the GPUs of this process, in the order of CUDA_VISIBLE_DEVICES.
        others: the same of each of the others.
    """
    return [
        physical for number, physical in zip(own, visible(), strict=False) if all(number in theirs for theirs in others)
    ]


def shared(tensor: Any, sees: Collection[str]) -> Handle | None:
    """A handle of a CUDA tensor, or None where it has to go through the host's memory.

    Args:
        tensor: on a GPU.
        sees: the physical GPUs that every receiver sees.
    """
    gpus, index = visible(), tensor.device.index
    if index is None or index >= len(gpus) or gpus[index] not in sees:
        return None
    from torch.multiprocessing.reductions import reduce_tensor

    rebuild, arguments = reduce_tensor(tensor.detach())
    return Handle(gpus[index], rebuild, tuple(arguments))
