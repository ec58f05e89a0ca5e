from __future__ import annotations

from typing import Any

import pytest

from rlark.spec import Source
from rlark.spec.pod_mounts import volume_name
from tests.unit.spec.conftest import MAIN, POD, WORKLOAD, ray_of, read, told


def mounts(source: Source) -> list[dict[str, Any]]:
    return [mount.model_dump(exclude_defaults=True, exclude={"name"}) for mount in ray_of(source).mounts]


def test_every_kind_of_volume():
    source = read(
        {
            "volumeMounts": [
                {"name": "in", "mountPath": "/in", "readOnly": True},
                {"name": "in", "mountPath": "/part", "subPath": "a/b"},
                {"name": "tmp", "mountPath": "/tmp/scratch"},
                {"name": "bare", "mountPath": "/bare"},
                {"name": "out", "mountPath": "/out"},
                {"name": "kept", "mountPath": "/kept"},
            ]
        },
        [
            {"name": "in", "hostPath": {"path": "/data/in", "type": "Directory"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "bare"},
            {"name": "out", "persistentVolumeClaim": {"claimName": "out"}},
            {"name": "kept", "persistentVolumeClaim": {"claimName": "kept", "readOnly": True}},
        ],
        pvcStorageMap={"out": "ceph", "kept": "ceph"},
    )
    assert mounts(source) == [
        {"host_path": "/data/in", "mount_path": "/in", "read_only": True},
        {"host_path": "/data/in/a/b", "mount_path": "/part"},
        {"scratch": True, "mount_path": "/tmp/scratch"},
        {"scratch": True, "mount_path": "/bare"},
        {"volume": "out", "mount_path": "/out"},
        {"volume": "kept", "mount_path": "/kept", "read_only": True},
    ]
    assert told(source) == [("warning", "RL056", f"{WORKLOAD}.pvcStorageMap.{claim}") for claim in ("out", "kept")]


@pytest.mark.parametrize(
    ("empty", "shm", "scratch"),
    [
        ({"medium": "Memory", "sizeLimit": "2Gi"}, "2Gi", False),
        ({"medium": "Memory"}, None, False),
        ({}, None, True),
    ],
)
def test_memory_at_dev_shm_is_shared_memory_and_no_mount(empty, shm, scratch):
    source = read({"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm/"}]}, [{"name": "shm", "emptyDir": empty}])
    assert (told(source), ray_of(source).resources.shm, bool(mounts(source))) == ([], shm, scratch)


def test_what_a_scratch_folder_does_not_honour():
    empty = {"medium": "Memory", "sizeLimit": "1Gi"}
    source = read({"volumeMounts": [{"name": "m", "mountPath": "/ram"}]}, [{"name": "m", "emptyDir": empty}])
    assert told(source) == [("warning", "RL056", f"{POD}.volumes[0].emptyDir.{key}") for key in ("medium", "sizeLimit")]


@pytest.mark.parametrize(
    ("mount", "volume", "found"),
    [
        ({"name": "x"}, {"name": "y"}, ("RL053", f"{MAIN}.volumeMounts[0].name")),
        (
            {},
            {"persistentVolumeClaim": {"claimName": "c"}},
            ("RL053", f"{POD}.volumes[0].persistentVolumeClaim.claimName"),
        ),
        ({}, {"nfs": {"server": "s", "path": "/"}}, ("RL054", f"{POD}.volumes[0].nfs")),
        ({}, {"secret": {"secretName": "s"}}, ("RL054", f"{POD}.volumes[0].secret")),
        ({}, {"emptyDir": {}, "hostPath": {"path": "/a"}}, ("RL054", f"{POD}.volumes[0]")),
        ({"subPath": "a"}, {"emptyDir": {}}, ("RL054", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPath": "/a"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPath": "a/../../b"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPathExpr": "$(A)"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPathExpr")),
    ],
)
def test_mounts_that_cannot_be_made(mount, volume, found):
    source = read(
        {"volumeMounts": [{"name": "v", "mountPath": "/mnt", **mount}]},
        [{"name": mount.get("name", "v"), **volume}] if found[0] != "RL053" or "name" not in mount else [],
    )
    assert told(source) == [("error", *found)]
    assert source.spoils(["spec.tasks[0].ray.mounts"])
    assert mounts(source) == []


def test_a_mount_of_a_volume_that_could_not_be_read_is_not_told_again():
    source = read({"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}, [{"hostPath": {"path": "/a"}}])
    assert told(source) == [("error", "RL057", f"{POD}.volumes[0].name")]


@pytest.mark.parametrize(
    ("claim", "volume"),
    [
        ("pvc-a", "pvc-a"),
        ("A.b", "a-b-4ff54a77"),
        ("x" * 64, "x" * 50 + "-7ce10097"),
        ("...", "claim-ab5df625"),
    ],
)
def test_a_claim_is_kept_under_a_name_that_a_volume_can_have(claim, volume):
    assert volume_name(claim) == volume
    assert len(volume_name(claim)) <= 63
    assert volume_name(claim + ".") != volume_name(claim)


def test_claims_that_nothing_mounts_and_volumes_too():
    source = read({}, [{"name": "v", "configMap": {"name": "c"}}], pvcStorageMap={"c": "ceph"})
    assert told(source) == [
        ("warning", "RL056", f"{POD}.volumes[0]"),
        ("warning", "RL056", f"{WORKLOAD}.pvcStorageMap.c"),
    ]
