"""Whether a Job's files bear out what it claims.

The worker asks on the node when the run has ended; `rlark artifacts JOB verify` asks again over a
copy. Nothing but the files is looked at.

Codes besides those of the manifest:

    training_result_missing     result.json is missing, no regular file, too large, no JSON object,
                                holds NaN, or carries no valid artifact:// reference
    result_contradicts_report   result.json and eval-report.json disagree on the quality gate
    report_contradicts_itself   the report's intervals or its gate do not follow from its own figures
    output_missing, output_stale, output_too_small, output_unreadable
    signal_not_seen             the first sign of life did not come
    quality_gate_failed, quality_gate_missing
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from posixpath import join, normpath
from typing import Any, Protocol

from pydantic import Field

from rlark.evidence.manifest import open_regular, verify_manifest
from rlark.evidence.recount import contradictions
from rlark.host.view import View
from rlark.model import StoredModel
from rlark.reference import valid_reference

RESULT_MISSING = "training_result_missing"
MAX_RESULT_BYTES = 1024 * 1024
NODE = View()
CLOCK_GRAIN_S = 0.05
"""File systems stamp files with a coarse clock, which may lag behind the one that stamped `Started`."""
_CHUNK = 1024 * 1024


class Check(StoredModel):
    """One expectation.

    Attributes:
        name: what was looked at: `manifest`, `result`, `output policy.onnx`, `first signal`, `quality gate`.
        ok: whether it holds.
        code: the contract's word for what is wrong; empty when it holds.
        message: a sentence.
    """

    name: str
    ok: bool
    code: str = ""
    message: str = ""


class Verdict(StoredModel):
    """The judgement over a Job's files.

    Attributes:
        verified: True when every stated expectation holds, False when one does not, None where
            nothing was expected.
        checks: one by one.
        quality_gate_passed: what result.json says; None where no gate ran.
    """

    verified: bool | None = None
    checks: list[Check] = Field(default_factory=list)
    quality_gate_passed: bool | None = None

    @property
    def failed(self) -> list[Check]:
        """The expectations that do not hold."""
        return [check for check in self.checks if not check.ok]


class ExpectedOutput(Protocol):
    """A file that proves the work; `rlark.plan.plan.Output` is one."""

    @property
    def path(self) -> str:
        """Relative to `artifacts/`, or absolute; globs allowed."""
        ...

    @property
    def min_bytes(self) -> int:
        """The least size."""
        ...


class Unproven(Exception):
    """An expectation does not hold.

    Attributes:
        code: the contract's word for it.
    """

    def __init__(self, code: str, message: str) -> None:
        """Say what and why."""
        super().__init__(message)
        self.code = code


def verify(
    folder: Path,
    *,
    started_at: datetime | None,
    outputs: Sequence[ExpectedOutput],
    evidence: bool,
    gate: bool,
    signal_expected: bool = False,
    signal_seen: bool | None = None,
    view: View = NODE,
) -> Verdict:
    """Judge a Job's files.

    Args:
        folder: the job folder, or a copy of it.
        started_at: when the attempt started; outputs must be newer. None to leave their age aside.
        outputs: the files the Job expects.
        evidence: True when SHA256SUMS and result.json must be there and hold (an engine's run).
        gate: True when the quality gate must have passed.
        signal_expected: True when the Job states its first sign of life.
        signal_seen: whether it came.
        view: what the run saw; absolute outputs are looked up through it.
    """
    checks: list[Check] = []
    result = _result(folder, checks if evidence else None)
    if evidence:
        report = verify_manifest(folder / "artifacts")
        code = "" if report.verified else report.code
        checks.append(Check(name="manifest", ok=report.verified, code=code, message=report.detail))
    checks += [_output(Outputs(folder / "artifacts", view, started_at), output) for output in outputs]
    if signal_expected:
        checks.append(_signal(signal_seen))
    passed = _gate_passed(result)
    if gate:
        checks.append(_gate(passed))
    verified = all(check.ok for check in checks) if checks else None
    return Verdict(verified=verified, checks=checks, quality_gate_passed=passed)


def read_result(path: Path) -> dict[str, Any]:
    """The claim in `result.json`.

    Raises:
        Unproven: it cannot count as one.
    """
    try:
        value = _load(path)
    except FileNotFoundError:
        raise Unproven(RESULT_MISSING, f"there is no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Unproven(RESULT_MISSING, f"{path.name} cannot count as a result: {error}") from error
    if not isinstance(value, dict):
        raise Unproven(RESULT_MISSING, f"{path.name} holds no JSON object")
    if not any(valid_reference(reference) for reference in _references(value)):
        raise Unproven(RESULT_MISSING, f"{path.name} carries no valid artifact:// reference")
    return value


def _load(path: Path) -> Any:
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise ValueError(f"it is larger than {MAX_RESULT_BYTES} bytes")
    return json.loads(data.decode("utf-8"), parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text}, which is no finite number")
    return number


def _references(result: Mapping[str, Any]) -> list[object]:
    checkpoint, artifact = result.get("checkpoint"), result.get("artifact")
    found = [checkpoint.get("artifactRef")] if isinstance(checkpoint, dict) else []
    if isinstance(artifact, dict):
        found += [artifact.get("artifactRef"), artifact.get("ref")]
    return found


def _result(folder: Path, checks: list[Check] | None) -> dict[str, Any] | None:
    """The claim, None where there is none; told in `checks` where it is expected."""
    try:
        result = read_result(folder / "result.json")
        _agrees_with_report(result, folder / "artifacts" / "eval-report.json")
    except Unproven as unproven:
        if checks is not None:
            checks.append(Check(name="result", ok=False, code=unproven.code, message=str(unproven)))
        return None
    if checks is not None:
        reference = next(reference for reference in _references(result) if valid_reference(reference))
        checks.append(Check(name="result", ok=True, message=f"result.json claims {reference}"))
    return result


def _agrees_with_report(result: Mapping[str, Any], path: Path) -> None:
    """The report is hashed in the manifest and result.json is not: hold one against the other."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            report = json.loads(file.read(MAX_RESULT_BYTES))
        written = report["qualityGate"]["passed"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # no report, or one without a gate; its hash is the manifest's matter
    wrong = contradictions(report)
    if wrong:
        raise Unproven("report_contradicts_itself", f"eval-report.json: {'; '.join(wrong[:3])}")
    claimed = _gate_passed(result)
    if isinstance(written, bool) and claimed is not None and claimed != written:
        message = f"result.json says that the quality gate passed: {claimed}, eval-report.json says {written}"
        raise Unproven("result_contradicts_report", message)


def _gate_passed(result: Mapping[str, Any] | None) -> bool | None:
    metrics = (result or {}).get("metrics")
    passed = metrics.get("qualityGatePassed") if isinstance(metrics, dict) else None
    return passed if isinstance(passed, bool) else None


def _gate(passed: bool | None) -> Check:
    if passed:
        return Check(name="quality gate", ok=True, message="the quality gate passed")
    if passed is None:
        message = "the Job expects a quality gate, and result.json tells of none"
        return Check(name="quality gate", ok=False, code="quality_gate_missing", message=message)
    message = "the quality gate failed; artifacts/eval-report.json says why"
    return Check(name="quality gate", ok=False, code="quality_gate_failed", message=message)


def _signal(seen: bool | None) -> Check:
    if seen:
        return Check(name="first signal", ok=True, message="the first sign of life came")
    return Check(name="first signal", ok=False, code="signal_not_seen", message="the first sign of life did not come")


@dataclass(frozen=True)
class Outputs:
    """Where outputs are looked for, and from when on they count.

    Attributes:
        artifacts: relative paths start here.
        view: absolute paths are the run's own, mounts and symbolic links as it sees them.
        since: None leaves their age aside.
    """

    artifacts: Path
    view: View
    since: datetime | None

    def found(self, pattern: str) -> list[Found]:
        """The files that a path or glob names, as the run sees them; one written literally is taken as it is.

        Raises:
            OSError: one cannot be looked at.
        """
        folder = str(self.artifacts)
        literal = self._file(join(folder, pattern))
        files = [literal] if literal else map(self._file, dict.fromkeys(self.view.glob(pattern, folder)))
        return [file for file in files if file is not None]

    def fresh(self, file: Found) -> bool:
        """Whether it was written in this attempt."""
        return self.since is None or file.modified >= self.since.timestamp() - CLOCK_GRAIN_S

    def _file(self, path: str) -> Found | None:
        try:
            real = Path(self.view.real(path))
            seen = real.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Found(path, real, seen.st_size, seen.st_mtime) if stat.S_ISREG(seen.st_mode) else None


@dataclass(frozen=True)
class Found:
    """A file that an output names.

    Attributes:
        path: where the run sees it, absolute.
        real: where it lies.
        size: in bytes.
        modified: seconds since the epoch.
    """

    path: str
    real: Path
    size: int
    modified: float

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name


def _output(outputs: Outputs, output: ExpectedOutput) -> Check:
    name = f"output {output.path}"
    try:
        return Check(name=name, ok=True, message=_proof(outputs, output))
    except Unproven as unproven:
        return Check(name=name, ok=False, code=unproven.code, message=str(unproven))
    except OSError as error:
        return Check(name=name, ok=False, code="output_unreadable", message=f"it cannot be looked at: {error}")


def _proof(outputs: Outputs, output: ExpectedOutput) -> str:
    """The files that prove an output, each read anew.

    Raises:
        OSError: one cannot be looked at.
        Unproven: no file does.
    """
    files = outputs.found(output.path)
    if not files:
        raise Unproven("output_missing", f"no file {output.path}{_looked(outputs, output.path)}")
    fresh = [file for file in files if outputs.fresh(file)]
    if not fresh:
        raise Unproven("output_stale", f"{_names(files)} is older than the start of this attempt")
    large = [file for file in fresh if file.size >= output.min_bytes]
    if not large:
        sizes = max(file.size for file in fresh)
        raise Unproven("output_too_small", f"{_names(fresh)} has {sizes} bytes, at least {output.min_bytes} are asked")
    return "; ".join(f"{file.name}: {size} bytes, SHA-256 {digest}" for file, size, digest in map(_reread, large))


def _looked(outputs: Outputs, path: str) -> str:
    """Where a path that is not there was looked for."""
    if not path.startswith("/"):
        return f" (relative paths start at {outputs.artifacts})"
    lies = outputs.view.lies(normpath(path))
    return f" (on this node: {lies})" if lies != normpath(path) else ""


def _names(files: Sequence[Found]) -> str:
    return ", ".join(file.name for file in files[:3])


def _reread(file: Found) -> tuple[Found, int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        with file.real.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise Unproven("output_unreadable", f"{file.path} cannot be read back: {error.strerror}") from error
    return file, size, digest.hexdigest()
