"""No secret stands in the Job, and those it refers to are there."""

from __future__ import annotations

from rlark.plan.rules.rule import Rule

RULES: tuple[Rule, ...] = ()
