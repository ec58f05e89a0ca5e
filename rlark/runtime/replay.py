"""A few iterations once more, from a checkpoint, held against what the run told when it made them.

A run that can be repeated gives the same numbers to the last bit, and the same checkpoint. The
processor time and clock readings in its metrics differ, of course: only what training gave is compared.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlark.evidence.result import Artifact, Checkpoint, Result, Source
from rlark.folder import JobFolder, read_lines, write_json
from rlark.runtime import checkpoint, plain
from rlark.runtime.component import DeviceUse
from rlark.runtime.report import finite
from rlark.runtime.trainer import Trainer

UPDATES = "RLARK_REPLAY_UPDATES"
"""The variable by which a Job asks for a replay: how many iterations."""
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
        wanted = environ.get(UPDATES)
        if wanted is None:
            return None
        if not wanted.isdecimal() or int(wanted) < 1 or not resume_dir:
            raise ValueError(f"{UPDATES} is {wanted!r}; it is a number of iterations from 1, after runner.resume_dir")
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
        for number in range(first, last + 1):
            self._compare(number, {name: finite(value) for name, value in trainer.iterate().items()}, told[number])
        saved = self.source.parent / f"global_step_{last}"
        compared = saved.is_dir()
        if compared:
            self._compare_actors(saved, trainer)
        return {"equal": True, "from": first, "to": last, "checkpointCompared": compared}

    def _told(self) -> dict[int, dict[str, object]]:
        folder = JobFolder(self.source.parent.parent)
        rows = [(row.get("iteration"), row) for row, _ in read_lines(folder.metrics)]
        return {number: row for number, row in rows if isinstance(number, int)}

    def _compare(self, number: int, found: Mapping[str, object], told: Mapping[str, object]) -> None:
        for name, value in found.items():
            if name not in told or told[name] != value:
                raise Differs(f"iteration {number}: {name} was {told.get(name)} and is {value}")

    def _compare_actors(self, saved: Path, trainer: Trainer) -> None:
        marks = [
            hashlib.sha256(plain.dumps(state)).hexdigest()
            for state in (checkpoint.load_actor(saved), trainer.state()["actor"][0])
        ]
        if marks[0] != marks[1]:
            raise Differs(f"the Actor's state differs from that in {saved.name}, and no number told of it")


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
