"""An engine for the tests: a point on a line learns to walk to its goal, in numpy alone.

Its folder on PYTHONPATH is enough for rlark to find it: the entry point stands beside it.
"""

from __future__ import annotations

from rlark.engine import Engine

ENGINE = Engine(
    id="toy",
    title="A point walks to its goal (for tests)",
    module="toy_engine",
    program="toy_engine.program:PROGRAM",
    config="toy_engine.config:ToyConfig",
    tasks=("point-walk",),
    uses_gpu=False,
)
