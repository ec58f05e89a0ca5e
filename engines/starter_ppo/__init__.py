"""PPO in torch for differential-drive goal navigation: the engine that runs anywhere."""

from __future__ import annotations

from rlark.engine import OWN, Engine, Requirement
from rlark.spec.task_pack import GOAL_NAVIGATION

ENGINE = Engine(
    id="starter-ppo",
    title="PPO in torch for goal navigation with a differential drive, on a CPU or a GPU",
    module="engines.starter_ppo",
    program="engines.starter_ppo.components:PROGRAM",
    config="engines.starter_ppo.config:Config",
    requirements=(
        Requirement("package", "torch", "python -m pip install 'rlark[torch]'"),
        Requirement("package", "numpy", "python -m pip install numpy"),
    ),
    tasks=(GOAL_NAVIGATION,),
    max_ranks={"actor": 1},
    quantities=OWN["starter-ppo"],
)
"""The declaration behind the entry point `starter-ppo`."""
