"""What RLinf asserts about the settings of a training or evaluation of robots, before Ray has to start for it.

Sections that hold no number to divide: task type, model, losses, reward, weights and FSDP
(reference of RLinf's validation: `validate_cfg`, `validate_embodied_cfg`, `validate_fsdp_cfg`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rlark.plan.model_path import is_unfilled, model_paths
from rlark.plan.rules.numbers import Numbers, shown
from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean

TASK_TYPES = ("embodied", "embodied_eval", "reasoning", "reasoning_eval", "coding_online_rl", "sft", "offline")
BACKENDS = ("fsdp", "megatron")
_MODELS = (
    "openvla", "openvla_oft", "openpi", "openpi_rlinf", "starvla", "mlp_policy", "gr00t", "gr00t_n1d6", "gr00t_n1d7",
    "dexbotic_pi", "dexbotic_dm0", "dreamzero", "fastwam", "cnn_policy", "flow_policy", "cma", "lingbotvla", "abot_m0",
    "resnet", "cfg_model", "value_model", "evo1", "molmoact2", "rlt_mlp_policy", "rlt_td3_mlp_policy",
    "recap_value_model", "steam_value_model", "sd3", "wan22_ti2v_5b", "vidar",
)  # fmt: skip
"""Policies for robots and diffusion models that RLinf knows; its extensions may add others."""
_GROUPED = ("grpo", "grpo_dynamic", "reinpp_baseline")
_WITH_CRITIC = ("actor_critic", "decoupled_actor_critic")
_ROBOTS = ("google_robot_static", "widowx", "panda")
_STAGES = "rollout.pipeline_stage_num"


def check_settings(numbers: Numbers) -> Iterator[Finding]:
    """Check what RLinf would stop for, in a configuration that RLinf runs."""
    yield from _task_type(numbers)
    if numbers.collects or numbers.task_type not in (None, *TASK_TYPES):
        return
    if numbers.task_type in ("embodied", "embodied_eval"):
        yield from _embodied(numbers)
    yield from _unfilled(numbers)
    if numbers.task_type in ("embodied_eval", "reasoning_eval", None):
        return
    yield from _group_size(numbers)
    yield from _backend(numbers)
    if numbers.value("actor.training_backend") == "fsdp":
        yield from _fsdp(numbers)


def _task_type(numbers: Numbers) -> Iterator[Finding]:
    kind = numbers.task_type
    if kind is None or kind in TASK_TYPES:
        return
    near = did_you_mean(str(kind), TASK_TYPES)
    hint = f"did you mean {near}?" if near else f"write one of {', '.join(TASK_TYPES)}"
    message = f"RLinf knows no task type {shown(kind)!r}"
    yield numbers.finding("RL161", "runner.task_type", message, hint, ", ".join(TASK_TYPES))


def _embodied(numbers: Numbers) -> Iterator[Finding]:
    yield from _model_type(numbers)
    if numbers.evaluates and not numbers.has("env.eval"):
        why = (
            "the run only evaluates" if numbers.only_eval else "evaluations are asked for by runner.val_check_interval"
        )
        message = f"env.eval is missing, and {why}"
        yield numbers.finding(
            "RL163", "env.eval", message, "add env.eval, or set runner.val_check_interval: -1", "env.eval"
        )
    yield from _one_stage(numbers)
    yield from _robot(numbers)
    if not numbers.only_eval:
        yield from _learning(numbers)


def _model_type(numbers: Numbers) -> Iterator[Finding]:
    name = f"{numbers.model}.model_type"
    kind = numbers.value(name)
    if kind is None or kind in _MODELS:
        return
    near = did_you_mean(str(kind), _MODELS)
    hint = f"did you mean {near}?" if near else "name the module that registers it in RLINF_EXT_MODULE"
    message = f"RLinf has no policy {shown(kind)!r} for robots, and stops unless an extension registers it"
    yield numbers.finding("RL162", name, message, hint, near or "a policy for robots", severity="warning")


def _learning(numbers: Numbers) -> Iterator[Finding]:
    """Losses, weights and what the first step needs."""
    estimator, loss = numbers.value("algorithm.adv_type"), numbers.value("algorithm.loss_type")
    if numbers.value("runner.use_training_pipeline") is True and estimator != "gae":
        message = f"the training pipeline computes advantages by gae only, and adv_type is {shown(estimator)}"
        hint = "write adv_type: gae, or runner.use_training_pipeline: false"
        yield numbers.finding("RL164", "algorithm.adv_type", message, hint, "gae")
    head = numbers.value("actor.model.add_value_head")
    if loss in _WITH_CRITIC and not head:
        message = f"loss_type {loss} needs a value head, and add_value_head is {shown(head or False)}"
        hint = "write add_value_head: true, or a loss without a critic: loss_type: actor"
        yield numbers.finding("RL165", "actor.model.add_value_head", message, hint, "true")
    interval = numbers.whole("runner.weight_sync_interval")
    if interval is not None and interval <= 0:
        message = f"weights would be sent to Rollout every {interval} steps"
        yield numbers.finding("RL168", "runner.weight_sync_interval", message, "use 1, for every step", "at least 1")
    if not numbers.has("weight_syncer"):
        message = "weight_syncer is missing, and without it weights cannot reach Rollout: its ranks stop as they start"
        hint = (
            "add weight_syncer/patch_syncer@weight_syncer to defaults, or a section weight_syncer: {type: patch, ...}"
        )
        yield numbers.finding("RL134", "weight_syncer", message, hint, "weight_syncer")


def _one_stage(numbers: Numbers) -> Iterator[Finding]:
    """What cannot be had together with several pipeline stages, and the worker of a reward model."""
    stages = numbers.positive(_STAGES)
    rewarded = numbers.value("reward.use_reward_model") is True
    apart = numbers.value("reward.standalone_realworld") is True
    reasons = (
        ("the model molmoact2", numbers.value(f"{numbers.model}.model_type") == "molmoact2"),
        ("a reward model", rewarded and not apart),
        ("decoupled mode", numbers.value("runner.enable_decoupled_mode") is True),
    )
    for what, holds in reasons:
        if holds and stages > 1:
            message = f"{what} works with one pipeline stage only, and there are {stages}"
            yield numbers.finding("RL166", _STAGES, message, "write pipeline_stage_num: 1", "1")
    if rewarded and not apart:
        yield from _reward(numbers)


def _reward(numbers: Numbers) -> Iterator[Finding]:
    worker = numbers.value("reward.worker_type")
    if worker not in (None, "model", "api"):
        message = f"there is no reward worker {shown(worker)!r}"
        yield numbers.finding("RL167", "reward.worker_type", message, "write model or api", "model, api")
    if worker != "api":
        return
    kind = numbers.value("reward.model.model_type")
    if kind != "buffered_vlm":
        message = f"a reward model behind an API is a buffered_vlm, and this is {shown(kind)}"
        yield numbers.finding(
            "RL167", "reward.model.model_type", message, "write model_type: buffered_vlm", "buffered_vlm"
        )
    if numbers.has("reward.api.api_base"):
        return
    if not numbers.has("router_server_args"):
        message = "router_server_args is missing, and reward.api.api_base names no server that runs already"
        hint = "add router_server_args, or name a server in reward.api.api_base"
        yield numbers.finding("RL167", "router_server_args", message, hint, "router_server_args")


def _robot(numbers: Numbers) -> Iterator[Finding]:
    """How the robot is controlled: ManiSkill's control mode comes from the policy's set-up."""
    kinds = [numbers.value("env.train.env_type"), numbers.value("env.eval.env_type")]
    name = f"{numbers.model}.policy_setup"
    setup = numbers.value(name)
    if "maniskill" in kinds and not any(robot in str(setup) for robot in _ROBOTS):
        message = f"ManiSkill has no control mode for policy_setup {shown(setup)}"
        hint = "name a robot of ManiSkill: panda-qpos, panda-ee-dpos, widowx_bridge, google_robot_static"
        yield numbers.finding("RL184", name, message, hint, "a set-up of panda, widowx or google_robot_static")
    base = numbers.value("env.train.base_config_name")
    if "behavior" in kinds and "maniskill" not in kinds and numbers.has("env.train") and base != "r1pro_behavior":
        message = f"BEHAVIOR runs with base_config_name r1pro_behavior only, and this is {shown(base)}"
        hint = "write base_config_name: r1pro_behavior"
        yield numbers.finding("RL184", "env.train.base_config_name", message, hint, "r1pro_behavior")


def _group_size(numbers: Numbers) -> Iterator[Finding]:
    estimator, size = numbers.value("algorithm.adv_type"), numbers.value("algorithm.group_size")
    if numbers.task_type == "sft" or numbers.only_eval or estimator not in _GROUPED:
        return
    if type(size) is not int or size <= 1:
        message = f"adv_type {estimator} compares the answers of a group, and group_size is {shown(size)}"
        yield numbers.finding("RL169", "algorithm.group_size", message, "use 2 or more, for example 8", "at least 2")


def _backend(numbers: Numbers) -> Iterator[Finding]:
    backend = numbers.value("actor.training_backend")
    if backend in BACKENDS:
        return
    near = did_you_mean(str(backend), BACKENDS)
    hint = f"did you mean {near}?" if near else "write training_backend: fsdp"
    message = "actor.training_backend is missing" if backend is None else f"RLinf trains by no {shown(backend)!r}"
    yield numbers.finding("RL182", "actor.training_backend", message, hint, ", ".join(BACKENDS))


def _fsdp(numbers: Numbers) -> Iterator[Finding]:
    place = "actor.fsdp_config"
    if not isinstance(numbers.value(place), Mapping):
        message = "actor.fsdp_config is missing, and training_backend is fsdp"
        hint = "add hybrid_engines/fsdp@actor.fsdp_config to defaults"
        yield numbers.finding("RL183", place, message, hint, "fsdp_config")
        return
    prefetch = numbers.value(f"{place}.backward_prefetch")
    if prefetch not in (None, "pre", "post"):
        message = f"FSDP has no backward_prefetch {shown(prefetch)!r}"
        yield numbers.finding(
            "RL183", f"{place}.backward_prefetch", message, "write pre, post or null", "pre, post, null"
        )
    mixed = numbers.value(f"{place}.mixed_precision")
    if not isinstance(mixed, Mapping):
        message = "mixed_precision is missing"
        hint = "write mixed_precision: {param_dtype: bf16, reduce_dtype: bf16, buffer_dtype: bf16}"
        yield numbers.finding("RL183", f"{place}.mixed_precision", message, hint, "mixed_precision")
        return
    yield from _autocast(numbers, f"{place}.amp_autocast", mixed)


def _autocast(numbers: Numbers, place: str, mixed: Mapping[str, object]) -> Iterator[Finding]:
    """Autocast beside FSDP's own mixed precision."""
    kinds = [mixed.get(f"{name}_dtype") for name in ("param", "reduce", "buffer")]
    plain = all(kind is None for kind in kinds) or all(kind == "fp32" for kind in kinds)
    if numbers.value(f"{place}.enabled") is True and not plain:
        message = f"amp_autocast is enabled, and FSDP's own mixed_precision is too ({', '.join(map(shown, kinds))})"
        hint = "write amp_autocast.enabled: false, or fp32 or null for all of mixed_precision"
        yield numbers.finding("RL183", f"{place}.enabled", message, hint, "false")
    precision = numbers.value(f"{place}.precision")
    if precision not in (None, "fp16", "bf16", "fp32"):
        message = f"autocast knows no precision {shown(precision)!r}"
        yield numbers.finding("RL183", f"{place}.precision", message, "write bf16, fp16 or fp32", "fp16, bf16, fp32")


def missing_models(numbers: Numbers, missing: Collection[str]) -> Iterator[Finding]:
    """Models that are not on the node: a script may fetch them first, so this only warns.

    Args:
        numbers: the configuration.
        missing: paths that were looked for and are not there.
    """
    for name, value in model_paths(numbers.config).items():
        if value in missing:
            message = f"{value} is not on the node, and the model is loaded from it in the first minutes"
            hint = "write where the model is as the run sees it, mount its folder, or fetch it in prepareScript"
            yield numbers.finding("RL135", name, message, hint, "the model's folder", severity="warning")


def _unfilled(numbers: Numbers) -> Iterator[Finding]:
    """Paths of models that somebody has yet to fill in."""
    for name, value in model_paths(numbers.config).items():
        if is_unfilled(value):
            message = f"{value} stands for a path that nobody has filled in; the model is loaded in the first minutes"
            hint = "write where the model is, as the run sees it"
            yield numbers.finding("RL135", name, message, hint, "the model's folder", severity="warning")
