"""What fences the Job in: mounts, and the processes of a Ray head of its own."""

from __future__ import annotations

from rlark.plan.rules.rule import Rule

RULES: tuple[Rule, ...] = ()
