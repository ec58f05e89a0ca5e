"""`cluster.node_groups`: named sets of nodes, read as RLinf reads them, on the one node there is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rlark.plan.expression import parse
from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import child

GPU = "GPU"
NODE = "node"
ROBOTS = ("DOSW1", "DualFranka", "Franka", "GimArm", "Turtle2")
"""The robots whose configuration RLinf knows, as `hardware.type` names them."""

CLUSTER = "cluster"
"""The group of all nodes, which a component without `node_group` is in."""

_KEYS = ("label", "node_ranks", "env_configs", "hardware", "hardware_type", "ignore_hardware")
_ENV_KEYS = ("node_ranks", "env_vars", "python_interpreter_path")
_SEES = "DOSW1"
"""A robot whose environment reads its cameras at every step."""
_ACCELERATOR = "Accelerator"


@dataclass(frozen=True)
class NodeGroup:
    """One node group, as far as it reaches the node.

    Attributes:
        label: its name.
        kind: what its resources are: `GPU`, `node`, or a robot's type.
        size: how many of them; None where the node is not known.
        of_node: True when kind and size follow from the node, so that another node may offer more.
        environment: variables its processes get.
        python: their interpreter; empty for the Job's own.
    """

    label: str
    kind: str
    size: int | None
    of_node: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = ""

    @property
    def noun(self) -> str:
        """What one of its resources is called."""
        return self.kind if self.kind in (GPU, NODE) else f"{self.kind} robot"


class _Entry(NamedTuple):
    """One item of the list, with its place."""

    value: Mapping[str, object]
    label: str
    path: str


def node_groups(
    cluster: Mapping[str, object], gpus: int | None, path: str
) -> tuple[dict[str, NodeGroup], list[Finding]]:
    """Read the groups of a cluster section, with the two that always exist.

    Args:
        cluster: the section.
        gpus: how many the node offers; None where the node is not known.
        path: where the section stands.

    Returns:
        Every group by its label, those with a mistake included, and all mistakes.
    """
    found: list[Finding] = []
    entries = _entries(cluster.get("node_groups"), f"{path}.node_groups", found)
    robots = [robot for entry in entries for robot in _robots(entry, found)]
    found += _robots_twice(robots)
    groups = {NODE: NodeGroup(NODE, NODE, 1), CLUSTER: _of_node(CLUSTER, gpus)}
    for entry in entries:
        group = _group(entry, robots, gpus, found)
        groups.setdefault(group.label, group)
    return groups, found


def _of_node(label: str, gpus: int | None) -> NodeGroup:
    """A group whose resources are the GPUs, or the node itself where there are none."""
    return NodeGroup(label, NODE, 1, of_node=True) if gpus == 0 else NodeGroup(label, GPU, gpus, of_node=True)


def _entries(value: object, path: str, found: list[Finding]) -> list[_Entry]:
    if value is None:
        return []
    if not isinstance(value, list):
        hint = "write a list: - {label: train, node_ranks: 0}"
        found.append(_wrong("RL120", path, "node_groups is a list of node groups", hint, value))
        return []
    entries: list[_Entry] = []
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if not isinstance(item, Mapping):
            hint = f"write {{label: {item}, node_ranks: 0}}"
            found.append(_wrong("RL120", place, "a node group is a mapping with label and node_ranks", hint, item))
            continue
        found += _keys(item, _KEYS, ("label", "node_ranks"), "RL121", place)
        entries.append(_Entry(item, _label(item, place, entries, found), place))
    return entries


def _keys(
    item: Mapping[str, object], known: tuple[str, ...], required: tuple[str, ...], code: str, path: str
) -> Iterator[Finding]:
    for key in item:
        if key not in known:
            near = did_you_mean(str(key), known)
            hint = f"did you mean {near}?" if near else f"known here are {', '.join(known)}"
            yield _wrong(code, child(path, str(key)), f"unknown key {key!r}", hint, key)
    for key in required:
        if item.get(key) is None:
            yield _wrong(code, path, f"{key} is missing", f"add {key}", None)


def _label(item: Mapping[str, object], path: str, before: list[_Entry], found: list[Finding]) -> str:
    value = item.get("label")
    if value is None:
        return ""
    label = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        found.append(_wrong("RL121", f"{path}.label", "a label is text or a number", "write a name", value))
    elif label in (CLUSTER, NODE):
        message = f"{label!r} is a group that always exists; its name is taken"
        found.append(_wrong("RL122", f"{path}.label", message, "choose another label", label))
    elif any(entry.label == label for entry in before):
        message = f"the label {label!r} stands twice"
        found.append(_wrong("RL122", f"{path}.label", message, "give each group a label of its own", label))
    return label


def _group(entry: _Entry, robots: list[_Robot], gpus: int | None, found: list[Finding]) -> NodeGroup:
    value, label, path = entry
    if value.get("node_ranks") is not None:
        found += _node_ranks(value["node_ranks"], f"{path}.node_ranks")
    environment, python = _environment(entry, found)
    kind, ignore = _kind(entry, found), value.get("ignore_hardware") is True
    if ignore:
        group = NodeGroup(label, NODE, 1)
    elif kind is None or kind == _ACCELERATOR:
        group = _of_node(label, gpus)
    else:
        # Configured here, or by another group for the same node.
        group = NodeGroup(label, kind, sum(robot.kind == kind for robot in robots))
    return NodeGroup(group.label, group.kind, group.size, group.of_node, environment, python)


def _node_ranks(value: object, path: str) -> Iterator[Finding]:
    """Whether ranks of nodes name the one node, whose rank is 0."""
    parts, faults = parse(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ([], [])
    if faults or not parts or any(part.processes for part in parts):
        hint = "on a single node write node_ranks: 0"
        yield _wrong("RL123", path, f"{value!r} names no node", hint, value)
        return
    last = max((part.resources.last for part in parts if part.resources is not None), default=0)
    if last > 0:
        message = f"there is no node {last}: a single node is node 0"
        yield _wrong("RL123", path, message, "write node_ranks: 0", value)


def _environment(entry: _Entry, found: list[Finding]) -> tuple[dict[str, str], str]:
    environment: dict[str, str] = {}
    python = ""
    configs, path = entry.value.get("env_configs"), f"{entry.path}.env_configs"
    if configs is None:
        return environment, python
    if not isinstance(configs, list) or not all(isinstance(config, Mapping) for config in configs):
        hint = "write - {node_ranks: 0, env_vars: [{NAME: value}]}"
        found.append(_wrong("RL124", path, "env_configs is a list of mappings", hint, configs))
        return environment, python
    for index, config in enumerate(configs):
        place = f"{path}[{index}]"
        found += _keys(config, _ENV_KEYS, ("node_ranks",), "RL124", place)
        if config.get("node_ranks") is not None:
            found += _node_ranks(config["node_ranks"], f"{place}.node_ranks")
        if index:
            message = "node 0 has an env_config already; one for each node"
            found.append(_wrong("RL124", place, message, "put all variables into the first", None))
        python = python or str(config.get("python_interpreter_path") or "")
        _variables(config.get("env_vars"), f"{place}.env_vars", environment, found)
    return environment, python


def _variables(value: object, path: str, environment: dict[str, str], found: list[Finding]) -> None:
    """Add what `env_vars` sets to the environment."""
    if value is None:
        return
    if not isinstance(value, list):
        hint = "put a '- ' before each variable"
        found.append(_wrong("RL124", path, "env_vars is a list of single variables", hint, type(value).__name__))
        return
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if not isinstance(item, Mapping) or len(item) != 1:
            hint = "put a '- ' before each variable"
            found.append(_wrong("RL124", place, "each item is exactly one NAME: value", hint, type(item).__name__))
            continue
        name, setting = next(iter(item.items()))
        if name in environment:
            found.append(_wrong("RL124", place, f"{name} is set twice in this group", "set it once", name))
        environment[str(name)] = str(setting)


class _Robot(NamedTuple):
    """A robot of the node."""

    kind: str
    label: str
    path: str


def _kind(entry: _Entry, found: list[Finding]) -> str | None:
    """What the group says its resources are; None where it leaves that to the node."""
    value, path = entry.value, entry.path
    hardware, named, ignore = value.get("hardware"), value.get("hardware_type"), value.get("ignore_hardware")
    if ignore is not None and not isinstance(ignore, bool):
        found.append(_wrong("RL125", f"{path}.ignore_hardware", "this is true or false", "write true or false", ignore))
    for other, given in (("hardware_type", named is not None), ("ignore_hardware", ignore is True)):
        if hardware is not None and given:
            message = f"hardware and {other} exclude each other"
            found.append(_wrong("RL125", f"{path}.{other}", message, "keep one of the two", None))
    if isinstance(hardware, Mapping):
        named = hardware.get("type")
    return None if named is None else str(named)


def _robots(entry: _Entry, found: list[Finding]) -> Iterator[_Robot]:
    """The robots that a group puts on the node."""
    hardware, path = entry.value.get("hardware"), f"{entry.path}.hardware"
    if hardware is None:
        return
    if not isinstance(hardware, Mapping):
        hint = "write {type: Franka, configs: [{node_rank: 0, robot_ip: 10.0.0.1}]}"
        found.append(_wrong("RL125", path, "hardware is a mapping with type and configs", hint, hardware))
        return
    found += _keys(hardware, ("type", "configs"), ("type", "configs"), "RL125", path)
    kind = str(hardware.get("type"))
    if hardware.get("type") is not None and kind not in ROBOTS:
        near = did_you_mean(kind, ROBOTS)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(ROBOTS)}"
        found.append(_wrong("RL125", f"{path}.type", f"unknown robot {kind!r}", hint, kind))
    configs = hardware.get("configs")
    if configs is not None and not isinstance(configs, list):
        hint = "put a '- ' before each robot"
        found.append(_wrong("RL125", f"{path}.configs", "configs is a list of robots", hint, type(configs).__name__))
        return
    for index, config in enumerate(configs or ()):
        place = f"{path}.configs[{index}]"
        found += _robot_faults(kind, config, place)
        if configs and isinstance(config, Mapping) and config in configs[:index]:
            found.append(_wrong("RL125", place, "this robot stands twice", "name each robot once", None))
        yield _Robot(kind, entry.label, place)


def _robot_faults(kind: str, config: object, path: str) -> Iterator[Finding]:
    if not isinstance(config, Mapping):
        yield _wrong("RL125", path, "a robot is a mapping with node_rank", "write {node_rank: 0}", config)
        return
    rank = config.get("node_rank")
    if type(rank) is not int or rank != 0:
        message = f"the robot is at node {rank}: a single node is node 0"
        yield _wrong("RL125", f"{path}.node_rank", message, "write node_rank: 0", rank)
    for key, value in config.items():
        if str(key).endswith("robot_ip") and not _is_address(value):
            hint = "write the robot's own address, for example 10.0.0.1"
            yield _wrong("RL125", child(path, str(key)), f"{value!r} is no IP address", hint, value)
    if kind == _SEES and config.get("camera_serials") == []:
        hint = "write the serial numbers of its cameras"
        yield _wrong("RL125", f"{path}.camera_serials", f"a {kind} works by its cameras, and none is named", hint, "[]")


def _is_address(value: object) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True


def _robots_twice(robots: list[_Robot]) -> Iterator[Finding]:
    """Robots of one type on one node belong to one group."""
    owner: dict[str, str] = {}
    for robot in robots:
        first = owner.setdefault(robot.kind, robot.label)
        if first != robot.label:
            message = f"{robot.kind} robots of this node are in group {first!r} already"
            yield _wrong("RL125", robot.path, message, "keep robots of one type in one group", robot.label)


def _wrong(code: str, path: str, message: str, hint: str, actual: object) -> Finding:
    shown = None if actual is None else str(actual)[:60]
    return Finding(code=code, path=path, message=message, hint=hint, actual=shown)
