"""`python -m toy_engine`."""

from __future__ import annotations

import sys

from rlark.runtime.main import main

if __name__ == "__main__":
    sys.modules["torch"] = None  # not needed, and tensorboardX would load it: a second for each run
    sys.exit(main("toy"))
