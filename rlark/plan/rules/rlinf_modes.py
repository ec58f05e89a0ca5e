"""How the components of a language model's training stand to one another: on the same GPUs, or on others.

RLinf knows COLLOCATED (Actor and Rollout on the same GPUs), DISAGGREGATED (on none in common) and
AUTO (DISAGGREGATED in a fixed order, where a scheduler moves GPUs); anything else it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlark.plan.node_group import CLUSTER, GPU
from rlark.plan.placement import KEY, Placement
from rlark.plan.rules.numbers import Numbers
from rlark.spec.finding import Finding
from rlark.spec.path import join

_TRAINED = ("reasoning", "coding_online_rl")
_EVALUATED = "reasoning_eval"
_APART = (
    ("actor", "rollout"),
    ("actor", "inference"),
    ("rollout", "inference"),
    ("critic", "actor"),
    ("critic", "rollout"),
    ("critic", "critic_inference"),
    ("rollout", "critic_inference"),
)
"""Pairs that have no GPU in common where components are apart."""
_KNOWN = {"actor", "rollout", "reward", "inference", "actor_inference", "critic", "critic_inference"}
"""Others belong to several agents, whose placement has rules of its own."""
_SIZES = {
    "actor": "actor.model.tensor_model_parallel_size",
    "rollout": "rollout.tensor_parallel_size",
    "inference": "inference.model.tensor_model_parallel_size",
}
"""Over how many GPUs a model is split."""

Gpus = dict[str, list[int]]


def check_modes(numbers: Numbers, cluster: dict[str, str]) -> Iterator[Finding]:
    """Check the placement of a language model's components against each other.

    Args:
        numbers: the configuration, with its placement; without one nothing is asked.
        cluster: component -> the key of component_placement that names it.
    """
    placement, kind = numbers.placement, numbers.task_type
    if placement is None or kind not in (*_TRAINED, _EVALUATED) or not set(cluster) <= _KNOWN:
        return
    gpus = {name: sorted(placement.gpus(name)) for name in cluster}
    if not gpus.get("rollout") or (kind in _TRAINED and not gpus.get("actor")):
        return  # a missing component is told by another rule, and a node without GPUs has no such modes
    if "inference" not in gpus and "actor_inference" in gpus:
        gpus["inference"] = gpus["actor_inference"]
    modes = _Modes(numbers, cluster, gpus)
    yield from modes.contiguous()
    if kind in _TRAINED:
        yield from modes.together_or_apart(placement)
    yield from modes.tensor_parallel()


class _Modes:
    """One configuration's components and their GPUs."""

    def __init__(self, numbers: Numbers, keys: dict[str, str], gpus: Gpus) -> None:
        self._numbers = numbers
        self._keys = keys
        self._gpus = gpus

    def contiguous(self) -> Iterator[Finding]:
        for name, gpus in self._gpus.items():
            if name != "reward" and gpus and gpus[-1] - gpus[0] + 1 != len(gpus):
                message = f"{name} is on GPUs {_listed(gpus)}, and a model is split over GPUs without a hole only"
                hint = f"place it on {gpus[0]}-{gpus[0] + len(gpus) - 1}"
                yield self._finding("RL145", name, message, hint)

    def together_or_apart(self, placement: Placement) -> Iterator[Finding]:
        if self._numbers.value("cluster.auto_scheduler") is True and "critic" not in self._gpus:
            yield from self._in_order(placement)
        elif self._gpus["actor"] == self._gpus["rollout"]:
            yield from self._together()
        else:
            yield from self._apart()

    def _together(self) -> Iterator[Finding]:
        for name in ("inference", "actor_inference", "critic_inference"):
            if name in self._keys:
                message = f"{name} is placed, and Actor and Rollout share their GPUs: then Actor itself does its work"
                yield self._finding("RL147", name, message, f"remove {name}, or place Actor and Rollout apart")
        if self._numbers.task_type == "coding_online_rl":
            message = "online coding needs Actor and Rollout on different GPUs, and they share theirs"
            yield self._finding("RL144", "rollout", message, "place them apart, for example rollout: 0 and actor: 1")

    def _apart(self) -> Iterator[Finding]:
        for one, other in _APART:
            shared = set(self._gpus.get(one, ())) & set(self._gpus.get(other, ()))
            if shared:
                message = (
                    f"{one} and {other} share GPUs {_listed(sorted(shared))} only: RLinf takes Actor and Rollout on "
                    "the same GPUs, or all on different ones"
                )
                yield self._finding("RL146", one, message, "place both alike, or on no GPU in common")
                return
        if self._gpus.get("inference") and not self._numbers.value("algorithm.recompute_logprobs"):
            message = "inference is placed, and recompute_logprobs is false, so it would have nothing to do"
            yield self._finding("RL147", "inference", message, "remove it, or write algorithm.recompute_logprobs: true")

    def _in_order(self, placement: Placement) -> Iterator[Finding]:
        """AUTO: Actor, Rollout and Inference follow one another from the first GPU to the last."""
        group = placement.groups[CLUSTER]
        last = (group.size or 0) if group.kind == GPU else 0
        order = [name for name in ("actor", "rollout", "inference") if self._gpus.get(name)]
        bounds = [(self._gpus[name][0], self._gpus[name][-1] + 1) for name in order]
        starts = [0, *(end for _, end in bounds)]
        if any(low != start for (low, _), start in zip(bounds, starts, strict=False)) or starts[-1] != last:
            told = ", ".join(f"{name} on {_listed(self._gpus[name])}" for name in order)
            message = (
                f"auto_scheduler needs {', '.join(order)} one behind the other on GPUs 0-{last - 1}, and has {told}"
            )
            yield self._finding("RL149", order[0], message, f"use all {last} GPUs in this order, without a hole")

    def tensor_parallel(self) -> Iterator[Finding]:
        for name, place in _SIZES.items():
            size, gpus = self._numbers.positive(place), len(self._gpus.get(name, ()))
            if gpus and size > gpus:
                message = f"{name} is split over {size} GPUs and placed on {gpus}"
                hint = f"use {gpus}, or place {name} on {size} GPUs"
                yield self._numbers.finding("RL148", place, message, hint, f"at most {gpus}")
        if self._numbers.task_type in _TRAINED and self._gpus["actor"] == self._gpus["rollout"]:
            yield from self._strides()

    def _strides(self) -> Iterator[Finding]:
        """On shared GPUs each Rollout takes every n-th GPU of an Actor's."""
        place = "rollout.tensor_parallel_size"
        actor = self._numbers.positive("actor.model.tensor_model_parallel_size")
        rollout, gpus = self._numbers.positive(place), len(self._gpus["rollout"])
        if max(actor, rollout) > gpus:
            return
        if _shares(gpus, actor, rollout):
            return
        if actor > rollout and actor % rollout:
            message = f"Actor is split over {actor} GPUs and Rollout over {rollout}, which does not divide {actor}"
        else:
            message = f"{gpus} GPUs cannot be shared evenly by Rollouts that span {max(actor, rollout)} each"
        fits = " or ".join(str(n) for n in range(1, gpus + 1) if _shares(gpus, actor, n))
        yield self._numbers.finding("RL148", place, message, f"use {fits}", fits)

    def _finding(self, code: str, component: str, message: str, hint: str) -> Finding:
        where = join(self._numbers.path, ["cluster", KEY, self._keys.get(component, component)])
        return Finding(code=code, path=where, message=message, hint=hint)


def _shares(gpus: int, actor: int, rollout: int) -> bool:
    """True when Actors and Rollouts that are split over so many GPUs each take these in even shares."""
    return (rollout >= actor or actor % rollout == 0) and gpus % max(actor, rollout) == 0


def _listed(gpus: list[int]) -> str:
    """GPUs as a placement writes them: `0-3`, `0, 2`."""
    if len(gpus) > 1 and gpus[-1] - gpus[0] + 1 == len(gpus):
        return f"{gpus[0]}-{gpus[-1]}"
    return ", ".join(map(str, gpus))
