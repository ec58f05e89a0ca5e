"""Whether a Job's files bear out what it claims."""

from __future__ import annotations

from pydantic import Field

from rlark.model import StoredModel


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
