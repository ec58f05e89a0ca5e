"""Everything that can go wrong, drawn once.

    RlarkError                 1  500   a fault of rlark itself
    |- UsageError              2  400   the request cannot be read
    |- SpecError               3  422   the Job is wrong on every node
    |- PlacementError          4  422   the Job is right, and can never run here
    |- ClusterError            5  503   the API, Ray or a node does not answer
    |- AuthError               6  401   no token, or not this one
    |- ConflictError           7  409   the name, or the state, is taken
    |- JobFailed             100  200   the Job ended Failed
    |- NotFinished           101  504   the Job did not end in time
    |- NotFound              102  404   no such Job, node, engine or file
    `- JobStopped            103  200   the Job ended Stopped

The first number is the exit code of `rlark`, the second the HTTP status of the API. An error
that arrives over HTTP is raised again as the same class, found by its `code`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from rlark.spec.finding import Finding

OK = 0
INTERRUPTED = 130  # Ctrl-C while following: the Job goes on


class RlarkError(Exception):
    """rlark met something it did not expect; please report it."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = None,
        findings: Sequence[Finding] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Say what went wrong.

        Args:
            message: where, what and why, in a sentence; the class's docstring by default.
            hint: how to fix it.
            findings: what was found in a Job, where that is the reason.
            details: further facts for a program, JSON-serialisable.
        """
        self.message = message or (self.__doc__ or "").strip()
        self.hint = hint
        self.findings = tuple(findings)
        self.details = dict(details or {})
        super().__init__(self.message)

    def __str__(self) -> str:
        """Message and hint, and below them what was found: a traceback is all that a program's user sees."""
        told = f"{self.message} ({self.hint})" if self.hint else self.message
        return "\n".join([told, *map(str, self.findings)])


class UsageError(RlarkError):
    """The request cannot be read."""

    code = "usage"
    exit_code = 2
    http_status = 400


class SpecError(RlarkError):
    """The Job has errors that no node could cure."""

    code = "invalid_spec"
    exit_code = 3
    http_status = 422


class PlacementError(RlarkError):
    """The Job can never be placed on these nodes."""

    code = "cannot_place"
    exit_code = 4
    http_status = 422


class ClusterError(RlarkError):
    """The API, Ray or a node does not answer."""

    code = "unavailable"
    exit_code = 5
    http_status = 503


class AuthError(RlarkError):
    """The token is missing or not the right one."""

    code = "unauthorized"
    exit_code = 6
    http_status = 401


class ConflictError(RlarkError):
    """The name is taken, or the Job is not in a state that allows this."""

    code = "conflict"
    exit_code = 7
    http_status = 409


class JobFailed(RlarkError):
    """The Job ended Failed."""

    code = "job_failed"
    exit_code = 100
    http_status = 200


class NotFinished(RlarkError):
    """The Job did not end in time."""

    code = "not_finished"
    exit_code = 101
    http_status = 504


class NotFound(RlarkError):
    """There is no such Job, node, engine or file."""

    code = "not_found"
    exit_code = 102
    http_status = 404


class JobStopped(RlarkError):
    """The Job ended Stopped."""

    code = "job_stopped"
    exit_code = 103
    http_status = 200


BY_CODE: dict[str, type[RlarkError]] = {
    kind.code: kind
    for kind in (
        RlarkError,
        UsageError,
        SpecError,
        PlacementError,
        ClusterError,
        AuthError,
        ConflictError,
        JobFailed,
        NotFinished,
        NotFound,
        JobStopped,
    )
}
"""Every class by the `code` it has on the wire."""
