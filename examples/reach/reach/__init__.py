"""A point learns to reach a goal: a complete engine."""

from rlark.engine import Engine

ENGINE = Engine(
    id="reach", title="A point reaches a goal", module="reach", program="reach.program:PROGRAM",
    config="reach.config:Config", uses_gpu=False,
)  # fmt: skip
