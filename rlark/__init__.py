"""rlark: checked, leased, placed, verified training jobs for robot policies on one machine."""

from __future__ import annotations

__version__ = "0.1.0"
