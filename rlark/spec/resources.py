"""What a Job takes of its node."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rlark.model import Written
from rlark.spec.quantity import Cpu, Memory, cpu_count, memory_bytes

MOST_GPUS = 1024
"""No node has more."""


class Resources(Written):
    """What the Job takes of its node; counted in leases, not enforced."""

    cpu: Cpu = Field(default=1, description="CPUs: a number, or thousandths as 500m.", examples=[2])
    memory: Memory | None = Field(
        default=None, description="Memory, as 4Gi; not counted when absent.", examples=["4Gi"]
    )
    gpu: Annotated[int, Field(ge=0, le=MOST_GPUS)] | None = Field(
        default=None,
        description="GPUs. When absent, what the placement needs, and 0 without a configuration.",
        examples=[1],
    )
    shm: Memory | None = Field(
        default=None, description="Shared memory under /dev/shm, as 2Gi; not counted when absent.", examples=["2Gi"]
    )

    @property
    def cpus(self) -> float:
        """CPUs."""
        return cpu_count(self.cpu)

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory; 0 when not counted."""
        return memory_bytes(self.memory) if self.memory is not None else 0

    @property
    def shm_bytes(self) -> int:
        """Bytes of shared memory; 0 when not counted."""
        return memory_bytes(self.shm) if self.shm is not None else 0
