"""Actor ranks that learn together: means of gradients, and a few numbers from each.

torch.distributed does the work, gloo on a CPU and NCCL on GPUs; it is loaded only where there are
several ranks. What it says when a peer dies is that a connection was closed: that is told as a lost
peer, so that nobody takes the survivor for the cause.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rlark.runtime.component import Doubles
from rlark.runtime.wire import PATIENCE_S, PeerLost

LOOPBACK = "lo"
_INTERFACE = "GLOO_SOCKET_IFNAME"


class Together:
    """The team of one Actor rank among several (`rlark.runtime.component.Team`).

    The ranks meet when something is first averaged.

    Attributes:
        rank: from 0.
        size: how many there are.
    """

    def __init__(
        self, rank: int, size: int, meeting: Path, *, gpus_apart: bool = True, patience_s: float = PATIENCE_S
    ) -> None:
        """Know where to meet.

        Args:
            rank: from 0.
            size: how many there are.
            meeting: a file in a private folder that all of them see and that was not there before.
            gpus_apart: False where two of them share a GPU, which NCCL refuses: then tensors go through the host.
            patience_s: seconds to wait for the others, at the meeting and in every operation.
        """
        self.rank, self.size = rank, size
        self._meeting, self._gpus_apart, self._patience_s = meeting, gpus_apart, patience_s
        self._nccl = False
        self._group: Any = None

    def mean_(self, tensor: Any) -> None:
        """Replace a tensor by its mean over all ranks: the same bytes on each.

        Raises:
            PeerLost: one is gone or silent.
        """
        with self._together() as group:
            through_host = tensor.is_cuda and not self._nccl
            here = tensor.cpu() if through_host else tensor
            group.all_reduce(here)
        here.div_(self.size)
        if through_host:
            tensor.copy_(here)

    def gather(self, numbers: Doubles) -> Doubles:
        """The numbers [k] of every rank: [size, k], the same bytes on each.

        Raises:
            PeerLost: one is gone or silent.
        """
        import torch

        own = torch.from_numpy(np.ascontiguousarray(numbers, np.float64))
        rows = [torch.empty_like(own) for _ in range(self.size)]
        with self._together() as group:
            group.all_gather(rows, own)
        return np.stack([row.numpy() for row in rows])

    def close(self) -> None:
        """Leave; harmless when the others are gone."""
        if self._group is not None:
            with suppress(Exception):
                self._group.destroy_process_group()
            self._group = None

    @contextmanager
    def _together(self) -> Iterator[Any]:
        """torch.distributed, with all ranks in it."""
        try:
            if self._group is None:
                self._group = self._meet()
            yield self._group
        except RuntimeError as error:  # what torch.distributed raises is one, whatever went wrong
            first = str(error).strip().partition("\n")[0]
            raise PeerLost(f"another Actor rank is gone or silent: {first}") from error

    def _meet(self) -> Any:
        import torch
        from torch import distributed

        self._nccl = self._gpus_apart and torch.cuda.is_available() and distributed.is_nccl_available()
        os.environ.setdefault(_INTERFACE, LOOPBACK)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if self._nccl else "gloo",
            store=distributed.FileStore(str(self._meeting), self.size),
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=self._patience_s),
        )
        return distributed
