"""`result.json`: what a run claims to have done."""

from __future__ import annotations

from pydantic import Field, JsonValue

from rlark.model import StoredModel


class Checkpoint(StoredModel):
    """The checkpoint that was exported.

    Attributes:
        checkpoint_id: its name, `iter-00040`.
        artifact_ref: `artifact://` reference of the product made from it.
        iteration: counted from 1.
        saved_checkpoints: how many were written.
        selected_iteration: the one that probing chose.
        selected_by_probe: True when probing chose, False when the last was taken.
    """

    checkpoint_id: str
    artifact_ref: str
    iteration: int
    saved_checkpoints: int | None = None
    selected_iteration: int | None = None
    selected_by_probe: bool | None = None


class Artifact(StoredModel):
    """The product."""

    artifact_id: str
    artifact_ref: str
    kind: str = "source"
    format: str = "onnx"
    runtime: str = "cpu-onnx"
    workload: str = "navigation"
    threads: int = 1
    size_bytes: int
    action_output: str = ""
    deployable: bool = False


class Source(StoredModel):
    """Which code made it; `known` is False where no repository is at hand, with the reason."""

    known: bool
    commit: str | None = None
    dirty: bool | None = None
    repository: str | None = None
    ref: str | None = None
    reason: str | None = None


class Result(StoredModel):
    """The whole claim; `rlark.evidence.verify` holds it against the files.

    Attributes:
        metrics: camelCase names; numbers, strings, booleans or null, never NaN.
        deployable: always False: nothing here has met a robot.
        cuda: True only if training ran on a GPU.
        cuda_requested: True if the configuration asked for one.
        config_digest: SHA-256 of the canonical effective configuration.
    """

    checkpoint: Checkpoint
    artifact: Artifact
    metrics: dict[str, JsonValue] = Field(default_factory=dict)
    deployable: bool = False
    source: Source
    dependencies: dict[str, str] = Field(default_factory=dict)
    dependency_lock_sha256: str = ""
    config_digest: str = ""
    seed: int | None = None
    cuda: bool = False
    cuda_requested: bool = False
    physics_backend: str | None = None
    task_evaluation: dict[str, JsonValue] | None = None
