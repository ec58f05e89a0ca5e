"""A few iterations once more, from a checkpoint, held against what the run told when it made them.

A run that can be repeated gives the same numbers to the last bit, and the same checkpoints: weights,
optimiser, random streams and environments. Clock readings differ, of course, and so do the bytes that
writing a checkpoint moved to a device and off it: only what training gave is compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlark.evidence.result import Artifact, Checkpoint, Result, Source
from rlark.folder import JobFolder, read_lines, write_json
from rlark.runtime import checkpoint, plain
from rlark.runtime.component import DeviceUse
from rlark.runtime.offload import MOVED
from rlark.runtime.report import finite
from rlark.runtime.trainer import Trainer
from rlark.spec.checkpoint import REPLAY_UPDATES, checkpoint_name

REPORT = "replay.json"


class Differs(Exception):
    """The replay gave something else than the run told."""


@dataclass(frozen=True)
class Replay:
    """What is replayed.

    Attributes:
        source: the checkpoint's folder; beside its own stands what the run told and saved later.
        updates: how many iterations.
    """

    source: Path
    updates: int

    @classmethod
    def asked(cls, resume_dir: str, environ: Mapping[str, str] = os.environ) -> Replay | None:
        """The replay that the environment asks for; None where it asks for none.

        Raises:
            ValueError: not for a whole number of iterations, or there is no checkpoint to begin at.
        """
        wanted = environ.get(REPLAY_UPDATES)
        if wanted is None:
            return None
        if not wanted.isdecimal() or int(wanted) < 1 or not resume_dir:
            raise ValueError(
                f"{REPLAY_UPDATES} is {wanted!r}; it is a number of iterations from 1, after runner.resume_dir"
            )
        return cls(Path(resume_dir), int(wanted))

    def run(self, trainer: Trainer) -> dict[str, object]:
        """Restore, iterate and compare.

        Returns:
            What was compared, for `replay.json`.

        Raises:
            Differs: says at which iteration which number was which.
            ValueError: the checkpoint is none, or the run did not tell so many iterations after it.
        """
        state, progress = checkpoint.load(self.source)
        first = int(progress["iteration"]) + 1
        told = self._told()
        last = first + self.updates - 1
        missing = [number for number in range(first, last + 1) if number not in told]
        if missing:
            raise ValueError(f"the run told nothing of iteration {missing[0]}: replay fewer, or from an earlier one")
        trainer.restore(state)
        compared = []
        for number in range(first, last + 1):
            _compare(number, {name: finite(value) for name, value in trainer.iterate().items()}, told[number])
            saved = self.source.parent / checkpoint_name(number)
            if saved.is_dir():
                _compare_states(saved, trainer)
                compared.append(number)
        return {"equal": True, "from": first, "to": last, "checkpointsCompared": compared}

    def _told(self) -> dict[int, dict[str, object]]:
        folder = JobFolder(self.source.parent.parent)
        rows = [(row.get("iteration"), row) for row, _ in read_lines(folder.metrics)]
        return {number: row for number, row in rows if isinstance(number, int)}


def _compare(number: int, found: Mapping[str, object], told: Mapping[str, object]) -> None:
    for name, value in found.items():
        if name.endswith(MOVED):
            continue
        if name not in told:
            raise Differs(f"iteration {number}: {name} is {value}, and the run did not tell it")
        if told[name] != value:
            raise Differs(f"iteration {number}: {name} was {told[name]} and is {value}")


def _compare_states(saved: Path, trainer: Trainer) -> None:
    before, _ = checkpoint.load(saved)
    place = difference(before, plain.loads(plain.dumps(trainer.state())))
    if place:
        raise Differs(f"{saved.name}: {place} differs, and no number of the iterations before told of it")


def difference(one: Any, other: Any, place: str = "") -> str:
    """Where two states differ first, as `actor[0].adam.first`; empty where they are the same to the last bit."""
    if type(one) is not type(other):
        return place or "everything"
    if isinstance(one, dict):
        if list(one) != list(other):
            return place or "everything"
        pairs = [(one[key], other[key], f"{place}.{key}".lstrip(".")) for key in one]
    elif isinstance(one, list | tuple):
        if len(one) != len(other):
            return place or "everything"
        pairs = [(left, right, f"{place}[{index}]") for index, (left, right) in enumerate(zip(one, other, strict=True))]
    else:
        return "" if plain.dumps(one) == plain.dumps(other) else place or "everything"
    return next((found for pair in pairs if (found := difference(*pair))), "")


def result(folder: JobFolder, engine: str, replay: Replay, found: dict[str, object], device: DeviceUse) -> Result:
    """What a replay claims: its report, as the one product."""
    path = folder.artifacts / REPORT
    write_json(path, found)
    reference = f"artifact://{engine}/replay/{REPORT}"
    begun = int(str(found["from"])) - 1
    return Result(
        checkpoint=Checkpoint(checkpoint_id=replay.source.name, artifact_ref=reference, iteration=begun),
        artifact=Artifact(
            artifact_id="replay",
            artifact_ref=reference,
            kind="report",
            format="json",
            runtime="",
            size_bytes=path.stat().st_size,
        ),
        metrics={name: value for name, value in found.items() if isinstance(value, bool | int)},
        source=Source(known=False, reason="a replay makes no policy"),
        cuda=device.device == "cuda",
        cuda_requested=device.cuda_requested,
    )
