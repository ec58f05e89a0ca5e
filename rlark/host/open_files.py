"""How many files this process may have open."""

from __future__ import annotations

import resource

ENOUGH = 65_536


def allow_many() -> None:
    """Raise the limit as far as this user may, up to `ENOUGH`; login shells start with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
