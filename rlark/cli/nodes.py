"""`rlark nodes` and `rlark engines`."""

from __future__ import annotations

import click

from rlark.cli.command import ActionGroup
from rlark.cli.look import parse_labels
from rlark.cli.output import Column, JsonObject
from rlark.cli.session import Session, pass_session
from rlark.errors import NotFound, UsageError

INVENTORY_FIELDS = (
    *("name", "labels", "cpus", "memory", "shm", "gpus", "gpuModel", "gpusFaked", "online", "unschedulable"),
    *("freeCpus", "freeGpus", "freeMemory", "holders", "used", "leases"),
)
"""What an inventory file holds of a node, then what it may hold."""
GIB = 2**30


def _state(node: JsonObject) -> str:
    if not node.get("online", True):
        return "offline"
    return "cordoned" if node.get("unschedulable") else "online"


def _of(node: JsonObject, free: str, total: str, size: int = 1) -> str:
    have, left = node.get(total) or 0, node.get(free)
    whole = f"{have / size:.4g}"
    return whole if left is None else f"{left / size:.4g}/{whole}"


def _gpus(node: JsonObject) -> str:
    faked = " (faked)" if node.get("gpusFaked") else ""
    return _of(node, "freeGpus", "gpus") + faked


def _holders(node: JsonObject) -> str:
    return ", ".join(sorted({str(lease.get("job")) for lease in node.get("leases") or ()}))


def _leased(node: JsonObject) -> str:
    """The sum of what is leased; how much of it is in use at the moment nobody asks."""
    used = node.get("used") or {}
    cpus, gpus, memory = used.get("cpus", 0), used.get("gpus", 0), used.get("memory", 0)
    parts = ((cpus, f"{cpus:g} CPU"), (gpus, f"{gpus:g} GPU"), (memory, f"{memory / GIB:.4g} GiB"))
    return ", ".join(text for amount, text in parts if amount)


NODE_COLUMNS = (
    Column("NAME", lambda node: node["name"]),
    Column("STATE", _state),
    Column("FREE CPUS", lambda node: _of(node, "freeCpus", "cpus")),
    Column("FREE MEMORY GiB", lambda node: _of(node, "freeMemory", "memory", GIB)),
    Column("FREE GPUS", _gpus),
    Column("GPU MODEL", lambda node: node.get("gpuModel")),
    Column("LEASED BY", _holders),
    Column("LEASED", _leased, wide=True),
    Column("SHM GiB", lambda node: f"{(node.get('shm') or 0) / GIB:.4g}", wide=True),
    Column("LABELS", lambda node: ",".join(f"{k}={v}" for k, v in (node.get("labels") or {}).items()), wide=True),
)


@click.group(
    cls=ActionGroup,
    short_help="List, cordon and label nodes.",
    examples=(
        "rlark nodes",
        "rlark nodes list -o json > nodes.json      # an inventory for validate and preview",
        "rlark nodes list -l zone=a,b,team=navigation",
        "rlark nodes cordon workstation",
        "rlark nodes label workstation team=navigation old-",
    ),
)
def nodes() -> None:
    """List nodes, keep new Jobs from one, or label it; `list` is what happens without a verb."""


@nodes.command("list", short_help="Every node, free/total.")
@click.option("-l", "--selector", metavar="K=V,V...", help="Only nodes that a nodeSelector of these labels hits.")
@pass_session
def list_nodes(session: Session, selector: str | None) -> None:
    """List nodes with free and total capacity; -o json is an inventory file.

    What is not free is leased by Jobs, whether they use it at the moment or not. With -l (zone=a,b,team=nav:
    zone is a or b, and team is nav) only the nodes that a Job with this nodeSelector hits; it runs where
    exactly one of them is usable.
    """
    found = session.client.nodes()
    if selector is not None:
        found = _hit(found, selector)
    inventory = [{key: node[key] for key in INVENTORY_FIELDS if key in node} for node in found]
    session.out.records(found, NODE_COLUMNS, name=lambda node: str(node["name"]), payload={"nodes": inventory})


def _hit(nodes: list[JsonObject], text: str) -> list[JsonObject]:
    """The nodes that a selector hits.

    Raises:
        UsageError: it names no label.
    """
    from rlark.plan.selector import matches, parse_selector

    selector = parse_selector(text)
    if not selector:
        raise UsageError(f"the selector {text!r} names no label", hint="write zone=a,b,team=nav")
    return [node for node in nodes if matches(selector, node["labels"])]


@nodes.command("cordon", short_help="Let no new Job start there.")
@click.argument("node")
@pass_session
def cordon(session: Session, node: str) -> None:
    """Let no new Job start on a node; those that run there go on."""
    session.client.patch_node(node, {"spec": {"unschedulable": True}})
    session.out.say(f"{node}: cordoned")


@nodes.command("uncordon", short_help="Let Jobs start there again.")
@click.argument("node")
@pass_session
def uncordon(session: Session, node: str) -> None:
    """Let Jobs start on a node again."""
    session.client.patch_node(node, {"spec": {"unschedulable": False}})
    session.out.say(f"{node}: uncordoned")


@nodes.command("label", short_help="Set or remove labels.")
@click.argument("node")
@click.argument("labels", metavar="K=V|K-...", nargs=-1, required=True)
@pass_session
def label(session: Session, node: str, labels: tuple[str, ...]) -> None:
    """Set labels of a node (`team=navigation`), or remove them (`team-`). They survive restarts of Ray."""
    removed = [text[:-1] for text in labels if text.endswith("-") and "=" not in text]
    given = tuple(text for text in labels if text[:-1] not in removed or "=" in text)
    change: dict[str, str | None] = {**parse_labels(given), **dict.fromkeys(removed)}
    if not all(change):
        raise UsageError("a label has no name", hint="team=navigation sets one, team- removes it")
    session.client.patch_node(node, {"metadata": {"labels": change}})
    session.out.say(f"{node}: labelled")


ENGINE_COLUMNS = (
    Column("ID", lambda engine: engine["id"]),
    Column("AVAILABLE", lambda engine: engine["available"]),
    Column("COMPONENTS", lambda engine: ",".join(engine["components"])),
    Column("MISSING", lambda engine: ", ".join(need["name"] for need in engine["requirements"] if not need["met"])),
    Column("TITLE", lambda engine: engine["title"]),
)
NEED_COLUMNS = (
    Column("REQUIREMENT", lambda need: need["name"]),
    Column("STATE", lambda need: "ok" if need["met"] else "missing"),
    Column("INSTALL", lambda need: "" if need["met"] else need["install"]),
)


@click.group(
    cls=ActionGroup,
    short_help="List engines and what each lacks.",
    examples=("rlark engines", "rlark engines show starter-ppo"),
)
def engines() -> None:
    """List engines, or show what one needs; `list` is what happens without a verb."""


@engines.command("list", short_help="Every engine, and what it lacks.")
@pass_session
def list_engines(session: Session) -> None:
    """List the engines that are installed on the platform, and what each lacks there."""
    session.out.records(session.client.engines(), ENGINE_COLUMNS, name=lambda engine: str(engine["id"]))


@engines.command("show", short_help="What one engine needs.")
@click.argument("engine")
@pass_session
def show(session: Session, engine: str) -> None:
    """Show what an engine needs, whether it is met, and how to install what is missing."""
    found = session.client.engines()
    chosen = next((item for item in found if item["id"] == engine), None)
    if chosen is None:
        raise NotFound(f"there is no engine {engine!r}", hint=f"installed: {', '.join(item['id'] for item in found)}")
    out = session.out
    out.say(f"{engine}: {chosen['title']}; components {', '.join(chosen['components'])}")
    out.records(chosen["requirements"], NEED_COLUMNS, name=lambda need: str(need["name"]), payload=chosen)
