"""Whatever stands in a configuration that RLinf runs, checking it ends in findings and never in an exception."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rlark.plan.node import Node
from rlark.plan.placement import resolve
from rlark.plan.rules.rlinf import check_configuration
from rlark.spec.codes import CODES

CONFIG: dict[str, Any] = {
    "cluster": {"num_nodes": 1, "component_placement": {"actor,rollout,env,reward": "0-3"}, "auto_scheduler": False},
    "runner": {
        "task_type": "embodied",
        "seq_length": 2048,
        "max_steps": 10,
        "local_update_steps": 1,
        "only_eval": False,
        "val_check_interval": 2,
        "save_interval": 4,
        "use_training_pipeline": False,
        "enable_decoupled_mode": False,
        "weight_sync_interval": 1,
        "output_dir": "/out",
    },
    "algorithm": {
        "adv_type": "grpo",
        "loss_type": "actor",
        "gamma": 0.9,
        "group_size": 4,
        "n_minibatches": 4,
        "training_batch_size_per_gpu": 1,
        "recompute_logprobs": True,
        "rollout_epoch": 1,
    },
    "data": {"rollout_batch_size": 16, "max_prompt_length": 256, "train_data_paths": ["/data"]},
    "env": {
        "train": {
            "env_type": "maniskill",
            "total_num_envs": 8,
            "group_size": 1,
            "max_steps_per_rollout_epoch": 10,
            "rollout_epoch": 1,
        },
        "eval": {"env_type": "maniskill", "total_num_envs": 8, "max_steps_per_rollout_epoch": 10},
    },
    "rollout": {
        "rollout_backend": "sglang",
        "return_logprobs": False,
        "tensor_parallel_size": 2,
        "pipeline_stage_num": 1,
        "model": {"model_type": "qwen2.5", "model_path": "/models/qwen"},
    },
    "reward": {
        "use_reward_model": True,
        "worker_type": "api",
        "model": {"model_type": "buffered_vlm", "model_path": "/models/vlm"},
        "api": {"api_base": "http://localhost"},
    },
    "actor": {
        "training_backend": "fsdp",
        "seed": 1,
        "global_batch_size": 4,
        "micro_batch_size": 1,
        "model": {
            "model_type": "openvla",
            "model_path": "/models/vla",
            "policy_setup": "panda",
            "num_action_chunks": 1,
            "add_value_head": True,
            "tensor_model_parallel_size": 4,
        },
        "fsdp_config": {
            "backward_prefetch": "pre",
            "mixed_precision": {"param_dtype": "bf16", "reduce_dtype": "bf16", "buffer_dtype": "bf16"},
            "amp_autocast": {"enabled": False, "precision": "bf16"},
        },
    },
    "weight_syncer": {"type": "patch"},
}
KINDS = ("embodied", "embodied_eval", "reasoning", "reasoning_eval", "coding_online_rl", "sft", "offline")
VALUES = (None, True, -1, 0, 3, 10**400, 0.5, float("nan"), "", "x", "${a.b}", [], [[1]], {}, {"a": []})


def places(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = (
        [place for key, one in value.items() for place in places(one, (*at, key))] if isinstance(value, dict) else []
    )
    return [*inner, at] if at else inner


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_anywhere(kind):
    for place in places(CONFIG):
        for value in VALUES:
            config = copy.deepcopy(CONFIG)
            config["runner"]["task_type"] = kind
            here = config
            for key in place[:-1]:
                here = here[key]
            here[place[-1]] = value
            cluster = config["cluster"]
            placement = resolve(cluster, Node(name="n", gpus=4))[0] if isinstance(cluster, dict) else None
            for finding in check_configuration(config, placement, None, "config"):
                assert finding.code in CODES
                assert finding.message
                assert finding.hint or finding.expected
