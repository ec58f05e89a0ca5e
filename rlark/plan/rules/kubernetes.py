"""RLark's Kubernetes form: what it says, and what of it has no meaning on one machine."""

from __future__ import annotations

from rlark.plan.rules.rule import Rule

RULES: tuple[Rule, ...] = ()
