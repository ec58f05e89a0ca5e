"""Prepare and run script: bash can read them, and they do not rest on a folder by chance."""

from __future__ import annotations

from rlark.plan.rules.rule import Rule

RULES: tuple[Rule, ...] = ()
