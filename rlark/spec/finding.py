"""One thing that was found in a Job, with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, field_validator

from rlark.errors import PlacementError, RlarkError, SpecError
from rlark.model import Model

Severity = Literal["error", "warning", "info"]
_ACTS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""All that a terminal would act upon, or that would begin a line."""
_CONTROL = re.compile(rf"(?P<picture>\n {{4}}[^{_ACTS}]*\n {{4}} *\^+\Z)|[{_ACTS}]")
"""The same, and what may stand below a message: an expression, with carets under what is wrong with it."""


class Finding(Model):
    """One thing that was found, told so that it can be mended.

    Attributes:
        code: stable, `RL` and three digits; one table in docs/findings.md.
        severity: nothing starts while an `error` stands.
        path: dotted place in the Job, `spec.tasks[0].ray.replicas`; empty for the whole file.
        file: the file it stands in, where there is one.
        line: counted from 1; 0 when the place is unknown (a Job that came as JSON).
        column: counted from 1; 0 when the place is unknown.
        message: what is wrong and why.
        expected: what the rule asks for, short.
        actual: what stands there, short; never a secret.
        hint: how to mend it.
        curable: True when another node, or this node at another time, could run the Job as it
            stands: such errors end in exit code 4 rather than 3. It stays in this process: answers
            carry the exit code instead.
        inside: line and column, from 1, within the text at `path`, such as a script; (0, 0) for the
            whole of it. It stays in this process: whoever holds the text makes `line` and `column` of it.
    """

    code: str
    severity: Severity = "error"
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    message: str
    expected: str | None = None
    actual: str | None = None
    hint: str | None = None
    curable: bool = Field(default=False, exclude=True)
    inside: tuple[int, int] = Field(default=(0, 0), exclude=True)

    @field_validator("message", "expected", "actual", "hint")
    @classmethod
    def _visible(cls, text: str | None) -> str | None:
        """Texts may show a value that somebody else wrote; only a picture begins lines of its own."""
        return text and _CONTROL.sub(lambda match: match["picture"] or repr(match[0])[1:-1], text)

    def __str__(self) -> str:
        """`job.yaml:7:16: error RL021 spec.tasks[0].ray.replicas: message (hint)`; a picture stands below."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        subject = f" {self.path}" if self.path else ""
        message, *picture = self.message.split("\n")
        hint = f" ({self.hint})" if self.hint else ""
        line = f"{place}{': ' if place else ''}{self.severity} {self.code}{subject}: {message}{hint}"
        return "\n".join([line, *picture])


def errors_of(findings: Iterable[Finding]) -> list[Finding]:
    """Those that keep a Job from starting."""
    return [finding for finding in findings if finding.severity == "error"]


def exit_code(findings: Iterable[Finding]) -> int:
    """The one table of validate, preview, submit and the API: 0 none, 4 only curable errors, else 3."""
    errors = errors_of(findings)
    return _kind(errors).exit_code if errors else 0


def _kind(errors: Iterable[Finding]) -> type[RlarkError]:
    return PlacementError if all(finding.curable for finding in errors) else SpecError


def refusal(findings: Iterable[Finding], code: int | None = None) -> RlarkError:
    """The error that carries these findings.

    Args:
        findings: everything that was found, at least one error among it.
        code: their exit code, where another process has decided it.
    """
    found = list(findings)
    errors = errors_of(found)
    kind = _kind(errors) if code is None else PlacementError if code == PlacementError.exit_code else SpecError
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return kind(f"the Job has {count}; nothing was started", findings=found)
