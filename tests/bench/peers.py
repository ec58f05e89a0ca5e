"""Peers in environments of their own: what `scripts/bench` compares with, never what rlark needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from rlark.folder import Home

ROOT = Path(__file__).parents[2]


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of a virtual environment that holds a peer, made once under the state directory.

    It sees this environment's packages behind its own, so that both sides compute with the same torch and numpy.
    """
    folder = Home.find(os.environ.get("RLARK_HOME", ROOT / ".rlark")).root / "bench" / name
    python, stamp = folder / "bin/python", folder / ".installed"
    wanted = json.dumps(list(requirements))
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"installing {', '.join(requirements)} into {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "rlark-bench.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--constraint", ROOT / "constraints.txt", *requirements], check=True)
        stamp.write_text(wanted)
    return python


def run(python: Path | str, module: str, *arguments: object) -> dict[str, float]:
    """Run a module that prints one JSON object as its last line; one thread each, quiet or not."""
    command = [str(python), "-m", module, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=_one_thread())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
