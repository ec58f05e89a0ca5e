from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

JOB = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
spec:
  priority: 2
  tasks:
    - name: worker
      head: true
      nodeSelector: {kubernetes.io/hostname: box}
      ray:
        image: registry.example.com/rlinf:v0.3.0
      runScript: |
        echo hello
"""


@pytest.mark.parametrize("name", ["rlark-single-node-worker", "rlark-no-mounts"])
def test_a_job_of_the_console_comes_back(rlark: Any, shared: Path, name: str) -> None:
    file = shared / "cases" / f"{name}.json"
    for mode in ("json", "yaml"):
        result = rlark("export", file, "--to", "rlark", "-o", mode)
        assert (result.code, result.err) == (0, "")
        assert (result.json if mode == "json" else result.yaml) == json.loads(file.read_text())
    assert rlark("export", file, "--to", "rlark").out == result.out


def test_what_is_left_out_is_told_on_stderr_at_its_line(rlark: Any) -> None:
    Path("job.yaml").write_text(JOB, encoding="utf-8")
    result = rlark("export", "job.yaml", "--to", "rlark")
    assert result.code == 0
    assert result.yaml["spec"]["tasks"][0]["agentType"] == "Kubernetes"
    (line,) = result.err.splitlines()
    assert line.startswith("job.yaml:6:13: warning RL058 spec.priority: ")
    assert rlark("export", "job.yaml", "--to", "rlark", "-q").out == "demo\n"


def test_changes_are_made_first(rlark: Any, shared: Path) -> None:
    file = shared / "cases/rlark-no-mounts.json"
    limits = 'spec.tasks[0].kubernetes.workload.template.spec.containers[0].resources.limits["nvidia.com/gpu"]="2"'
    requests = limits.replace("limits", "requests")
    made = rlark("export", file, "--to", "rlark", "--set", limits, "--set", requests, "--name", "other").yaml
    resources = made["spec"]["tasks"][0]["kubernetes"]["workload"]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    assert made["metadata"]["name"] == "other"


def test_what_is_no_job_is_refused(rlark: Any) -> None:
    Path("job.yaml").write_text(JOB.replace("kind:", "kidn:"), encoding="utf-8")
    result = rlark("export", "job.yaml", "--to", "rlark")
    assert (result.code, result.out) == (3, "")
    assert "did you mean kind?" in result.err
    assert rlark("export", "job.yaml").code == 2
    assert rlark("export", "job.yaml", "--to", "kuberay").code == 2
