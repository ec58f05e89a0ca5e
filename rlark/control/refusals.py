"""Why a verb cannot be carried out on a Job as it stands."""

from __future__ import annotations

from rlark.control.record import JobRecord
from rlark.errors import ConflictError, UsageError


def refuse_live(record: JobRecord) -> None:
    """Raise ConflictError for a Job that has not ended, which cannot be replaced."""
    if not record.ended:
        raise ConflictError(
            f"job {record.name!r} is {record.status.phase}; only an ended job can be replaced",
            hint=f"stop it first: rlark stop {record.name}",
        )


def refuse_deleting(record: JobRecord) -> None:
    """Raise ConflictError for a Job that is being deleted."""
    if record.deleting:
        raise ConflictError(
            f"job {record.name!r} is being deleted, and its last processes still end", hint="try again in a moment"
        )


def refuse_renaming(name: str, written: str) -> None:
    """Raise UsageError for a text that names another Job than the address does."""
    if written != name:
        raise UsageError(
            f"the text names job {written!r}, the address job {name!r}",
            hint="a job cannot be renamed: submit it under the other name",
        )


def taken(record: JobRecord) -> ConflictError:
    """What to raise where another Job has the name."""
    return ConflictError(
        f"the name {record.name!r} is taken by another job, which is {record.status.phase}",
        hint="choose another name, or replace an ended job with: rlark submit --replace",
    )
