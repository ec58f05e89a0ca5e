"""`python -m toy_engine`."""

from __future__ import annotations

import sys

from rlark.runtime.main import main

if __name__ == "__main__":
    sys.exit(main("toy"))
