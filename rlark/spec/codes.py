"""Every finding's code and what it means; docs/findings.md is made from this table."""

from __future__ import annotations

CODES: dict[str, str] = {
    # 001-019: the text
    # 020-099: the shape of the Job
    "RL021": "replicas is 1 on a single node",
    # 100-149: placement expressions
    # 150-199: the RLinf configuration and the engine
    # 200-249: nodes and capacity
    # 250-299: image
    # 300-349: scripts
    # 350-399: secrets
    # 400-449: outputs and mounts
}
