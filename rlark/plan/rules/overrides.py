"""What a run script changes on its command lines, where no configuration stands beside it to be changed.

Where the Job has a configuration, the overrides are applied to a copy of it and that is checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlark.plan.override import SCRIPT, ScriptOverride, overrides_of, said_by
from rlark.plan.placement import KEY, resolve
from rlark.plan.rules.rlinf import check_num_nodes
from rlark.plan.rules.rule import RAY, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.yaml import plain


def _cluster(case: Case) -> Iterator[Finding]:
    """Overrides of the cluster section that are not those of the Job's own configuration."""
    applied = case.facts.script_overrides
    for override in overrides_of(case.worker.run):
        if not override.of_cluster or override in applied or len(override.keys) < 2:
            continue
        for finding in _about(case, override):
            yield said_by(finding, override)


def _about(case: Case, override: ScriptOverride) -> Iterator[Finding]:
    value = plain(override.value)
    if override.keys[1:] == ("num_nodes",):
        yield from check_num_nodes({"num_nodes": value}, "cluster")
    elif override.keys[1] == KEY and len(override.keys) == 3 and not override.value.startswith(("{", "[")):
        gpus, written = case.worker.ray.resources.gpu, case.gpus_as_written
        section = {KEY: {override.keys[2]: value}}
        yield from resolve(section, case.node, requested=gpus, as_written=written)[1]


RULES = (Rule(_cluster, (SCRIPT, f"{RAY}.config")),)
"""The rule, and what it reads."""
