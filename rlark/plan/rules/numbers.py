"""The values of a configuration by their dotted names, and findings about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlark.plan.placement import Placement
from rlark.spec.finding import Finding, Severity
from rlark.spec.path import join

EMBODIED = ("embodied", "embodied_eval")
"""Task types of robots in simulators; a configuration that names none is taken as one."""


@dataclass(frozen=True)
class Numbers:
    """The values of a configuration, by dotted name.

    Attributes:
        config: the configuration, with the engine's defaults where they are known.
        written: the configuration without them.
        placement: gives the world sizes; None where unknown.
        path: where the configuration stands in the Job.
        ours: True when an engine of ours runs it, False when RLinf does.
    """

    config: Mapping[str, object]
    written: Mapping[str, object]
    placement: Placement | None
    path: str
    ours: bool

    def value(self, name: str) -> object:
        """The value of that name; None where it is absent."""
        return _value(self.config, name)

    def whole(self, name: str) -> int | None:
        """The number of that name; None where it is absent or no integer."""
        value = self.value(name)
        return value if type(value) is int else None

    def positive(self, name: str, default: int = 1) -> int:
        """The number of that name where it is a positive integer."""
        value = self.whole(name)
        return value if value is not None and value > 0 else default

    def has(self, name: str) -> bool:
        """True where there is a section or a value of that name."""
        return self.value(name) is not None

    def world(self, component: str) -> int:
        """Ranks of a component; 0 where unknown."""
        return self.placement.world_size(component) if self.placement is not None else 0

    @property
    def task_type(self) -> object:
        """What RLinf is to do: `embodied`, `reasoning`, `sft`, ...; None where nothing is said."""
        return self.value("runner.task_type")

    @property
    def embodied(self) -> bool:
        """True for robots in simulators."""
        return self.task_type in (None, *EMBODIED)

    @property
    def collects(self) -> bool:
        """True where RLinf only collects data of robots: nothing learns or acts, and it asserts nothing."""
        return self.task_type == "embodied" and not (self.has("actor") or self.has("rollout"))

    @property
    def only_eval(self) -> bool:
        """True when nothing is trained."""
        return self.task_type == "embodied_eval" or self.value("runner.only_eval") is True

    @property
    def evaluates(self) -> bool:
        """True when environments for evaluation are needed."""
        return self.only_eval or self.positive("runner.val_check_interval", 0) > 0

    @property
    def model(self) -> str:
        """The section of the policy's model: an evaluation has none of an Actor's."""
        return "rollout.model" if self.only_eval and self.has("rollout.model.model_type") else "actor.model"

    def finding(
        self,
        code: str,
        name: str,
        message: str,
        hint: str,
        expected: str,
        *others: str,
        severity: Severity = "error",
    ) -> Finding:
        """A finding about a value; it says which of this value and the others nobody wrote.

        Args:
            code: of the finding.
            name: the value that it is about.
            message: what is wrong.
            hint: what would be right.
            expected: that, short.
            others: further numbers that the message rests on; 1 changes nothing and is not told.
            severity: an error where the run would stop, a warning where it would only waste.
        """
        names = [name, *(other for other in others if self.positive(other) > 1)]
        defaults = [f"{each} {self.value(each)}" for each in names if self.has(each) and not self._is_written(each)]
        if defaults:
            message += f"; {' and '.join(defaults)} {_are_defaults(len(defaults))}"
        value = self.value(name)
        return Finding(
            code=code,
            severity=severity,
            path=join(self.path, name.split(".")),
            message=message,
            hint=hint,
            expected=expected,
            actual=None if value is None or isinstance(value, Mapping | list) else shown(value),
        )

    def _is_written(self, name: str) -> bool:
        return _value(self.written, name) is not None


def shown(value: object) -> str:
    """A single value as YAML would write it, short."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)[:60]


def _value(config: Mapping[str, object], name: str) -> object:
    found: object = config
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _are_defaults(count: int) -> str:
    return "is the engine's default" if count == 1 else "are the engine's defaults"
