"""Nodes described in a file, for people and CI without the machine."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from rlark.errors import SpecError
from rlark.model import Written
from rlark.plan.node import Inventory, Node, default_labels
from rlark.spec.finding import Finding
from rlark.spec.invalid import AT_KEY, INVENTORY, explain
from rlark.spec.quantity import memory_bytes
from rlark.spec.resources import MOST_GPUS
from rlark.spec.yaml import Document, parse

Amount = Annotated[int, BeforeValidator(memory_bytes)]


class DescribedNode(Written):
    """One node of the file; what a platform adds when it lists its nodes is read too."""

    name: Annotated[str, Field(min_length=1)]
    labels: dict[str, str] = Field(default_factory=dict)
    cpus: Annotated[float, Field(gt=0)] = 1
    memory: Amount = 0
    shm: Amount = 0
    gpus: Annotated[int, Field(ge=0, le=MOST_GPUS)] = 0
    gpu_model: str = ""
    gpus_faked: bool = False
    online: bool = True
    unschedulable: bool = False
    id: str = ""
    free_cpus: float | None = None
    free_gpus: int | None = None
    free_memory: int | None = None
    free_shm: int | None = None
    holders: dict[str, int] = Field(default_factory=dict)
    used: dict[str, float] = Field(default_factory=dict)
    leases: list[Any] = Field(default_factory=list)


class InventoryFile(Written):
    """The file: `nodes`, and the name of where they come from, which is not read."""

    nodes: list[DescribedNode]
    source: str = ""


def read_inventory(text: str, file: str) -> Inventory:
    """Read nodes from YAML or JSON.

    Args:
        text: `nodes: [{name, labels, cpus, memory, shm, gpus, gpuModel, online, unschedulable}]`; only
            `name` is required, memory and shm may be `512Gi`. A node has rlark's own labels besides
            those that are given.
        file: its name, for findings.

    Raises:
        SpecError: it is not of that form; with findings.
    """
    document = parse(text)
    findings = list(document.findings)
    if isinstance(document.data, dict):
        try:
            described = InventoryFile.model_validate(document.data)
        except ValidationError as error:
            findings += [one.finding for one in explain(error, InventoryFile, document.data, INVENTORY)]
        else:
            findings += _doubles(described)
            if not findings:
                return Inventory(nodes=[_node(one) for one in described.nodes], source=file)
    placed = [_placed(finding, document, file) for finding in findings]
    count = "1 error" if len(placed) == 1 else f"{len(placed)} errors"
    hint = "write nodes: [{name: box, cpus: 8, gpus: 0}], as rlark nodes list -o json does"
    raise SpecError(f"the inventory {file} has {count}; nothing was checked", hint=hint, findings=placed)


def _doubles(described: InventoryFile) -> list[Finding]:
    names = [node.name for node in described.nodes]
    return [
        Finding(
            code=INVENTORY.value,
            path=f"nodes[{index}].name",
            message=f"two nodes are named {name!r}",
            hint="give each node a name of its own",
        )
        for index, name in enumerate(names)
        if name in names[:index]
    ]


def _node(described: DescribedNode) -> Node:
    own = described.model_dump(exclude={"used", "leases", "labels"})
    labels = default_labels(described.name, described.gpu_model if described.gpus else "") | described.labels
    return Node(labels=labels, **own)


def _placed(finding: Finding, document: Document, file: str) -> Finding:
    line, column = finding.line, finding.column
    if not line:
        line, column = document.positions.show(finding.path, key=finding.code in AT_KEY)
    hint = "start with nodes:" if finding.code in {"RL002", "RL003"} else finding.hint
    return finding.model_copy(update={"file": file, "line": line, "column": column, "hint": hint})
