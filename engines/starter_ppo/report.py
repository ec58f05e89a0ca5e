"""From checkpoints to products: choose, export, measure, judge, and write it all down."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engines.starter_ppo.config import Config
from engines.starter_ppo.exporting import Exported, export
from engines.starter_ppo.policies import policies_of
from engines.starter_ppo.selection import Candidate, select
from engines.tasks.evaluate import PolicyFunction, Row
from engines.tasks.task import ENVELOPES, Measured, task_of
from rlark.evidence.gate import GateVerdict, judge
from rlark.evidence.provenance import dependencies, digest, lock_sha256, source_of
from rlark.evidence.result import Artifact, Checkpoint, Result
from rlark.folder import write_json, write_text
from rlark.reference import slug
from rlark.runtime.component import Metrics, Run

ENGINE_ID = "starter-ppo"
EVAL_SEED_OFFSET = 1000
PACKAGES = ("numpy", "onnx", "onnxruntime", "rlark", "torch")
OF_SOME_TASKS = ("collisionRate", "collisionRateCiHigh", "fallRate", "survivalSteps")
"""Figures that not every kind of task has."""
Envelopes = dict[str, Measured]


@dataclass(frozen=True)
class Evaluation:
    """The same episodes, driven by three policies; each envelope by its name.

    Attributes:
        trained: the exported policy.
        baseline: the untrained network.
        controller: the one written by hand.
        gate: the verdict on the trained one.
        confidence: level of the intervals.
    """

    trained: Envelopes
    baseline: Envelopes
    controller: Envelopes
    gate: GateVerdict
    confidence: float

    def figures(self, envelopes: Envelopes) -> dict[str, dict[str, Any]]:
        """Envelope -> its figures."""
        return {name: measured.report(self.confidence) for name, measured in envelopes.items()}


def write_products(config: Config, run: Run) -> Result:
    """Choose, export and measure the policy; every product but SHA256SUMS goes to `artifacts/`.

    Returns:
        The claim for `result.json`.
    """
    return _Products(config, run).write()


class _Products:
    def __init__(self, config: Config, run: Run) -> None:
        self._config, self._run, self._pack = config, run, config.eval_task
        self._task, self._policies = task_of(self._pack), policies_of(config)
        self._action_output = f"{self._policies.output}: {self._task.actions}"
        self._artifacts = run.folder.artifacts
        self._source = source_of(Path(__file__).parent)

    def write(self) -> Result:
        config, policies = self._config, self._policies
        chosen, tried = select(policies, self._run, self._task, config.env.eval.probe_episodes, config.seed)
        sample = self._sample(chosen.policy)
        exported = export(chosen.policy, policies.load, chosen.checkpoint_id, self._artifacts, sample)
        evaluation = self._evaluate(exported.policy)
        self._write_telemetry(evaluation)
        report = self._report(evaluation, exported)
        write_json(self._artifacts / "eval-report.json", report)
        write_json(self._artifacts / "training-summary.json", self._summary(report, exported, chosen, tried))
        self._tell(evaluation, exported, chosen)
        return self._result(report, exported, chosen, len(tried), evaluation)

    def _sample(self, policy: PolicyFunction) -> np.ndarray:
        """Observations [S, O] that the policy meets, for the comparison with the exported file."""
        rows = self._task.measure(policy, "hard", 1, self._config.seed, record=True).telemetry
        return np.array([row.observation for row in rows[:32]], np.float32)

    def _evaluate(self, policy: PolicyFunction) -> Evaluation:
        trained, baseline = self._measure(policy), self._measure(self._policies.untrained())
        confidence = self._pack.evaluation_config.confidence_level
        figures = ({name: found.report(confidence) for name, found in each.items()} for each in (trained, baseline))
        gate = judge(self._pack.quality_gate, *figures)
        return Evaluation(trained, baseline, self._measure(self._task.controller()), gate, confidence)

    def _measure(self, policy: PolicyFunction) -> Envelopes:
        episodes, seed = self._pack.evaluation_config.episodes_per_envelope, self._config.seed + EVAL_SEED_OFFSET
        return {name: self._task.measure(policy, name, episodes, seed, record=True) for name in ENVELOPES}

    def _write_telemetry(self, evaluation: Evaluation) -> None:
        _write_rows(self._artifacts / "telemetry.jsonl", evaluation.trained["hard"].telemetry)
        _write_rows(self._artifacts / "baseline-telemetry.jsonl", evaluation.baseline["nominal"].telemetry)

    def _report(self, evaluation: Evaluation, exported: Exported) -> dict[str, Any]:
        return {
            "schemaVersion": 1,
            "taskId": self._pack.id,
            "adapterId": self._pack.adapter_id,
            "observationAdapterId": self._pack.observation_adapter_id,
            "trained": evaluation.figures(evaluation.trained),
            "baseline": evaluation.figures(evaluation.baseline),
            self._task.by_hand: evaluation.figures(evaluation.controller),
            "qualityGate": evaluation.gate.to_json(),
            "confidenceLevel": evaluation.confidence,
            "controlLatencyMs": exported.latency_ms,
            "measurementStage": exported.stage,
            "sourceCommit": self._source.commit,
            "seed": self._config.seed,
            "evalSeed": self._config.seed + EVAL_SEED_OFFSET,
        }

    def _summary(
        self, report: Mapping[str, Any], exported: Exported, chosen: Candidate, tried: list[Candidate]
    ) -> dict[str, Any]:
        config, run, pack = self._config, self._run, self._config.task
        return {
            "engine": ENGINE_ID,
            "task": pack.id,
            "taskKind": pack.kind,
            "profile": config.product.profile,
            "algorithm": config.algorithm.type,
            "iterations": len(run.history),
            "numEnvs": config.env.train.total_num_envs,
            "rolloutSteps": config.env.train.rollout_steps,
            "envSteps": run.env_steps,
            "seed": config.seed,
            "hyperparams": {
                **config.algorithm.model_dump(mode="json"),
                "actor": config.actor.model_dump(mode="json"),
                "hidden_dims": list(config.hidden_dims),
                "batch": config.minibatch,
            },
            "curriculum": self._curriculum(),
            "controlHz": self._task.control_hz,
            "actionOutput": self._action_output,
            "rewardCurve": _curve(run.history, "meanReward"),
            "successCurve": _curve(run.history, "recentSuccess"),
            **({"alphaCurve": _curve(run.history, "alpha")} if "alpha" in run.history[-1] else {}),
            "checkpoints": [
                {
                    "checkpointId": found.checkpoint_id,
                    "iteration": found.iteration,
                    "probeEpisodes": found.episodes,
                    "probeNominalSuccesses": found.nominal,
                    "probeHardSuccesses": found.hard,
                    f"probe{self._task.harm}": found.harm,
                    "selected": found.iteration == chosen.iteration,
                }
                for found in tried
            ],
            "device": run.device.device,
            "deviceName": run.device.name,
            "cudaRequested": run.device.cuda_requested,
            "deviceReason": run.device.reason,
            "numerics": {"tf32": run.device.tf32, "deterministic": run.device.deterministic},
            "fused": run.fused,
            "eval": report["trained"],
            "baseline": report["baseline"],
            self._task.by_hand: report[self._task.by_hand],
            **exported.facts(),
            "sourceCommit": self._source.commit,
            "trainingSeconds": round(run.training_seconds, 3),
            "stepsPerSecond": round(run.env_steps / run.training_seconds) if run.training_seconds else None,
            "evaluationConfig": self._pack.evaluation_config.to_json(),
        }

    def _curriculum(self) -> dict[str, Any] | None:
        """Where the task of the training starts and ends, and how far it came; None where it does not grow."""
        planned, last = task_of(self._config.task).curriculum(), self._run.history[-1]
        return planned and {**planned, "reached": [last.get("goalRangeLow"), last.get("goalRangeHigh")]}

    def _tell(self, evaluation: Evaluation, exported: Exported, chosen: Candidate) -> None:
        episodes = len(evaluation.trained["nominal"].success)
        _say(f"exported {exported.file} from {chosen.checkpoint_id}; {episodes} episodes for each envelope:")
        rows = (
            ("trained policy", evaluation.trained),
            (self._task.by_hand.replace("Controller", " controller"), evaluation.controller),
            ("untrained baseline", evaluation.baseline),
        )
        for who, envelopes in rows:
            parts = [f"{name} {_told(measured, evaluation.confidence)}" for name, measured in envelopes.items()]
            _say(f"  {who + ':':20} {'; '.join(parts)}")
        gate = evaluation.gate
        _say("quality gate: passed" if gate.passed else f"quality gate: failed: {'; '.join(gate.errors)}")

    def _result(
        self, report: Mapping[str, Any], exported: Exported, chosen: Candidate, tried: int, evaluation: Evaluation
    ) -> Result:
        config, run = self._config, self._run
        versions = dependencies(PACKAGES)
        values = config.model_dump(mode="json")
        policy, checkpoints = self._references(digest(values))
        return Result(
            checkpoint=Checkpoint(
                checkpoint_id=chosen.checkpoint_id,
                artifact_ref=f"{checkpoints}/{chosen.checkpoint_id}.npz",
                iteration=chosen.iteration,
                saved_checkpoints=run.saved_checkpoints,
                selected_iteration=chosen.iteration,
                selected_by_probe=tried > 1,
            ),
            artifact=Artifact(
                artifact_id=f"{self._pack.id}-policy",
                artifact_ref=f"{policy}/{exported.file}",
                format="onnx" if exported.onnx else "unknown",
                size_bytes=(self._artifacts / exported.file).stat().st_size,
                workload=self._task.workload,
                action_output=self._action_output,
            ),
            metrics=self._metrics(report, exported, evaluation),
            source=self._source,
            dependencies=versions,
            dependency_lock_sha256=lock_sha256(versions),
            config_digest=digest(values),
            seed=config.seed,
            cuda=run.device.device == "cuda",
            cuda_requested=run.device.cuda_requested,
            task_evaluation=dict(report),
        )

    def _references(self, digest: str) -> tuple[str, str]:
        """Where the policy and its checkpoints are found; runs that share a version share no checkpoints."""
        product, run = self._config.product, slug(self._run.folder.name, 119)
        policy = f"artifact://starter/{product.model or run}/{product.version or digest[:12]}"
        return policy, f"{policy}/{run}/checkpoints" if product.model or product.version else f"{policy}/checkpoints"

    def _metrics(self, report: Mapping[str, Any], exported: Exported, evaluation: Evaluation) -> dict[str, Any]:
        run, pack = self._run, self._pack
        nominal, hard = report["trained"]["nominal"], report["trained"]["hard"]
        first, last = run.history[0], run.history[-1]
        return {
            "contractValid": True,
            "engine": ENGINE_ID,
            "algorithm": self._config.algorithm.type,
            "taskId": pack.id,
            "taskKind": pack.kind,
            "observationSize": pack.observation_size,
            "actionSize": pack.action_size,
            "reward": _finite(last.get("meanReward")),
            "initialReward": _finite(first.get("meanReward")),
            **{name: nominal[name] for name in ("successRate", "successRateCiLow", "successRateCiHigh")},
            "evalEpisodes": nominal["episodes"],
            **{name: nominal[name] for name in OF_SOME_TASKS if name in nominal},
            "hardSuccessRate": hard["successRate"],
            "hardSuccessRateCiLow": hard["successRateCiLow"],
            "baselineSuccessRate": report["baseline"]["nominal"]["successRate"],
            f"{self._task.by_hand}SuccessRate": report[self._task.by_hand]["nominal"]["successRate"],
            f"{self._task.by_hand}HardSuccessRate": report[self._task.by_hand]["hard"]["successRate"],
            "qualityGatePassed": evaluation.gate.passed,
            "controlLatencyMs": exported.latency_ms,
            "measurementStage": exported.stage,
            "sourceCommit": self._source.commit,
            "iterations": len(run.history),
            "onnxExported": exported.onnx,
            "onnxGate": "skipped" if exported.gate is None else exported.gate.verdict,
            "parityMaxAbsError": exported.parity.parity_max_abs_error,
            "parityRoundingMaxAbsError": exported.parity.rounding_max_abs_error,
            "telemetrySamples": len(evaluation.trained["hard"].telemetry),
        }


def _curve(history: Iterable[Metrics], name: str) -> list[float | None]:
    return [_finite(metrics.get(name)) for metrics in history]


def _finite(value: float | None) -> float | None:
    return round(float(value), 6) if value is not None and math.isfinite(value) else None


def _write_rows(path: Path, rows: list[Row]) -> None:
    lines = (json.dumps(row._asdict(), allow_nan=False, separators=(",", ":")) for row in rows)
    write_text(path, "".join(f"{line}\n" for line in lines))


def _told(measured: Measured, confidence: float) -> str:
    figures = measured.report(confidence)
    low, high = figures["successRateCiLow"], figures["successRateCiHigh"]
    told = f"success {figures['successRate']:.3f} [{low:.3f}, {high:.3f}], "
    if "survivalSteps" in figures:
        return told + f"upright for {figures['survivalSteps']:.1f} steps"
    return told + f"collisions {figures['collisionRate']:.3f} (at most {figures['collisionRateCiHigh']:.3f})"


def _say(text: str) -> None:
    print(f"[{ENGINE_ID}] {text}", flush=True)  # noqa: T201  the run's own log
