"""The folders a container sees, from its volume mounts and the volumes of its pod."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from posixpath import isabs, join, normpath
from typing import Any, NamedTuple

from rlark.spec.finding import Finding
from rlark.spec.path import child
from rlark.spec.reading import POD, RAY, WORKLOAD, Reading
from rlark.spec.unused import no_use, of_scratch
from rlark.spec.workload import Container, EmptyDir, PodSpec, Volume, VolumeMount, Workload

MOUNTS = f"{RAY}.mounts"
SHM = "/dev/shm"  # noqa: S108 - where a pod mounts what shall be its shared memory
_SOURCES = {"hostPath": "host_path", "emptyDir": "empty_dir", "persistentVolumeClaim": "persistent_volume_claim"}
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_READABLE = 50
"""Characters of a claim that are kept where its name cannot be."""


class _At(NamedTuple):
    """A volume, and where it is written."""

    volume: Volume
    path: str


def volume_name(claim: str) -> str:
    """The volume that a claim is kept as: its own name where a volume can have it, else one made of it.

    Args:
        claim: up to 253 characters, dots among them.
    """
    if _NAME.fullmatch(claim):
        return claim
    readable = re.sub(r"[^a-z0-9]+", "-", claim.lower()).strip("-")[:_READABLE].strip("-") or "claim"
    return f"{readable}-{hashlib.sha256(claim.encode()).hexdigest()[:8]}"


def read_mounts(reading: Reading, workload: Workload, container: Container, path: str) -> None:
    """Read the mounts of a container.

    Args:
        reading: takes them, with what was found.
        workload: the workload it belongs to.
        container: the container.
        path: its place.
    """
    pod = workload.template.spec
    volumes, unread = _volumes(reading, pod), reading.may_hold_more(pod.volumes, f"{POD}.volumes")
    mounts: list[dict[str, Any]] = []
    for index, mount in enumerate(container.volume_mounts):
        if mount is None:
            continue
        place = f"{path}.volumeMounts[{index}]"
        at = volumes.get(mount.name)
        if unread if at is None else reading.lost(at.path):
            reading.spoiled.append(place)  # of the volume enough is said
        elif at is None:
            _refuse_unknown(reading, mount, place, pod)
        elif _one_source(reading, at, place) and not _is_shm(reading, mount, at):
            source = _source(reading, mount, at, place, workload.pvc_storage_map)
            if source is not None and not _shares_scratch(reading, mount, place, mounts):
                _note_places(reading, f"{MOUNTS}[{len(mounts)}]", at, place)
                mounts.append(source)
    reading.findings += _about_claims(workload, unread=reading.lost(f"{POD}.volumes"))
    if mounts:
        reading.ray["mounts"] = mounts
    reading.places[MOUNTS] = f"{path}.volumeMounts"


def _volumes(reading: Reading, pod: PodSpec) -> dict[str, _At]:
    """The volumes by name."""
    found: dict[str, _At] = {}
    for index, volume in enumerate(pod.volumes):
        place = f"{POD}.volumes[{index}]"
        if volume is not None and volume.name in found:
            message = f"two volumes are named {volume.name[:60]}; the other is {found[volume.name].path}"
            reading.refuse("RL053", f"{place}.name", message, "give each a name of its own", spoils=place)
        elif volume is not None:
            found[volume.name] = _At(volume, place)
    return found


def _refuse_unknown(reading: Reading, mount: VolumeMount, path: str, pod: PodSpec) -> None:
    names = ", ".join(volume.name for volume in pod.volumes if volume is not None) or "none"
    message = f"no volume is named {mount.name[:60]!r}; the volumes are: {names[:200]}"
    reading.refuse("RL053", f"{path}.name", message, f"add it to {POD}.volumes", spoils=path)


def _shares_scratch(reading: Reading, mount: VolumeMount, path: str, mounts: list[dict[str, Any]]) -> bool:
    """True, and refused, for a second mount of an emptyDir."""
    if not any(other["name"] == mount.name and "scratch" in other for other in mounts):
        return False
    message = f"the emptyDir {mount.name[:60]} is mounted twice, and here each mount would be a folder of its own"
    hint = "mount it once, or make it a hostPath or a claim of pvcStorageMap"
    reading.refuse("RL054", f"{path}.name", message, hint, spoils=path)
    return True


def _note_places(reading: Reading, here: str, at: _At, path: str) -> None:
    """Where the parts of a mount are written."""
    reading.places |= {
        here: path,
        f"{here}.hostPath": f"{at.path}.hostPath.path",
        f"{here}.volume": f"{at.path}.persistentVolumeClaim.claimName",
        f"{here}.scratch": f"{at.path}.emptyDir",
    }


def _one_source(reading: Reading, at: _At, place: str) -> bool:
    """Whether the volume has one source, and one that is read here."""
    given = [key for key, name in _SOURCES.items() if getattr(at.volume, name) is not None]
    strange = list(at.volume.model_extra or {})
    if len(given) + len(strange) < 2 and not strange:
        return True
    kinds = ", ".join([*given, *strange])[:200]
    if strange:
        path = child(at.path, strange[0])
        message = f"a volume of the kind {strange[0][:60]} cannot be made on this host"
    else:
        path, message = at.path, f"the volume {at.volume.name[:60]} has several sources: {kinds}"
    hint = "use a hostPath, an emptyDir, or a persistentVolumeClaim whose claim stands in pvcStorageMap"
    reading.refuse("RL054", path, message, hint, spoils=place)
    return False


def _is_shm(reading: Reading, mount: VolumeMount, at: _At) -> bool:
    """True for shared memory, which is a resource and no mount."""
    empty = at.volume.empty_dir
    if empty is None or empty.medium != "Memory" or normpath(mount.mount_path) != SHM:
        return False
    if empty.size_limit is not None:
        reading.ray.setdefault("resources", {})["shm"] = empty.size_limit
        reading.places[f"{RAY}.resources.shm"] = f"{at.path}.emptyDir.sizeLimit"
    return True


def _source(
    reading: Reading, mount: VolumeMount, at: _At, path: str, claims: Mapping[str, str]
) -> dict[str, Any] | None:
    """The mount as it would stand under `ray`; None where it cannot be made."""
    volume, claim = at.volume, at.volume.persistent_volume_claim
    if not _plain_sub_path(reading, mount, volume, path):
        return None
    made: dict[str, Any] = {"name": mount.name, "mountPath": mount.mount_path}
    if mount.read_only or (claim is not None and claim.read_only):
        made["readOnly"] = True
    if volume.host_path is not None:
        whole = volume.host_path.path
        return made | {"hostPath": join(whole, mount.sub_path) if mount.sub_path else whole}
    if claim is None:
        reading.findings += of_scratch(volume.empty_dir or EmptyDir(), f"{at.path}.emptyDir")
        return made | {"scratch": True}
    if claim.claim_name in claims:
        return made | {"volume": volume_name(claim.claim_name)}
    if reading.lost(f"{WORKLOAD}.pvcStorageMap"):
        reading.spoiled.append(path)  # it may be the one that could not be read
        return None
    message = f"the claim {claim.claim_name[:80]!r} is none of pvcStorageMap, and rlark knows no others"
    hint = f'add "{claim.claim_name[:80]}" with its storage class to pvcStorageMap, or use a hostPath'
    reading.refuse("RL053", f"{at.path}.persistentVolumeClaim.claimName", message, hint, spoils=path)
    return None


def _plain_sub_path(reading: Reading, mount: VolumeMount, volume: Volume, path: str) -> bool:
    """Whether the mount is of a whole volume, or of a folder within a hostPath."""
    expression = "subPathExpr" in (mount.model_extra or {})
    if not mount.sub_path and not expression:
        return True
    place = f"{path}.{'subPathExpr' if expression else 'subPath'}"
    if expression:
        message, hint = "subPathExpr is not read here", "write the folder as subPath"
    elif isabs(mount.sub_path) or ".." in mount.sub_path.split("/"):
        message = f"subPath {mount.sub_path[:80]!r} leaves the volume"
        hint = "write a path below the volume, without .."
    elif volume.host_path is None:
        message = "only a hostPath can be mounted in part: a claim or an emptyDir is one folder here"
        hint = "mount the whole volume and name the folder below it"
    else:
        return True
    code = "RL054" if volume.host_path is None and not expression else "RL057"
    reading.refuse(code, place, message, hint, spoils=path)
    return False


def _about_claims(workload: Workload, *, unread: bool) -> Iterator[Finding]:
    """What a storage class is here: nothing."""
    volumes = [volume for volume in workload.template.spec.volumes if volume is not None]
    used = {one.persistent_volume_claim.claim_name for one in volumes if one.persistent_volume_claim is not None}
    for claim, storage in workload.pvc_storage_map.items():
        path = child(f"{WORKLOAD}.pvcStorageMap", claim)
        if claim in used:
            why = f"the claim is kept as the folder volumes/{volume_name(claim)} of the state directory"
            yield no_use(path, f"the storage class {storage[:60]!r}", why)
        elif not unread:
            yield no_use(path, f"the claim {claim[:80]}", "no volume is made of it")
