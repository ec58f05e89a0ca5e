"""What must divide what, so that every rank gets the same share: RLinf's rules, all before the start.

Where the engine is known, its defaults count as what is written does. RLinf asserts some of these
after Ray has started and meets the others in the middle of the first step; each is pure arithmetic
over the configuration and the world sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt, lcm

from rlark.plan.rules.numbers import Numbers
from rlark.spec.finding import Finding

_MICRO = "actor.micro_batch_size"
_DECOUPLED = "runner.enable_decoupled_mode"
_TRIALS = 100_000
"""Candidates tried when looking for a divisor that works."""
_ON_POLICY = (None, "actor", "actor_critic", "decoupled_actor_critic", "embodied_nft")
"""Losses that use each sample of a rollout once per epoch; others draw batches from a buffer."""
_FROM_MEMORY = ("sac",)
"""Algorithms of our engines that draw batches from a buffer."""


def check_divisibility(numbers: Numbers) -> list[Finding]:
    """Check every division a run would make; without a placement those that need no world size.

    RLinf would stop with an AssertionError, before the first step or in it, so these are errors;
    what it would only leave unused is a warning.
    """
    found = [*_saving(numbers)]
    if numbers.collects:
        return found
    if (numbers.embodied or numbers.task_type == "offline") and numbers.evaluates:
        found += _environments(numbers, "eval")
    if numbers.embodied and not numbers.only_eval:
        found += [*_environments(numbers, "train"), *_decoupled(numbers)]
    if numbers.embodied and numbers.only_eval:
        return found
    return [*found, *_batches(numbers)]


def _environments(numbers: Numbers, side: str) -> Iterator[Finding]:
    """Environments by rank, stage and group; steps by action chunk."""
    name = f"env.{side}.total_num_envs"
    total = numbers.whole(name)
    if total is not None and total <= 0:
        message = f"total_num_envs is {total}"
        yield numbers.finding("RL170", name, message, "use at least 1 environment", "at least 1")
    elif total is not None and numbers.world("env"):
        yield from _shares(numbers, side, name, total)
    yield from _chunks(numbers, side)


def _shares(numbers: Numbers, side: str, name: str, total: int) -> Iterator[Finding]:
    ranks, rollouts = numbers.world("env"), _rollouts(numbers)
    in_stages, in_groups = "rollout.pipeline_stage_num", f"env.{side}.group_size"
    stages, group = numbers.positive(in_stages), numbers.positive(in_groups)
    actors = numbers.world("actor") if side == "train" and _by_environment(numbers) else 0
    turns = stages if numbers.ours else 1  # in our engines each stage is handed over by itself
    unit = lcm(ranks * stages * group, rollouts * stages, (actors or 1) * turns)
    hint = f"use {multiples(total, unit)}: multiples of {unit} fit all ranks, stages and groups"
    fits = f"a multiple of {unit}"
    each = total // ranks
    left = each % stages > 0 and not numbers.ours and total // stages % ranks == 0
    if total % ranks:
        message = f"{total} environments cannot be shared evenly by {ranks} Env ranks"
        yield numbers.finding("RL171", name, message, hint, fits)
    elif each < stages:
        message = f"{each} environments of an Env rank are fewer than its {stages} pipeline stages"
        yield numbers.finding("RL173", name, message, hint, fits, in_stages)
    elif each % stages and not left:
        message = f"{each} environments of an Env rank cannot be split evenly into {stages} pipeline stages"
        yield numbers.finding("RL172", name, message, hint, fits, in_stages)
    elif each // stages % group:
        message = f"{each // stages} environments of a stage cannot be split evenly into groups of {group}"
        yield numbers.finding("RL174", name, message, hint, fits, in_stages, in_groups)
    elif left:
        message = f"{each} environments of an Env rank leave {each % stages} over in {stages} pipeline stages"
        yield numbers.finding("RL172", name, message, hint, fits, in_stages, severity="warning")
    if (left or total % stages == 0) and total // stages % rollouts:
        message = f"{total // stages} observations of a stage cannot be shared evenly by {rollouts} Rollout ranks"
        yield numbers.finding("RL176", name, message, hint, fits, in_stages)
    if actors and total % turns == 0 and total // turns % actors:
        of = " of a stage" if turns > 1 else ""
        message = f"{total // turns} environments{of} cannot be shared evenly by {_actors(actors)}"
        yield numbers.finding("RL181", name, message, hint, fits)


def _rollouts(numbers: Numbers) -> int:
    """Rollout ranks that share the observations of a stage; in decoupled mode each takes what comes."""
    return 1 if numbers.value(_DECOUPLED) is True else numbers.world("rollout") or 1


def _by_environment(numbers: Numbers) -> bool:
    """True when each Actor rank learns from whole environments: in our engines, and in RLinf's training pipeline."""
    return numbers.ours or numbers.value("runner.use_training_pipeline") is True


def _steps(numbers: Numbers, side: str) -> str:
    """The name under which the steps of a rollout stand."""
    rlinf = f"env.{side}.max_steps_per_rollout_epoch"
    return f"env.{side}.rollout_steps" if numbers.whole(rlinf) is None else rlinf


def _chunks(numbers: Numbers, side: str) -> Iterator[Finding]:
    name, in_chunks = _steps(numbers, side), f"{numbers.model}.num_action_chunks"
    steps, chunk = numbers.whole(name), numbers.positive(in_chunks)
    if steps is not None and steps > 0 and steps % chunk:
        message = f"{steps} steps cannot be split evenly into chunks of {chunk} actions"
        hint = f"use {multiples(steps, chunk)}"
        yield numbers.finding("RL175", name, message, hint, f"a multiple of {chunk}", in_chunks)


def _batches(numbers: Numbers) -> Iterator[Finding]:
    """The global batch by Actor rank and micro batch, and the rollout by global batch."""
    name, ranks = "actor.global_batch_size", numbers.world("actor")
    batch, micro = numbers.whole(name), numbers.positive(_MICRO)
    if batch is None or not ranks or numbers.value("actor.training_backend") not in (None, "fsdp"):
        return
    unit = micro * ranks
    remembers = numbers.value("algorithm.type") in _FROM_MEMORY
    on_policy = numbers.embodied and not remembers and numbers.value("algorithm.loss_type") in _ON_POLICY
    samples = _samples(numbers) if on_policy else None
    near = _divisors(batch, samples, unit) if samples is not None else ""
    if batch <= 0 or batch % unit:
        message = f"a global batch of {batch} cannot be split evenly into micro batches of {micro} on {_actors(ranks)}"
        hint = f"use {near or multiples(batch, unit)}"
        yield numbers.finding("RL177", name, message, hint, f"a multiple of {unit}", _MICRO)
    elif samples is not None and samples % batch:
        message = f"a rollout of {samples} samples cannot be split evenly into global batches of {batch}"
        hint = f"use {near}" if near else f"make steps times environments a multiple of {batch}"
        counted = ("env.train.total_num_envs", _steps(numbers, "train"), f"{numbers.model}.num_action_chunks")
        yield numbers.finding("RL178", name, message, hint, f"a divisor of {samples}", *counted)


def _actors(ranks: int) -> str:
    return f"{ranks} Actor rank{'' if ranks == 1 else 's'}"


def _samples(numbers: Numbers) -> int | None:
    """Samples of one iteration over all Actor ranks; None where the configuration gives no whole number."""
    envs, steps = numbers.whole("env.train.total_num_envs"), numbers.whole(_steps(numbers, "train"))
    if envs is None or steps is None or envs <= 0 or steps <= 0:
        return None
    chunk = numbers.positive(f"{numbers.model}.num_action_chunks")
    if not numbers.ours:  # what is left over in the stages is dropped
        stages = numbers.positive("rollout.pipeline_stage_num")
        envs = envs // stages * stages
    if steps % chunk or not envs:
        return None
    epochs = numbers.positive("env.train.rollout_epoch", numbers.positive("algorithm.rollout_epoch"))
    return epochs * (steps // chunk) * envs


def _saving(numbers: Numbers) -> Iterator[Finding]:
    name = "runner.save_interval"
    interval = "runner.val_check_interval"
    save, check = numbers.whole(name), numbers.whole(interval)
    if save is not None and check is not None and save > 0 and check > 0 and save % check:
        message = f"checkpoints every {save} iterations, but evaluations every {check}: a checkpoint needs one"
        hint = f"use {multiples(save, check)}"
        yield numbers.finding("RL179", name, message, hint, f"a multiple of {check}", interval)


def _decoupled(numbers: Numbers) -> Iterator[Finding]:
    envs, rollouts = numbers.world("env"), numbers.world("rollout")
    if numbers.value(_DECOUPLED) is True and 0 < envs < rollouts:
        message = f"decoupled mode with {envs} Env ranks for {rollouts} Rollout ranks: some would never get work"
        hint = f"place at least {rollouts} Env ranks, or at most {envs} Rollout ranks"
        yield numbers.finding("RL180", _DECOUPLED, message, hint, "Env ranks >= Rollout ranks")


def multiples(value: int, unit: int) -> str:
    """The multiples of unit next to value: `60 or 64`."""
    below = value // unit * unit
    return f"{below} or {below + unit}" if below > 0 else f"{unit}"


def _divisors(value: int, of: int, unit: int) -> str:
    """The divisors of a number next to value that are multiples of unit: `64 or 128`; empty where none is."""
    if of % unit:
        return ""
    rest = of // unit
    small = [d for d in range(1, min(isqrt(rest), _TRIALS) + 1) if rest % d == 0]
    found = sorted({d * unit for low in small for d in (low, rest // low)})
    below = [str(max(d for d in found if d < value))] if found[0] < value else []
    above = [str(min(d for d in found if d > value))] if found[-1] > value else []
    return " or ".join(below + above)
