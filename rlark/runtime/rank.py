"""A rank and its environment: what its process may see, whole and from nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlark.host.environment import allowed
from rlark.plan.node import Lease, LogicalGpu
from rlark.plan.plan import Plan
from rlark.spec.status import RankStatus

PLATFORM = (
    "RLARK_JOB",
    "RLARK_JOB_DIR",
    "RLARK_ATTEMPT",
    "RLARK_TENSORBOARD_DIR",
    "RLARK_TOTAL_NODES",
    "RLARK_TASK_ROLE",
    "RLARK_RAY_PORT",
    "RAY_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH",
)
"""The platform's variables that a rank inherits from its run."""
FUSED = "actor+rollout+env"
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class Rank:
    """One process of a component.

    Attributes:
        job: the Job's name.
        component: `actor`, `rollout` or `env`; `actor+rollout+env` when fused.
        rank: from 0 within the component.
        world_size: how many ranks the component has.
        local_rank: its number among the component's ranks on the node.
        gpus: logical GPUs it may see.
        threads: how many threads may compute in it.
        master_port: the port at which rank 0 may gather the others; 0 when nobody asked for one.
    """

    job: str
    component: str
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    gpus: tuple[int, ...] = ()
    threads: int = 1
    master_port: int = 0

    @property
    def group(self) -> str:
        """The component's name across Jobs: `<job>/<component>`."""
        return f"{self.job}/{self.component}"

    @property
    def name(self) -> str:
        """The rank's name across Jobs: `<job>/<component>:<rank>`."""
        return f"{self.group}:{self.rank}"

    @property
    def log(self) -> str:
        """Its log file in the attempt's log folder; a fused rank is the run itself and logs as it does."""
        if self.component == FUSED:
            return "stdout.log"
        return f"{self.component}-{self.rank}.log"


def visible_devices(rank: Rank, lease: Lease) -> str:
    """The physical GPUs a rank may see, as CUDA_VISIBLE_DEVICES takes them."""
    return ",".join(lease.physical(LogicalGpu(gpu)) for gpu in rank.gpus)


def rank_env(
    rank: Rank, lease: Lease, given: Mapping[str, str] | None = None, names: Iterable[str] = ()
) -> dict[str, str]:
    """The whole environment of a rank.

    Args:
        rank: whose.
        lease: says which physical GPUs stand behind the logical ones.
        given: the run's environment; only what the allow-list, the platform and `names` name is taken.
        names: variables that the Job itself sets.

    Returns:
        Every variable the rank's process may have, those of a RLinf worker among them.
    """
    given = given or {}
    devices = visible_devices(rank, lease)
    return {
        **allowed(given),
        **{name: given[name] for name in (*PLATFORM, *names) if name in given},
        "GROUP_NAME": rank.group,
        "WORKER_NAME": rank.name,
        "RANK": str(rank.rank),
        "WORLD_SIZE": str(rank.world_size),
        "LOCAL_RANK": "0",  # it sees its own devices only: the first one is its own
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "0",
        "NODE_LOCAL_RANK": str(rank.local_rank),
        "NODE_LOCAL_WORLD_SIZE": str(rank.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(rank.master_port),
        "RLINF_NODE_RANK": "0",
        "ISOLATE_ACCELERATOR": "1",
        "LOCAL_ACCELERATOR_RANK": str(rank.gpus[0] if rank.gpus else -1),
        "VISIBLE_DEVICES": devices,
        "CUDA_VISIBLE_DEVICES": devices,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order in which the lease counts
        THREADS: str(rank.threads),
    }


def rank_status(rank: Rank, lease: Lease, pid: int) -> RankStatus:
    """A rank as it really runs, for `ranks.json`."""
    return RankStatus(
        component=rank.component,
        rank=rank.rank,
        pid=pid,
        gpus=list(rank.gpus),
        visible_devices=visible_devices(rank, lease),
        faked=any(lease.devices[gpu].faked for gpu in rank.gpus),
        log=rank.log,
    )


def threads_of(plan: Plan, lease: Lease, component: str) -> int:
    """How many threads may compute in each rank of a component.

    Ranks of one component compute at the same time, those of different components wait for each
    other; so the leased CPUs are shared out within a component. Only with pipeline stages an Env steps
    while a Rollout decides, and they share. A Job that sets OMP_NUM_THREADS wins.
    """
    own = plan.env.get(THREADS, "")
    if own.isdecimal() and int(own) > 0:
        return int(own)
    busy = ("env", "rollout") if plan.stages > 1 and component != "actor" else (component,)
    return max(1, int(lease.cpus) // max(1, sum(plan.world_size(name) for name in busy)))


def fused_rank(plan: Plan, lease: Lease) -> Rank:
    """The one rank that is all components."""
    gpus = sorted({gpu for ranks in plan.placement.values() for placed in ranks for gpu in placed.gpus})
    return Rank(job=plan.job, component=FUSED, gpus=tuple(gpus), threads=threads_of(plan, lease, "actor"))


def ranks_of(plan: Plan, lease: Lease, ports: Mapping[str, int]) -> list[Rank]:
    """Every rank of a placed run.

    Args:
        plan: says where each goes.
        lease: says how many CPUs there are to share.
        ports: component -> the port its ranks may gather at.
    """
    return [
        Rank(
            job=plan.job,
            component=component,
            rank=placed.rank,
            world_size=len(ranks),
            local_rank=placed.local_rank,
            gpus=tuple(placed.gpus),
            threads=threads_of(plan, lease, component),
            master_port=ports.get(component, 0),
        )
        for component, ranks in plan.placement.items()
        for placed in ranks
    ]
