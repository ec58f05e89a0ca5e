from __future__ import annotations

from rlark.cluster.on_ray.cluster import _metadata
from rlark.folder import JobFolder, write_json
from rlark.plan.node import Lease


def test_the_dashboard_names_the_components_of_a_fused_run(tmp_path):
    folder = JobFolder(tmp_path)
    write_json(folder.plan, {"placement": {"actor": [], "rollout": [], "env": []}})
    shown = _metadata(Lease(job="demo", attempt=2, key="k", node="n"), folder)
    assert shown == {"rlark.io/job": "demo", "rlark.io/attempt": "2", "rlark.io/components": "actor,rollout,env"}


def test_a_job_without_components_names_none(tmp_path):
    folder = JobFolder(tmp_path)
    write_json(folder.plan, {"run": "true"})
    assert "rlark.io/components" not in _metadata(Lease(job="demo", attempt=1, key="k", node="n"), folder)
