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

ON_ONE_NODE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "TORCH_NCCL_BLOCKING_WAIT": "1"}
"""What torch.distributed is told where the Job does not say otherwise: the ranks talk over the loopback only, and an
operation that takes too long on GPUs raises where it was called, as it does on a CPU, instead of ending the process."""


class Together:
    """The team of one Actor rank among several (`rlark.runtime.component.Team`).

    The ranks meet when something is first averaged or gathered. Numbers always go over gloo; a tensor goes as its
    own device wants it, so that GPUs that are only pretended change nothing.

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
            meeting: a file in a private folder that all of them see and that was not there before; rank 0 removes
                it once all have met.
            gpus_apart: False where two of them share a GPU, which NCCL refuses: then tensors go through the host.
            patience_s: seconds to wait for the others, at the meeting and in every operation.
        """
        self.rank, self.size = rank, size
        self._meeting, self._gpus_apart, self._patience_s = meeting, gpus_apart, patience_s
        self._distributed: Any = None
        self._on_gpus: Any = None
        self._met = False

    def mean_(self, tensor: Any) -> None:
        """Replace a tensor by its mean over all ranks: the same bytes on each.

        Raises:
            PeerLost: one is gone or silent.
        """
        through_host = tensor.is_cuda and not self._gpus_apart
        here = tensor.cpu() if through_host else tensor
        with self._together() as distributed:
            if here.is_cuda and self._on_gpus is None:
                self._on_gpus = distributed.new_group(backend="nccl", timeout=timedelta(seconds=self._patience_s))
            distributed.all_reduce(here, group=self._on_gpus if here.is_cuda else None)
            self._leave_the_meeting()
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
        with self._together() as distributed:
            distributed.all_gather(rows, own)
        return np.stack([row.numpy() for row in rows])

    def _leave_the_meeting(self) -> None:
        """Remove the file: whoever has a mean has met all others. NCCL goes on looking into it."""
        if self.rank == 0 and not self._met and self._on_gpus is None:
            self._meeting.unlink(missing_ok=True)
        self._met = True

    def close(self) -> None:
        """Leave; harmless when the others are gone."""
        if self._distributed is not None:
            with suppress(RuntimeError):
                self._distributed.destroy_process_group()
            self._distributed = self._on_gpus = None

    @contextmanager
    def _together(self) -> Iterator[Any]:
        """torch.distributed, with all ranks in it."""
        met = self._distributed is not None
        try:
            if not met:
                self._distributed = self._meet()
            yield self._distributed
        except RuntimeError as error:  # what torch.distributed raises is one, whatever went wrong
            what = "another Actor rank is gone or silent" if met else "the other Actor ranks cannot be met"
            raise PeerLost(f"{what}: {str(error).strip().partition(chr(10))[0]}") from error

    def _meet(self) -> Any:
        from torch import distributed

        for name, value in ON_ONE_NODE.items():
            os.environ.setdefault(name, value)
        distributed.init_process_group(
            "gloo",
            store=distributed.FileStore(str(self._meeting), self.size),
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=self._patience_s),
        )
        return distributed
