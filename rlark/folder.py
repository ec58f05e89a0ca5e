"""The job folder: every path in it, and how its files are written.

One writer for each file, everyone else reads:

    controller  job.yaml  plan.json  lease.json  request.json  events.jsonl
    worker      worker.jsonl  env.json  scripts/  head/  scratch/  logs/attempt-N/{stdout,stderr}.log
    the run     metrics.jsonl  ranks.json  failure.json  checkpoints/  artifacts/  tensorboard/
                logs/attempt-N/<component>-<rank>.log  and result.json last

Whole files are written beside their name, synced and renamed; lines are appended in one write.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """The state directory: everything one platform knows, readable by its owner only.

    Attributes:
        root: absolute; `--home`, else `RLARK_HOME`, else `$XDG_STATE_HOME/rlark`, else `~/.local/state/rlark`.
    """

    root: Path

    @classmethod
    def find(cls, given: str | Path | None = None) -> Home:
        """The state directory that this user means."""
        chosen = given or os.environ.get("RLARK_HOME")
        if chosen:
            return cls(Path(chosen).expanduser().absolute())
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return cls(Path(state).absolute() / "rlark")

    @property
    def token(self) -> Path:
        """The API's bearer token, mode 0600."""
        return self.root / "token"

    @property
    def ray_token(self) -> Path:
        """The token of our own Ray head, mode 0600."""
        return self.root / "ray-token"

    @property
    def platform(self) -> Path:
        """What is running: addresses, the head, the supervisor's process (`platform.json`)."""
        return self.root / "platform.json"

    @property
    def ledger(self) -> Path:
        """The truth about Jobs."""
        return self.root / "ledger.sqlite"

    @property
    def head(self) -> Path:
        """Logs and process lists of the head's supervisor."""
        return self.root / "head"

    @property
    def jobs(self) -> Path:
        """One folder a Job."""
        return self.root / "jobs"

    @property
    def volumes(self) -> Path:
        """Named folders that Jobs mount."""
        return self.root / "volumes"

    @property
    def secrets(self) -> Path:
        """The secret store: one file of mode 0600 for each secret."""
        return self.root / "secrets"

    @property
    def tensorboards(self) -> Path:
        """Logs of the TensorBoards that the controller starts."""
        return self.root / "tensorboards"

    @property
    def links(self) -> Path:
        """An empty file for each sign-in link that was used, until it has expired."""
        return self.root / "links"

    def job(self, name: str) -> JobFolder:
        """The folder of one Job."""
        return JobFolder(self.jobs / name)

    def create(self) -> None:
        """Make the directory, readable by its owner only."""
        for path in (self.root, self.head, self.jobs):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)


@dataclass(frozen=True)
class JobFolder:
    """The folder that outlives a Job's processes.

    Attributes:
        root: its absolute path, `<home>/jobs/<name>`.
        flat: True where the products lie in the folder itself, as in a run that no Job stands behind.
    """

    root: Path
    flat: bool = False

    @property
    def name(self) -> str:
        """The Job's name."""
        return self.root.name

    @property
    def job(self) -> Path:
        """The canonical YAML, as stored, run and submitted again."""
        return self.root / "job.yaml"

    @property
    def plan(self) -> Path:
        """All that was decided before the start."""
        return self.root / "plan.json"

    @property
    def lease(self) -> Path:
        """The physical capacity that the current attempt holds."""
        return self.root / "lease.json"

    @property
    def request(self) -> Path:
        """A training request in its own words, where the Job came as one."""
        return self.root / "request.json"

    @property
    def events(self) -> Path:
        """A copy of the ledger's events of this Job."""
        return self.root / "events.jsonl"

    @property
    def reports(self) -> Path:
        """What the worker reports; the last line of an attempt is its Outcome."""
        return self.root / "worker.jsonl"

    @property
    def environment(self) -> Path:
        """Versions and devices the run saw."""
        return self.root / "env.json"

    @property
    def metrics(self) -> Path:
        """One line an iteration."""
        return self.root / "metrics.jsonl"

    @property
    def ranks(self) -> Path:
        """Every rank of the run: its process, devices and log."""
        return self.root / "ranks.json"

    @property
    def failure(self) -> Path:
        """The first cause, where the run failed and could tell."""
        return self.root / "failure.json"

    @property
    def result(self) -> Path:
        """What the run claims to have done; written last."""
        return self.root / "result.json"

    @property
    def artifacts(self) -> Path:
        """The products, with SHA256SUMS over them."""
        return self.root if self.flat else self.root / "artifacts"

    @property
    def checkpoints(self) -> Path:
        """`global_step_N/` folders."""
        return self.root / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard event files, unless the Job names another place."""
        return self.root / "tensorboard"

    @property
    def work(self) -> Path:
        """Where prepare and run script start."""
        return self.root / "work"

    @property
    def scripts(self) -> Path:
        """Prepare and run script of the current attempt, readable by their owner only."""
        return self.root / "scripts"

    @property
    def fenced_python(self) -> Path:
        """Starts Python behind the attempt's fence; only there where ranks that a head outside runs need it."""
        return self.scripts / "python"

    @property
    def head(self) -> Path:
        """State, token and start log of the attempt's own Ray head."""
        return self.root / "head"

    @property
    def scratch(self) -> Path:
        """Folders of the attempt's own that are mounted elsewhere, `scratch/<index of the mount>`."""
        return self.root / "scratch"

    @property
    def home(self) -> Home:
        """The state directory that it lies in."""
        return Home(self.root.parent.parent)

    def logs(self, attempt: int) -> Path:
        """The logs of one attempt, counted from 1."""
        return self.root / "logs" / f"attempt-{attempt}"

    def create(self) -> None:
        """Make the folder, readable by its owner only."""
        for path in (self.root, self.artifacts, self.checkpoints, self.work):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a whole file so that a reader sees the old text or the new, never a part.

    Args:
        path: where; its folder must exist.
        text: what.
        mode: permission bits of the new file.

    Raises:
        OSError: the disk is full or the folder is not writable; the old file is untouched.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object, *, mode: int = 0o600) -> None:
    """Write a whole JSON file; NaN and infinity are refused with ValueError."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n", mode=mode)


def read_json(path: Path) -> dict[str, object] | None:
    """A JSON object from a file; None where there is no file.

    Raises:
        ValueError: the file is no JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return value


def json_line(record: Mapping[str, object]) -> str:
    """A record as one line of JSON; NaN is refused with ValueError."""
    return json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Append one JSON line in a single write; NaN is refused with ValueError.

    Raises:
        OSError: there is no room for all of it.
    """
    rest = memoryview(json_line(record).encode())
    with path.open("ab", buffering=0) as file:
        while rest:  # a disk that fills up takes a part, and says why only at the next write
            rest = rest[file.write(rest) :]


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, object], int]]:
    """The JSON lines after a byte offset, each with the offset behind it.

    A last line without its newline is still being written and is left for the next call.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                offset += len(raw)
                yield json.loads(raw), offset
    except FileNotFoundError:
        return
