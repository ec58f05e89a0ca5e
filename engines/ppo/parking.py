"""Tensors that leave their device for a while, and whose views stay valid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, UntypedStorage


class Parking:
    """Room on the host for tensors of one device.

    The memory under the tensors is given back and taken again (as PyTorch's FSDP does with flat
    parameters), not the tensors: whatever views them sees the same numbers afterwards.
    """

    def __init__(self, kept: Sequence[Tensor], dropped: Sequence[Tensor] = ()) -> None:
        """Know the tensors.

        Args:
            kept: their bytes are kept.
            dropped: only their memory is given back; what stands in them is written anew before it is read.
        """
        self._kept = [tensor.untyped_storage() for tensor in kept]
        self._sizes = [(one, one.nbytes()) for tensor in dropped if (one := tensor.untyped_storage())]
        self._device = kept[0].device
        self._hosts: list[Tensor] = []

    def leave(self) -> int:
        """Copy to the host and give the device's memory back: the bytes copied."""
        with torch.inference_mode():
            self._hosts = [_bytes_of(storage, self._device).to("cpu", copy=True) for storage in self._kept]
        for storage in (*self._kept, *(one for one, _ in self._sizes)):
            if storage.resizable():  # not where numpy looks into it, as into activations on a CPU
                storage.resize_(0)
        torch.cuda.empty_cache()  # what torch keeps to itself no other process can use; nothing where there is no GPU
        return int(sum(host.numel() for host in self._hosts))

    def come_back(self) -> int:
        """Take memory of the device again and copy back: the bytes copied."""
        for storage, size in self._sizes:
            if not storage.nbytes():
                storage.resize_(size)
        with torch.inference_mode():
            for storage, host in zip(self._kept, self._hosts, strict=True):
                if not storage.nbytes():
                    storage.resize_(host.numel())
                _bytes_of(storage, self._device).copy_(host)
        moved = sum(host.numel() for host in self._hosts)
        self._hosts = []
        return int(moved)


def _bytes_of(storage: UntypedStorage, device: torch.device) -> Tensor:
    """A storage as a tensor of bytes."""
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
