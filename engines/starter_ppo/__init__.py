"""PPO and SAC in torch, for goal navigation and for a chain of pendulums: the engine that runs anywhere."""

from __future__ import annotations

from rlark.engine import OWN, Engine, Requirement
from rlark.spec.pendulum_pack import PENDULUM_CHAIN
from rlark.spec.task_pack import GOAL_NAVIGATION

ENGINE = Engine(
    id="starter-ppo",
    title="PPO and SAC in torch for goal navigation and a chain of pendulums, on a CPU or a GPU",
    module="engines.starter_ppo",
    program="engines.starter_ppo.components:PROGRAM",
    config="engines.starter_ppo.config:Config",
    requirements=(
        Requirement("package", "torch", "python -m pip install 'rlark[torch]'"),
        Requirement("package", "numpy", "python -m pip install numpy"),
    ),
    tasks=(GOAL_NAVIGATION, PENDULUM_CHAIN),
    fused_only=("sac",),
    quantities=OWN["starter-ppo"],
)
"""The declaration behind the entry point `starter-ppo`."""
