"""What RLinf asserts for offline training, fine-tuning, reasoning and online coding.

Reference: `validate_offline_cfg`, `validate_sft_cfg`, `validate_reasoning_cfg` and
`validate_coding_online_rl_cfg` of RLinf.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from rlark.plan.rules.divisibility import multiples
from rlark.plan.rules.numbers import Numbers, shown
from rlark.spec.finding import Finding

_OFFLINE = (
    "actor.global_batch_size",
    "actor.micro_batch_size",
    "runner.local_update_steps",
    "runner.max_steps",
    "runner.only_eval",
    "algorithm.gamma",
    "actor.seed",
)
"""What an offline training must say."""
_ROLLOUTS = ("sglang", "vllm")
_BATCH = "data.rollout_batch_size"
_RECOMPUTE, _RETURN = "algorithm.recompute_logprobs", "rollout.return_logprobs"


def check_task(numbers: Numbers) -> Iterator[Finding]:
    """Check what RLinf would stop for in a configuration of these task types; others have nothing here."""
    kind = numbers.task_type
    if kind == "offline":
        yield from _offline(numbers)
    elif kind == "sft":
        yield from _sft(numbers)
    elif kind in ("reasoning", "reasoning_eval", "coding_online_rl"):
        if kind == "coding_online_rl":
            yield from _coding(numbers)
        if kind != "reasoning_eval":
            yield from [*_log_probabilities(numbers), *_batch(numbers)]
        yield from [*_lengths(numbers), *_rollout(numbers)]


def _offline(numbers: Numbers) -> Iterator[Finding]:
    for name in _OFFLINE:
        if not numbers.has(name):
            message = f"{name} is missing, and offline training needs it"
            yield numbers.finding("RL136", name, message, f"write {name.rpartition('.')[2]}: ...", name)
    for name, least in (*((name, 1) for name in _OFFLINE[:3]), ("runner.max_steps", 0)):
        value = numbers.whole(name)
        if value is not None and value < least:
            message = f"{name} is {value}"
            yield numbers.finding("RL136", name, message, f"use {least} or more", f"at least {least}")
    for name in ("algorithm.gamma", "actor.seed"):
        if numbers.has(name) and not _is_number(numbers.value(name)):
            message = f"{name} is {shown(numbers.value(name))!r}, which is no number"
            yield numbers.finding("RL136", name, message, "write a number", "a number")
    whole, micro = numbers.positive("actor.global_batch_size", 0), numbers.positive("actor.micro_batch_size", 0)
    if 0 < whole < micro:
        message = f"a global batch of {whole} is smaller than its micro batches of {micro}"
        hint = f"use {micro} or more, or smaller micro batches"
        yield numbers.finding("RL136", "actor.global_batch_size", message, hint, f"at least {micro}")


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _sft(numbers: Numbers) -> Iterator[Finding]:
    for name in ("actor.global_batch_size", "actor.micro_batch_size"):
        if not numbers.has(name):
            message = f"{name} is missing, and fine-tuning needs it"
            yield numbers.finding("RL137", name, message, f"write {name.rpartition('.')[2]}: ...", name)
    if numbers.has("data") and not numbers.has("data.train_data_paths") and not numbers.has("data.val_data_paths"):
        message = "there are neither data to train with nor data to evaluate with"
        hint = "write data.train_data_paths, or data.val_data_paths to evaluate only"
        yield numbers.finding("RL137", "data.train_data_paths", message, hint, "train_data_paths or val_data_paths")


def _log_probabilities(numbers: Numbers) -> Iterator[Finding]:
    """Somebody must compute the log probabilities of what was sampled."""
    again, sent = numbers.value(_RECOMPUTE), numbers.value(_RETURN)
    if isinstance(sent, str):  # an interpolation that only RLinf resolves
        return
    if not again and not sent:
        message = (
            "neither recompute_logprobs nor rollout.return_logprobs is true, so nobody knows the log probabilities"
        )
        yield numbers.finding("RL138", _RECOMPUTE, message, "write recompute_logprobs: true", "true")
    elif numbers.task_type == "coding_online_rl" and not again:
        message = "online coding computes log probabilities again, and recompute_logprobs is false"
        yield numbers.finding("RL138", _RECOMPUTE, message, "write recompute_logprobs: true", "true")
    elif numbers.task_type == "coding_online_rl" and sent and not numbers.value("algorithm.importance_sampling_fix"):
        message = "log probabilities are both returned and computed again, without importance_sampling_fix"
        hint = "write importance_sampling_fix: true, or rollout.return_logprobs: false"
        yield numbers.finding("RL138", "algorithm.importance_sampling_fix", message, hint, "true")


def _batch(numbers: Numbers) -> Iterator[Finding]:
    """The global batch that RLinf makes of prompts, answers and minibatches."""
    prompts, answers = numbers.whole(_BATCH), numbers.whole("algorithm.group_size")
    parts = numbers.positive("algorithm.n_minibatches")
    micro = numbers.whole("algorithm.training_batch_size_per_gpu")
    if micro is not None and micro < 1:
        message = f"training_batch_size_per_gpu is {micro}"
        yield numbers.finding("RL139", "algorithm.training_batch_size_per_gpu", message, "use 1 or more", "at least 1")
        return
    if prompts is None or answers is None:
        return
    batch = prompts * answers // parts
    made = f"{prompts} prompts with {answers} answer{'' if answers == 1 else 's'} in {parts} minibatches"
    if batch < 1:
        message = f"{made} leave nothing to learn from in a minibatch"
        yield numbers.finding("RL139", _BATCH, message, f"use {parts} prompts or more", f"at least {parts}")
        return
    unit = (micro or 1) * numbers.world("actor")
    if numbers.value("actor.training_backend") == "fsdp" and unit and batch % unit:
        whole = parts * unit
        step = whole // gcd(whole, answers)
        message = (
            f"{made} are a global batch of {batch}, which cannot be split evenly into micro batches of "
            f"{micro or 1} on {numbers.world('actor')} Actor ranks"
        )
        yield numbers.finding("RL177", _BATCH, message, f"use {multiples(prompts, step)}", f"a multiple of {step}")


def _lengths(numbers: Numbers) -> Iterator[Finding]:
    whole, prompt = numbers.whole("runner.seq_length"), numbers.whole("data.max_prompt_length")
    if whole is not None and prompt is not None and whole <= prompt:
        message = f"a sequence of {whole} tokens leaves no room behind a prompt of {prompt}"
        hint = f"use more than {prompt}, or a smaller data.max_prompt_length"
        yield numbers.finding("RL140", "runner.seq_length", message, hint, f"more than {prompt}")


def _rollout(numbers: Numbers) -> Iterator[Finding]:
    backend = numbers.value("rollout.rollout_backend")
    if backend not in (None, *_ROLLOUTS):
        message = f"RLinf samples with no {shown(backend)!r}"
        yield numbers.finding("RL141", "rollout.rollout_backend", message, "write sglang or vllm", "sglang, vllm")
    if numbers.has("rollout") and not numbers.has("rollout.model.model_path"):
        message = "rollout.model.model_path is missing, so there is no model to sample from"
        yield numbers.finding("RL141", "rollout.model.model_path", message, "write where the model is", "a path")


def _coding(numbers: Numbers) -> Iterator[Finding]:
    model, backend = numbers.value("rollout.model.model_type"), numbers.value("actor.training_backend")
    if model != "qwen2.5":
        message = f"online coding works with the model type qwen2.5 only, and this is {shown(model)}"
        yield numbers.finding("RL142", "rollout.model.model_type", message, "write model_type: qwen2.5", "qwen2.5")
    if backend == "fsdp":
        message = "online coding trains by megatron only, and training_backend is fsdp"
        yield numbers.finding(
            "RL142", "actor.training_backend", message, "write training_backend: megatron", "megatron"
        )
