"""What must divide what, so that every rank gets the same share: RLinf's rules, all before the start.

Where the engine is known, its defaults count as what is written does. RLinf asserts some of these
after Ray has started and meets the others in the middle of the first step; each is pure arithmetic
over the configuration and the world sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt, lcm

from rlark.plan.placement import Placement
from rlark.spec.finding import Finding
from rlark.spec.path import join

_CHUNK = "actor.model.num_action_chunks"
_MICRO = "actor.micro_batch_size"
_TRIALS = 100_000
"""Candidates tried when looking for a divisor that works."""
_ON_POLICY = (None, "actor", "actor_critic", "decoupled_actor_critic")
"""Losses that use each sample of a rollout once per epoch; others draw batches from a buffer."""


@dataclass(frozen=True)
class _Numbers:
    """The whole numbers of a configuration, by dotted name.

    Attributes:
        config: the configuration, with the engine's defaults where they are known.
        written: the configuration without them.
        placement: gives the world sizes; None where unknown.
        path: where the configuration stands in the Job.
        ours: True when an engine of ours runs it.
    """

    config: Mapping[str, object]
    written: Mapping[str, object]
    placement: Placement | None
    path: str
    ours: bool

    def value(self, name: str) -> object:
        return _value(self.config, name)

    def whole(self, name: str) -> int | None:
        """The number of that name; None where it is absent or no integer."""
        value = self.value(name)
        return value if type(value) is int else None

    def positive(self, name: str, default: int = 1) -> int:
        value = self.whole(name)
        return value if value is not None and value > 0 else default

    def world(self, component: str) -> int:
        """Ranks of a component; 0 where unknown."""
        return self.placement.world_size(component) if self.placement is not None else 0

    def finding(self, code: str, name: str, message: str, hint: str, expected: str, *others: str) -> Finding:
        """A finding about a number; it says which of this number and the others nobody wrote.

        Args:
            code: of the finding.
            name: the number that it is about.
            message: what does not divide.
            hint: what would.
            expected: that, short.
            others: further numbers that the message rests on; 1 changes nothing and is not told.
        """
        names = [name, *(other for other in others if self.positive(other) > 1)]
        defaults = [f"{each} {self.value(each)}" for each in names if _value(self.written, each) is None]
        if defaults:
            message += f"; {' and '.join(defaults)} {_are_defaults(len(defaults))}"
        return Finding(
            code=code,
            severity="error" if self.ours else "warning",
            path=join(self.path, name.split(".")),
            message=message,
            hint=hint,
            expected=expected,
            actual=str(self.value(name)),
        )


def _value(config: Mapping[str, object], name: str) -> object:
    found: object = config
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _are_defaults(count: int) -> str:
    return "is the engine's default" if count == 1 else "are the engine's defaults"


def check_divisibility(
    config: Mapping[str, object],
    placement: Placement | None,
    path: str,
    *,
    ours: bool,
    settled: Mapping[str, object] | None = None,
) -> list[Finding]:
    """Check every division a run would make.

    Args:
        config: the composed configuration, as it is written.
        placement: gives the world sizes; None leaves out what depends on them.
        path: where the configuration stands in the Job; empty for a file of its own.
        ours: True when an engine of ours runs it; False for a run script, which may change the
            configuration again: then numbers that do not divide are warnings.
        settled: the configuration with the engine's defaults filled in; None where nobody knows them.
    """
    numbers = _Numbers(config if settled is None else settled, config, placement, path, ours)
    kind = numbers.value("runner.task_type")
    if kind not in (None, "embodied", "embodied_eval"):
        return []
    found = [*_saving(numbers)]
    only_eval = kind == "embodied_eval" or numbers.value("runner.only_eval") is True
    if only_eval or numbers.positive("runner.val_check_interval", 0):
        found += _environments(numbers, "eval")
    if not only_eval:
        found += [*_environments(numbers, "train"), *_batches(numbers), *_decoupled(numbers)]
    return found


def _environments(numbers: _Numbers, side: str) -> Iterator[Finding]:
    """Environments by rank, stage and group; steps by action chunk."""
    name = f"env.{side}.total_num_envs"
    total = numbers.whole(name)
    if total is not None and total <= 0:
        message = f"total_num_envs is {total}"
        yield numbers.finding("RL170", name, message, "use at least 1 environment", "at least 1")
    elif total is not None and numbers.world("env"):
        yield from _shares(numbers, side, name, total)
    yield from _chunks(numbers, side)


def _shares(numbers: _Numbers, side: str, name: str, total: int) -> Iterator[Finding]:
    ranks, rollouts = numbers.world("env"), numbers.world("rollout") or 1
    in_stages, in_groups = "rollout.pipeline_stage_num", f"env.{side}.group_size"
    stages, group = numbers.positive(in_stages), numbers.positive(in_groups)
    actors = numbers.world("actor") if numbers.ours and side == "train" else 0  # each learns from whole environments
    unit = lcm(ranks * stages * group, rollouts * stages, actors or 1)
    hint = f"use {_multiples(total, unit)}: multiples of {unit} fit all ranks, stages and groups"
    fits = f"a multiple of {unit}"
    each = total // ranks
    if total % ranks:
        message = f"{total} environments cannot be shared evenly by {ranks} Env ranks"
        yield numbers.finding("RL171", name, message, hint, fits)
    elif each < stages:
        message = f"{each} environments of an Env rank are fewer than its {stages} pipeline stages"
        yield numbers.finding("RL173", name, message, hint, fits, in_stages)
    elif each % stages:
        message = f"{each} environments of an Env rank cannot be split evenly into {stages} pipeline stages"
        yield numbers.finding("RL172", name, message, hint, fits, in_stages)
    elif each // stages % group:
        message = f"{each // stages} environments of a stage cannot be split evenly into groups of {group}"
        yield numbers.finding("RL174", name, message, hint, fits, in_stages, in_groups)
    if total % stages == 0 and total // stages % rollouts:
        message = f"{total // stages} observations of a stage cannot be shared evenly by {rollouts} Rollout ranks"
        yield numbers.finding("RL176", name, message, hint, fits, in_stages)
    if actors and total % actors:
        message = f"{total} environments cannot be shared evenly by {_actors(actors)}"
        yield numbers.finding("RL181", name, message, hint, fits)


def _steps(numbers: _Numbers, side: str) -> str:
    """The name under which the steps of a rollout stand."""
    rlinf = f"env.{side}.max_steps_per_rollout_epoch"
    return f"env.{side}.rollout_steps" if numbers.whole(rlinf) is None else rlinf


def _chunks(numbers: _Numbers, side: str) -> Iterator[Finding]:
    name = _steps(numbers, side)
    steps, chunk = numbers.whole(name), numbers.positive(_CHUNK)
    if steps is not None and steps > 0 and steps % chunk:
        message = f"{steps} steps cannot be split evenly into chunks of {chunk} actions"
        hint = f"use {_multiples(steps, chunk)}"
        yield numbers.finding("RL175", name, message, hint, f"a multiple of {chunk}", _CHUNK)


def _batches(numbers: _Numbers) -> Iterator[Finding]:
    """The global batch by Actor rank and micro batch, and the rollout by global batch."""
    name, ranks = "actor.global_batch_size", numbers.world("actor")
    batch, micro = numbers.whole(name), numbers.positive(_MICRO)
    if batch is None or not ranks or numbers.value("actor.training_backend") not in (None, "fsdp"):
        return
    unit = micro * ranks
    if batch <= 0 or batch % unit:
        message = f"a global batch of {batch} cannot be split evenly into micro batches of {micro} on {_actors(ranks)}"
        hint = f"use {_multiples(batch, unit)}"
        yield numbers.finding("RL177", name, message, hint, f"a multiple of {unit}", _MICRO)
        return
    samples = _samples(numbers) if numbers.value("algorithm.loss_type") in _ON_POLICY else None
    if samples is not None and samples % batch:
        message = f"a rollout of {samples} samples cannot be split evenly into global batches of {batch}"
        near = _divisors(batch, samples, unit)
        hint = f"use {near}" if near else f"make steps times environments a multiple of {batch}"
        counted = ("env.train.total_num_envs", _steps(numbers, "train"), _CHUNK)
        yield numbers.finding("RL178", name, message, hint, f"a divisor of {samples}", *counted)


def _actors(ranks: int) -> str:
    return f"{ranks} Actor rank{'' if ranks == 1 else 's'}"


def _samples(numbers: _Numbers) -> int | None:
    """Samples of one iteration over all Actor ranks; None where the configuration gives no whole number."""
    envs, steps = numbers.whole("env.train.total_num_envs"), numbers.whole(_steps(numbers, "train"))
    if envs is None or steps is None or envs <= 0 or steps <= 0:
        return None
    chunk = numbers.positive(_CHUNK)
    if steps % chunk:
        return None
    epochs = numbers.positive("env.train.rollout_epoch", numbers.positive("algorithm.rollout_epoch"))
    return epochs * (steps // chunk) * envs


def _saving(numbers: _Numbers) -> Iterator[Finding]:
    name = "runner.save_interval"
    interval = "runner.val_check_interval"
    save, check = numbers.whole(name), numbers.whole(interval)
    if save is not None and check is not None and save > 0 and check > 0 and save % check:
        message = f"checkpoints every {save} iterations, but evaluations every {check}: a checkpoint needs one"
        hint = f"use {_multiples(save, check)}"
        yield numbers.finding("RL179", name, message, hint, f"a multiple of {check}", interval)


def _decoupled(numbers: _Numbers) -> Iterator[Finding]:
    name = "runner.enable_decoupled_mode"
    envs, rollouts = numbers.world("env"), numbers.world("rollout")
    if numbers.value(name) is True and 0 < envs < rollouts:
        message = f"decoupled mode with {envs} Env ranks for {rollouts} Rollout ranks: some would never get work"
        hint = f"place at least {rollouts} Env ranks, or at most {envs} Rollout ranks"
        yield numbers.finding("RL180", name, message, hint, "Env ranks >= Rollout ranks")


def _multiples(value: int, unit: int) -> str:
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
