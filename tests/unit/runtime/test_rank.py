from __future__ import annotations

import pytest

from rlark.plan.node import Device, Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime.rank import Rank, fused_rank, rank_env, ranks_of, threads_of, visible_devices

LEASE = Lease(job="demo", attempt=1, key="k", node="box", cpus=8, devices=[Device(id="4"), Device(id="GPU-aa")])
RLINF = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "NODE_LOCAL_RANK",
    "NODE_LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "GROUP_NAME",
    "WORKER_NAME",
    "VISIBLE_DEVICES",
    "ISOLATE_ACCELERATOR",
    "LOCAL_ACCELERATOR_RANK",
}


def plan(**sizes):
    placement = {
        name: [RankPlacement(rank=i, gpus=[i % 2], local_rank=i) for i in range(n)] for name, n in sizes.items()
    }
    return Plan(job="demo", node="box", placement=placement)


def test_a_rank_has_all_that_a_worker_of_rlinf_has():
    env = rank_env(Rank("demo", "rollout", 1, 2, 1, (1,), 4, 29500), LEASE)
    assert set(env) >= RLINF
    assert {name: env[name] for name in ("RANK", "WORLD_SIZE", "NODE_LOCAL_RANK", "NODE_LOCAL_WORLD_SIZE")} == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "NODE_LOCAL_RANK": "1",
        "NODE_LOCAL_WORLD_SIZE": "2",
    }
    assert (env["GROUP_NAME"], env["WORKER_NAME"]) == ("demo/rollout", "demo/rollout:1")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["OMP_NUM_THREADS"]) == ("127.0.0.1", "29500", "4")


@pytest.mark.parametrize(
    ("gpus", "devices", "first"), [((0,), "4", "0"), ((1,), "GPU-aa", "1"), ((0, 1), "4,GPU-aa", "0"), ((), "", "-1")]
)
def test_a_rank_sees_the_leased_devices_behind_its_own_logical_gpus(gpus, devices, first):
    rank = Rank("demo", "actor", gpus=gpus)
    env = rank_env(rank, LEASE)
    assert visible_devices(rank, LEASE) == devices
    assert (env["CUDA_VISIBLE_DEVICES"], env["VISIBLE_DEVICES"], env["LOCAL_ACCELERATOR_RANK"]) == (
        devices,
        devices,
        first,
    )


def test_the_environment_is_built_from_nothing_but_what_is_named():
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "never",
        "SLURM_JOB_ID": "3",
        "MUJOCO_GL": "egl",
        "RLARK_JOB_DIR": "/jobs/demo",
        "WORLD_SIZE": "99",
    }
    env = rank_env(Rank("demo", "env"), LEASE, given, names=["MUJOCO_GL", "NOT_THERE"])
    assert {"PATH", "LC_ALL", "MUJOCO_GL", "RLARK_JOB_DIR"} <= set(env)
    assert not {"AWS_SECRET_ACCESS_KEY", "SLURM_JOB_ID", "NOT_THERE"} & set(env)
    assert env["WORLD_SIZE"] == "1"


@pytest.mark.parametrize(("ranks", "threads"), [(1, 8), (2, 4), (3, 2), (16, 1)])
def test_the_leased_cores_are_shared_by_the_ranks_that_compute_at_the_same_time(ranks, threads):
    assert threads_of(plan(env=ranks), LEASE, "env") == threads


def test_in_stages_environments_and_policy_compute_at_the_same_time():
    staged = plan(actor=2, rollout=1, env=3).model_copy(update={"config": {"rollout": {"pipeline_stage_num": 2}}})
    assert [threads_of(staged, LEASE, name) for name in ("actor", "rollout", "env")] == [4, 2, 2]


@pytest.mark.parametrize(("given", "threads"), [("3", 3), ("0", 8), ("many", 8)])
def test_a_job_that_sets_its_threads_wins(given, threads):
    wanted = plan(env=1).model_copy(update={"env": {"OMP_NUM_THREADS": given}})
    assert threads_of(wanted, LEASE, "env") == threads


def test_every_placed_rank_is_there_with_the_port_of_its_component():
    ranks = ranks_of(plan(actor=2, rollout=1, env=1), LEASE, {"actor": 4000})
    assert [(r.name, r.gpus, r.master_port, r.threads) for r in ranks] == [
        ("demo/actor:0", (0,), 4000, 4),
        ("demo/actor:1", (1,), 4000, 4),
        ("demo/rollout:0", (0,), 0, 8),
        ("demo/env:0", (0,), 0, 8),
    ]
    assert ranks[0].log == "actor-0.log"


def test_a_fused_rank_sees_what_its_components_were_placed_on():
    placement = {name: [RankPlacement(rank=0, gpus=[1])] for name in ("actor", "rollout", "env")}
    rank = fused_rank(Plan(job="demo", node="box", placement=placement, fused=True), LEASE)
    assert (rank.component, rank.gpus, visible_devices(rank, LEASE)) == ("actor+rollout+env", (1,), "GPU-aa")
