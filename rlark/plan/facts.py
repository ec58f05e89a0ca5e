"""What was looked up for a decision, so that deciding itself looks at nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlark.engine import Engine, Requirement
from rlark.plan.override import ScriptOverride
from rlark.spec.finding import Finding


@dataclass(frozen=True)
class Facts:
    """What was looked up about a Job and its node.

    Attributes:
        engines: every engine there is, by id.
        unmet: engine id -> what it lacks on the node; an engine that was not looked at is absent.
        missing_mounts: mount sources that do not exist on the node.
        missing_models: paths of a run script's models, as the run sees them, that are not on the node.
        free_disk: bytes free where jobs are kept; None when nobody looked.
        no_bubblewrap: why bubblewrap does not work on the node; empty where it does, None when nobody looked.
        script_errors: `prepareScript` or `runScript` -> line (from 1) and bash's words, where bash cannot read it.
        missing_secrets: `(name, key)` of entries that are not in the server's secret store; None when nobody looked.
        home: the state directory, absolute; empty when nobody looked.
        programs: folders of the node without which nothing of rlark runs there, absolute.
        config_findings: what the engine's own model says about the configuration.
        config_settled: the configuration with the engine's defaults filled in; None where its model
            does not take it, or there is no engine.
        config_path: the place in the Job that the configuration's keys hang on.
        config_base: absolute folder that relative paths in the configuration start from.
        config_run: the configuration as the run script's overrides change it; None where they change nothing.
        script_overrides: those overrides; others on the script's command lines concern some other configuration.
    """

    engines: Mapping[str, Engine] = field(default_factory=dict)
    unmet: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    missing_mounts: frozenset[str] = frozenset()
    missing_models: frozenset[str] = frozenset()
    free_disk: int | None = None
    no_bubblewrap: str | None = None
    script_errors: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    missing_secrets: frozenset[tuple[str, str]] | None = None
    home: str = ""
    programs: tuple[str, ...] = ()
    config_findings: tuple[Finding, ...] = ()
    config_settled: Mapping[str, Any] | None = None
    config_path: str = "spec.tasks[0].ray.config.inline"
    config_base: str = ""
    config_run: Mapping[str, Any] | None = None
    script_overrides: tuple[ScriptOverride, ...] = ()
