"""What goes with a Job that is deleted: its folder, and the named folders that no other Job mounts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from rlark.control.reader import LedgerReader
from rlark.control.record import JobRecord, Kind
from rlark.folder import Home

_KEPT = "keepVolumes"


def keeping(volumes: Collection[str]) -> dict[str, Any]:
    """The data of a DELETE_REQUESTED event after which some of the Job's named folders stay."""
    return {_KEPT: sorted(volumes)} if volumes else {}


def belongings(record: JobRecord, ledger: LedgerReader, home: Home) -> list[Path]:
    """What of a Job is to be removed, in order; a folder that a Job mounts from the node is never among it.

    Args:
        record: the Job's, which is still in the ledger.
        ledger: tells what other Jobs mount.
        home: the state directory.
    """
    folder = [home.job(record.name).root] if record.attempt else []
    mounted = ledger.volumes()
    going = set(mounted.pop(record.uid, ()))
    if going:
        going -= {name for names in mounted.values() for name in names}
        going -= set(_asked_to_keep(record, ledger))
    return folder + [home.volumes / name for name in sorted(going)]


def _asked_to_keep(record: JobRecord, ledger: LedgerReader) -> list[str]:
    asked = [event for event in ledger.history(record.uid) if event.kind is Kind.DELETE_REQUESTED]
    return [name for event in asked for name in cast("list[str]", event.data.get(_KEPT, []))]
