"""The plan: all that was decided about a Job before anything starts (`plan.json`)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, JsonValue

from rlark.model import StoredModel


class RankPlacement(StoredModel):
    """Where one rank of a component goes.

    Attributes:
        rank: from 0 within the component.
        node: index of the node, 0 on a single node.
        gpus: logical GPUs it may see, ascending; empty on a CPU.
        local_rank: its number among the component's ranks on that node.
    """

    rank: int
    node: int = 0
    gpus: list[int] = Field(default_factory=list)
    local_rank: int = 0


class Signal(StoredModel):
    """The first sign of life to wait for.

    Attributes:
        pattern: a Python regular expression searched in each line of stdout and stderr.
        within: seconds from `Started`; None without a deadline.
        expected: True when the Job states it, so that `verified` counts it.
    """

    pattern: str
    within: float | None = None
    expected: bool = False


class Output(StoredModel):
    """A file that proves the work.

    Attributes:
        path: relative to `artifacts/`, or absolute; globs allowed.
        min_bytes: the least size.
    """

    path: str
    min_bytes: int = 1


class PlannedMount(StoredModel):
    """A folder that the Job sees at a path of its own; exactly one of its sources is given.

    Attributes:
        path: where the Job sees it, absolute and normalised.
        host: a folder of the node, absolute and normalised.
        volume: the name of a folder that rlark keeps under the state directory.
        scratch: True for a folder of the attempt's own, empty at its start.
        read_only: True when the Job must not write there.
    """

    path: str
    host: str = ""
    volume: str = ""
    scratch: bool = False
    read_only: bool = False


class SecretSource(StoredModel):
    """Which entry of the secret store a variable is read from."""

    name: str
    key: str


class Ask(StoredModel):
    """The capacity a Job asks of a node; memory and shm in bytes, 0 when not counted."""

    gpus: int = 0
    cpus: float = 1
    memory: int = 0
    shm: int = 0


class Plan(StoredModel):
    """All that was decided.

    Attributes:
        job: the Job's name.
        node: the chosen node's stable name.
        ask: what is leased there.
        engine: the engine's id; empty for a run script alone.
        command: argv of the engine's process; empty for a run script. `{python}` stands for the
            interpreter of the node.
        config: the effective configuration, composed; empty without one.
        config_base: absolute folder that relative paths in the configuration start from; empty when inline.
        placement: component -> its ranks.
        fused: True when all components run in one process.
        prepare: the prepare script; empty when absent or blank.
        run: the run script; empty when absent or blank.
        env: the Job's own environment variables.
        secrets: variable -> where its value is read from when the attempt starts; the value stands nowhere else.
        mounts: folders that the Job sees.
        head: which Ray head runs it: `platform` or `job`.
        sandbox: `bubblewrap` where mounts, or the processes of a head of its own, are fenced in; else `none`.
        signal: the first sign of life.
        outputs: expected files.
        evidence: True when SHA256SUMS and result.json must be there and hold (an engine's run).
        gate: True when a failed quality gate fails the Job.
        deadline_s: seconds an attempt may take; None without a limit.
        grace_s: seconds between SIGTERM and SIGKILL.
        backoff_limit: how many further attempts a failure may have; 0 for `Never`.
        tensorboard: where event files go; empty for the job folder's own.
    """

    job: str
    node: str
    ask: Ask = Field(default_factory=Ask)
    engine: str = ""
    command: list[str] = Field(default_factory=list)
    config: dict[str, JsonValue] = Field(default_factory=dict)
    config_base: str = ""
    placement: dict[str, list[RankPlacement]] = Field(default_factory=dict)
    fused: bool = False
    prepare: str = ""
    run: str = ""
    env: Mapping[str, str] = Field(default_factory=dict)
    secrets: Mapping[str, SecretSource] = Field(default_factory=dict)
    mounts: list[PlannedMount] = Field(default_factory=list)
    head: str = "platform"
    sandbox: str = "none"
    signal: Signal | None = None
    outputs: list[Output] = Field(default_factory=list)
    evidence: bool = False
    gate: bool = False
    deadline_s: float | None = None
    grace_s: float = 30
    backoff_limit: int = 0
    tensorboard: str = ""

    @property
    def own_pids(self) -> bool:
        """True when the run has process numbers of its own: what it writes down as a pid is not the worker's."""
        return self.head == "job" and self.sandbox == "bubblewrap"

    @property
    def expects(self) -> bool:
        """True when something must be proven before the Job counts as verified."""
        stated = self.signal is not None and self.signal.expected
        return bool(self.outputs) or self.evidence or self.gate or stated

    def world_size(self, component: str) -> int:
        """How many ranks a component has; 0 when it is not placed."""
        return len(self.placement.get(component, ()))

    @property
    def stages(self) -> int:
        """Parts in which placed environments and policy take turns; 1 when one process runs both."""
        section = self.config.get("rollout")
        value = section.get("pipeline_stage_num") if isinstance(section, Mapping) else None
        return value if isinstance(value, int) and value > 0 and not self.fused else 1

    @property
    def gpus_required(self) -> int:
        """The highest logical GPU that any rank uses, plus one."""
        return 1 + max((gpu for ranks in self.placement.values() for r in ranks for gpu in r.gpus), default=-1)
