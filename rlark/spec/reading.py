"""What RLark's Kubernetes form of a Job says, in the words of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlark.spec.finding import Finding
from rlark.spec.path import within

TASK = "spec.tasks[0]"
RAY = f"{TASK}.ray"
SECTION = f"{TASK}.kubernetes"
WORKLOAD = f"{SECTION}.workload"
POD = f"{WORKLOAD}.template.spec"


@dataclass
class Reading:
    """What a section says.

    Attributes:
        ray: the values of `ray`, as they would be written there.
        places: place under `ray` -> where the section says it.
        findings: what is wrong with the section, and what of it has no meaning here.
        spoiled: places, of the section and under `ray`, that are missing or were left out.
    """

    ray: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)

    def refuse(self, code: str, path: str, message: str, hint: str, *, spoils: str) -> None:
        """Note an error.

        Args:
            code: its code.
            path: where it is written.
            message: what is wrong, and why.
            hint: how to mend it.
            spoils: what is missing under `ray` because of it, or the entry that says it.
        """
        self.findings.append(Finding(code=code, path=path, message=message, hint=hint))
        self.spoiled.append(spoils)

    def lost(self, place: str) -> bool:
        """True when a place, or something above or below it, is missing or was left out."""
        return any(within(place, bad) or within(bad, place) for bad in self.spoiled)

    def may_hold_more(self, entries: Sequence[object], place: str) -> bool:
        """True when one of the entries that stand at a place, or all of them, could not be read."""
        return None in entries or (not entries and self.lost(place))

    def written(self, path: str) -> str:
        """Where a value is written that rules see under `ray`; other places are as they are."""
        place = max((known for known in self.places if within(path, known)), key=len, default=None)
        return path if place is None else self.places[place] + path[len(place) :]
