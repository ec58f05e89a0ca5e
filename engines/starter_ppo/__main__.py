"""`python -m engines.starter_ppo`: what the worker starts."""

from __future__ import annotations

import sys

from rlark.runtime.main import main

sys.exit(main("starter-ppo"))
