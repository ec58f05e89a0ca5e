from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rlark.spec.task_pack import TaskPack

MakePack = Callable[..., TaskPack]
NOMINAL = [1, 0.1, 0.01, 0.005, 0, 1, 0, 1]
HARD = [0.8, 0.25, 0.02, 0.05, 0.05, 2, 0.05, 0.8]
FIXED = {
    "motorGain": [1, 1],
    "lagTauSeconds": [0.1, 0.1],
    "gyroNoiseStdRadSec": [0.01, 0.01],
    "odomNoiseStdM": [0.005, 0.005],
    "angularBiasRadSec": [0, 0],
    "actionLatencySteps": [1, 1],
    "odomDropoutProb": [0, 0],
    "slipScale": [1, 1],
}
RANDOM = {
    "motorGain": [0.8, 1.2],
    "lagTauSeconds": [0.05, 0.25],
    "gyroNoiseStdRadSec": [0, 0.05],
    "odomNoiseStdM": [0, 0.02],
    "angularBiasRadSec": [-0.05, 0.05],
    "actionLatencySteps": [0, 2],
    "odomDropoutProb": [0, 0.05],
    "slipScale": [0.8, 1],
}

REWARD = {"progress": 1.0, "collision": -5.0, "goal": 10.0, "actionPenalty": -0.01}


def build(
    *,
    layout: str = "originbot-imu-odom-v1",
    obstacles: int = 3,
    ranges: dict[str, Any] = RANDOM,
    timeout: int = 200,
    frames: int = 1,
    episodes: int = 50,
    **other: Any,
) -> TaskPack:
    return TaskPack.model_validate(
        {
            "id": "navigation-for-tests",
            "adapterId": "rdk-originbot",
            "observationAdapterId": layout,
            "actionAdapterId": "diff-drive-velocity-v1",
            "observationHistory": {"frames": frames},
            **({} if "rewardFormula" in other else {"reward": REWARD}),
            "termination": {"goalDistance": 0.15, "timeoutSteps": timeout},
            "workspace": {"bound": 2.0, "obstacles": {"count": obstacles, "radius": 0.15}},
            "curriculum": {"initialGoalDistance": [0.8, 1.2], "finalGoalDistance": [1.4, 1.6]},
            "domainRandomization": {**ranges, "evalEnvelopes": {"nominal": NOMINAL, "hard": HARD}},
            "evaluationConfig": {"episodesPerEnvelope": episodes},
            "qualityGate": {
                "minSuccessRate": 0.7,
                "maxCollisionRate": 0.15,
                "ablation": {"requireBaseline": True, "minSuccessRateDelta": 0.3},
            },
            **other,
        }
    )


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as a rank does; two threads that fight for a core are many times slower


@pytest.fixture(scope="session")
def make_pack() -> MakePack:
    """A task pack with what a test cares about."""
    return build


@pytest.fixture
def pack() -> TaskPack:
    """The OriginBot task, randomised, with obstacles."""
    return build()


@pytest.fixture
def calm() -> TaskPack:
    """Nominal dynamics in every episode, no obstacles."""
    return build(obstacles=0, ranges=FIXED)
