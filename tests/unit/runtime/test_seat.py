from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rlark.plan.plan import Plan
from rlark.runtime.rank import Rank
from rlark.runtime.seat import Posting

SETTLE = """
import json, os, pickle, sys
from rlark.runtime import seat
posting = pickle.loads(bytes.fromhex(sys.argv[1]))
seat.settle(posting)
print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "path": sys.path[-1],
                  "heavy": sorted({"numpy", "torch", "ray"} & set(sys.modules))}))
print("to the log too", file=sys.stderr)
os.kill(os.getpid(), seat.STACKS)
"""


def settle(posting: Posting, **env: str) -> str:
    """Settles in a process of its own; what stands in the log."""
    import pickle

    given = {"PATH": os.environ["PATH"], **env}
    command = [sys.executable, "-c", SETTLE, pickle.dumps(posting).hex()]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    return Path(posting.log).read_text()


def test_a_process_becomes_the_rank_before_anything_heavy_is_loaded(tmp_path: Path):
    posting = Posting(
        rank=Rank("demo", "env"),
        env={"PATH": "/bin", "RANK": "0", "OMP_NUM_THREADS": "3"},
        program="toy_engine.program:PROGRAM",
        plan=Plan(job="demo", node="box"),
        run="rlark-of-a-test",
        path=("/somewhere/else",),
        log=str(tmp_path / "env-0.log"),
        work=str(tmp_path),
    )
    lines = settle(posting, SECRET_OF_THE_HEAD="x", OMP_NUM_THREADS="1", RAY_RAYLET_PID="7").splitlines()
    facts = json.loads(lines[0])
    wanted = {**posting.env, "RAY_RAYLET_PID": "7"}
    assert {name: value for name, value in facts["env"].items() if name != "LC_CTYPE"} == wanted
    assert (facts["cwd"], facts["path"], facts["heavy"]) == (str(tmp_path), "/somewhere/else", [])
    assert lines[1] == "to the log too"
    assert any("most recent call first" in line for line in lines[2:])
