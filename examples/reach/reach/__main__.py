"""What a Job runs: `python -m reach`."""

import sys

from rlark.runtime.main import main

sys.exit(main("reach"))
