"""What must hold in an RLinf-style configuration before anything starts.

Placement expressions themselves are rlark.plan.placement's; what must divide what is
rlark.plan.rules.divisibility's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from rlark.engine import Engine
from rlark.plan.placement import KEY, Placement, components
from rlark.plan.rules.divisibility import check_divisibility
from rlark.plan.rules.numbers import Numbers
from rlark.plan.rules.rlinf_modes import check_modes
from rlark.plan.rules.rlinf_settings import check_settings
from rlark.plan.rules.rlinf_tasks import check_task
from rlark.spec.finding import Finding, Severity
from rlark.spec.job import SAFETY_CONFIRMED
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import child, join

_KEYS = (
    "num_nodes",
    "component_placement",
    "node_groups",
    "profiling",
    "auto_scheduler",
    "use_pre_process_policy",
    "use_wait_before_last_iter_policy",
    "recreate_nccl_groups",
    "tracer",
    "net_emulation",
)
"""All that RLinf reads under `cluster`."""
_NEEDED = {
    "sft": ("actor",),
    "offline": ("actor",),
    "reasoning": ("actor", "rollout", "reward"),
    "coding_online_rl": ("actor", "rollout", "reward"),
    "reasoning_eval": ("rollout", "reward"),
}
"""What RLinf asks the placement for, by task type."""
_ECHOES = ("RL119", "RL123")
"""Resources and nodes that are not there."""
_DEVICE = "this reaches a real device, and nobody has confirmed that it is safe"
_CONFIRM = (
    f'see that device and site are safe, then annotate the Job: metadata.annotations["{SAFETY_CONFIRMED}"]: "true"'
)


def check_configuration(
    config: Mapping[str, object],
    placement: Placement | None,
    engine: Engine | None,
    path: str,
    *,
    settled: Mapping[str, object] | None = None,
    devices_confirmed: bool | None = False,
) -> list[Finding]:
    """Check a composed configuration.

    Args:
        config: the whole of it, after Hydra's defaults and overrides.
        placement: where its components go; None where that could not be decided, so that only what
            does not depend on it is checked.
        engine: what will run it; None where RLinf does, called by a run script.
        path: where the configuration stands in the Job; empty for a file of its own.
        settled: the configuration with the engine's defaults filled in; None where nobody knows them.
        devices_confirmed: True when the Job carries the annotation `rlark.io/device-safety-confirmed`;
            None for a configuration in no Job, which cannot carry it: then a warning says what its Job needs.
    """
    cluster = config.get("cluster")
    if not isinstance(cluster, Mapping):
        message = "the configuration has no cluster section"
        hint = 'add cluster: {num_nodes: 1, component_placement: {"actor,rollout,env": all}}'
        return [_error("RL150", child(path, "cluster"), message, hint, (_shown(cluster), None))]
    place = child(path, "cluster")
    found = [*check_num_nodes(cluster, place), *_one_group(cluster, place), *_keys(cluster, place)]
    if not devices_confirmed:
        found += _devices(config, path, "warning" if devices_confirmed is None else "error")
    numbers = Numbers(config if settled is None else settled, config, placement, path, ours=engine is not None)
    if engine is not None:
        found += _components(cluster, engine, place)
    else:
        found += [*_needed(cluster, numbers), *check_settings(numbers), *check_task(numbers)]
        found += check_modes(numbers, components(cluster))
    if engine is not None and placement is not None:
        found += [*_ranks(cluster, placement, engine, place), *_exchange(cluster, placement, engine, place)]
    return found + check_divisibility(numbers)


def without_echoes(cluster: Mapping[str, object], found: Iterable[Finding]) -> list[Finding]:
    """Findings about a placement without those that only say again that there are several nodes.

    Args:
        cluster: the cluster section.
        found: what `resolve` said about it.
    """
    nodes = cluster.get("num_nodes")
    if type(nodes) is not int or nodes <= 1:
        return list(found)
    return [one for one in found if one.code not in _ECHOES and not one.path.endswith(".node_rank")]


def check_num_nodes(cluster: Mapping[str, object], path: str) -> Iterator[Finding]:
    """Check that a cluster section asks for one node."""
    value = cluster.get("num_nodes")
    where = child(path, "num_nodes") if "num_nodes" in cluster else path
    if type(value) is int and value == 1:
        return
    if type(value) is int and value > 1:
        message = (
            f"num_nodes is {value}, and a Job here runs on a single node: "
            "one machine holds all its GPUs, data and storage"
        )
        hint = "set num_nodes: 1; a Job over several machines belongs to RLark's multi-node flow or to KubeRay"
        yield _error("RL151", where, message, hint, (str(value), "1"))
        return
    message = "num_nodes is missing" if value is None else f"num_nodes is {_shown(value)}, not the integer 1"
    hint = "write num_nodes: 1" + (", without quotes" if isinstance(value, str) else "")
    yield _error("RL150", where, message, hint, (_shown(value), "1"))


def _one_group(cluster: Mapping[str, object], path: str) -> Iterator[Finding]:
    groups = cluster.get("node_groups")
    if isinstance(groups, list) and len(groups) > 1:
        message = f"{len(groups)} node groups, and a Job here runs on a single node"
        hint = "keep one group; different kinds of nodes belong to RLark's multi-node flow or to KubeRay"
        yield _error("RL152", child(path, "node_groups"), message, hint, (str(len(groups)), "at most 1"))


def _keys(cluster: Mapping[str, object], path: str) -> Iterator[Finding]:
    """Keys that RLinf drops in silence: a slip is an error, anything else a warning."""
    missing = KEY not in cluster
    for key in map(str, cluster):
        if key in _KEYS:
            continue
        near = did_you_mean(key, _KEYS)
        if near == KEY and missing:
            continue  # the resolver says so, at the same place
        hint = f"did you mean {near}?" if near else f"known here are {', '.join(_KEYS)}"
        yield Finding(
            code="RL153",
            severity="error" if near else "warning",
            path=child(path, key),
            message=f"unknown key {key!r}, which RLinf would drop in silence",
            actual=key,
            expected=near,
            hint=hint,
        )


def _devices(config: Mapping[str, object], path: str, severity: Severity) -> Iterator[Finding]:
    """Places that reach a real robot."""
    for place, actual in _reached(config, path):
        yield _error("RL160", place, _DEVICE, _CONFIRM, (actual, None)).model_copy(update={"severity": severity})


def _reached(config: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    environments = config.get("env")
    for name, env in environments.items() if isinstance(environments, Mapping) else ():
        if isinstance(env, Mapping) and env.get("env_type") == "realworld":
            yield join(path, ["env", str(name), "env_type"]), "realworld"
    cluster = config.get("cluster")
    groups = cluster.get("node_groups") if isinstance(cluster, Mapping) else None
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        for key in ("hardware", "hardware_type"):
            if isinstance(group, Mapping) and group.get(key) not in (None, "Accelerator"):
                yield join(path, ["cluster", "node_groups", index, key]), key


def _components(cluster: Mapping[str, object], engine: Engine, path: str) -> Iterator[Finding]:
    """Every component of the engine is placed, and no other."""
    placed = components(cluster)
    if not placed:
        return  # the resolver says so
    needed = engine.components
    strange = [name for name in placed if name not in needed]
    for name in strange:
        near = did_you_mean(name, [n for n in needed if n not in placed])
        hint = f"did you mean {near}?" if near else f"its components are {', '.join(needed)}"
        message = f"{engine.id} has no component {name!r}"
        yield _error("RL155", join(path, [KEY, placed[name]]), message, hint, (name, None))
    for name in needed:
        if name not in placed and did_you_mean(name, strange) is None:
            message = f"{engine.id} needs {name}, which is not placed"
            hint = f"add it to component_placement, for example {name}: all"
            yield _error("RL154", child(path, KEY), message, hint, (None, name))


def _needed(cluster: Mapping[str, object], numbers: Numbers) -> Iterator[Finding]:
    """Every component that RLinf needs for such a task is placed; those of no section collect data only."""
    placed = components(cluster)
    if not placed:
        return  # the resolver says so
    needed = _NEEDED.get(str(numbers.task_type), ())
    if numbers.task_type in ("embodied", "embodied_eval"):
        learns = () if numbers.only_eval else ("actor",)
        needed = () if numbers.collects else (*learns, "rollout", "env")
        if numbers.value("reward.use_reward_model") is True and not numbers.value("reward.standalone_realworld"):
            needed += ("reward",)
            if numbers.value("reward.worker_type") == "api" and not numbers.has("reward.api.api_base"):
                needed += ("reward_server",)
    for name in needed:
        if name not in placed:
            message = f"a run of the task type {numbers.task_type} needs {name}, which is not placed"
            near = did_you_mean(name, [other for other in placed if other not in needed])
            hint = f"did you mean {name}, and not {near}?" if near else f"add it, for example {name}: all"
            yield _error("RL154", join(numbers.path, ["cluster", KEY]), message, hint, (near, name))


def _ranks(cluster: Mapping[str, object], placement: Placement, engine: Engine, path: str) -> Iterator[Finding]:
    keys = components(cluster)
    for name, most in engine.max_ranks.items():
        ranks = placement.world_size(name)
        if ranks > most:
            message = f"{engine.id} uses at most {_count(most, name)}, and {ranks} are placed"
            example = "0" if most == 1 else f"0-{most - 1}"
            hint = f"place {name} on {_count(most, 'resource')}, for example {name}: {example}"
            where = join(path, [KEY, keys.get(name, name)])
            yield _error("RL156", where, message, hint, (str(ranks), f"at most {most}"))


def _count(number: int, noun: str) -> str:
    noun = noun if noun == "resource" else f"{noun.capitalize()} rank"
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _exchange(cluster: Mapping[str, object], placement: Placement, engine: Engine, path: str) -> Iterator[Finding]:
    """Actor and Rollout share some GPUs but not all, so that weights travel both within and between GPUs."""
    if not {"actor", "rollout"} <= set(engine.components):
        return
    actor, rollout = placement.gpus("actor"), placement.gpus("rollout")
    if not actor & rollout or actor == rollout:
        return
    less, more = ("actor", "rollout") if actor < rollout else ("rollout", "actor")
    part = ", ".join(map(str, sorted(actor & rollout)))
    message = f"{less} shares only GPUs {part} of {more}'s, and the two exchange weights at every iteration"
    yield Finding(
        code="RL133",
        severity="warning",
        path=join(path, [KEY, components(cluster).get(less, less)]),
        message=message,
        hint="place both on the same GPUs, or on none in common",
    )


def _shown(value: object) -> str | None:
    """A value as YAML would write it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value[:60], ensure_ascii=False) if isinstance(value, str) else str(value)[:60]


def _error(code: str, path: str, message: str, hint: str, values: tuple[str | None, str | None]) -> Finding:
    """A finding with what stands there and what should."""
    actual, expected = values
    return Finding(code=code, path=path, message=message, hint=hint, actual=actual, expected=expected)
