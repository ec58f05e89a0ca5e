from __future__ import annotations

from rlark.spec.job import Job


def test_every_field_has_a_description_for_the_schema():
    schema = Job.model_json_schema(by_alias=True)
    parts = [part for part in (schema, *schema["$defs"].values()) if "properties" in part]
    bare = [
        f"{part['title']}.{name}"
        for part in parts
        for name, entry in part["properties"].items()
        if not entry.get("description") and "$ref" not in entry  # a part of its own says it there
    ]
    assert bare == []
    assert all(part.get("description") for part in parts)
    assert all(part["additionalProperties"] is False for part in parts)


def test_amounts_are_told_in_units():
    data = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "demo"},
        "spec": {
            "activeDeadline": "1h30m",
            "tasks": [
                {
                    "name": "worker",
                    "ray": {"resources": {"cpu": "500m", "memory": "2Gi"}},
                    "expect": {"firstSignal": {"pattern": "x", "within": "90s"}},
                }
            ],
        },
    }
    job = Job.model_validate(data)
    resources = job.worker.ray.resources
    assert (resources.cpus, resources.memory_bytes, resources.shm_bytes, resources.gpu) == (0.5, 2 * 2**30, 0, None)
    assert (job.spec.deadline_s, job.spec.grace_s) == (5400, 30)
    assert job.worker.expect.first_signal is not None
    assert job.worker.expect.first_signal.within_s == 90
    assert (job.worker.prepare, job.worker.run) == ("", "")
