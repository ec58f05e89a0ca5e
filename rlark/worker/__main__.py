"""`python -m rlark.worker FOLDER`: live one attempt of the Job in that folder.

Exit code: 0 when the attempt succeeded, 1 when it did not, 2 when the folder holds no Job. The
Outcome in `worker.jsonl` says more; this code is for Ray's own list of Jobs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rlark.errors import UsageError
from rlark.folder import JobFolder
from rlark.host.clock import SystemClock
from rlark.worker.life import live


def main(arguments: Sequence[str]) -> int:
    """Live the attempt of the folder that the one argument names."""
    if len(arguments) != 1:
        return _say("usage: python -m rlark.worker FOLDER", 2)
    try:
        outcome = live(JobFolder(Path(arguments[0]).absolute()), SystemClock())
    except UsageError as error:
        return _say(str(error), error.exit_code)
    except OSError as error:
        return _say(f"the outcome could not be written: {error}", 1)
    return _say(f"{outcome.reason}: {outcome.message}", 0 if outcome.succeeded else 1)


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  Ray keeps this as the Job's log
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
