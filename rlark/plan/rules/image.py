"""Image and SSH key: both are checked and recorded, and neither is used on a host."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from rlark.plan.rules.rule import RAY, Case, Rule
from rlark.spec.finding import Finding

_PATH = f"{RAY}.image"
_EXAMPLE = "for example registry.example.com/rlinf:v0.3.0"
_KEY_PATH = "spec.sshPublicKey"
_REPOSITORY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]|:[0-9]+/)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"[a-z0-9+._-]+:[0-9a-fA-F]{64,128}")


def _reference(case: Case) -> Iterator[Finding]:
    image = case.worker.ray.image
    if image is None:
        return
    wrong = _wrong_with(image)
    if wrong is not None:
        code, message, hint = wrong
        yield Finding(code=code, path=_PATH, message=message, actual=image[:120], hint=hint)
        return
    yield Finding(
        code="RL254",
        severity="warning",
        path=_PATH,
        message="the Job runs on this host and not in the image, which is only recorded",
        actual=image[:120],
        hint="the host, or prepareScript, must provide what the image holds: Python, its packages, and the programs of "
        "the run",
    )


def _wrong_with(image: str) -> tuple[str, str, str] | None:
    """Code, message and hint; None for a reference that says exactly which image is meant."""
    if not image:
        return "RL253", "the image is empty", f"remove it, or name one, {_EXAMPLE}"
    if any(character.isspace() for character in image):
        return "RL250", f"the image {image[:120]!r} holds a blank", f"write it without: {''.join(image.split())[:120]}"
    name, at, digest = image.partition("@")
    last = name.rpartition("/")[2]
    repository, colon, tag = name.rpartition(":") if ":" in last else (name, "", "")
    if at and not _DIGEST.fullmatch(digest):
        return "RL253", f"{digest[:120]!r} is no digest", "a digest is sha256: and 64 hexadecimal digits"
    if not _REPOSITORY.fullmatch(repository) or (colon and not _TAG.fullmatch(tag)):
        return "RL253", f"{image[:120]!r} is no image reference", _EXAMPLE
    return None if digest else _wrong_tag(image, tag)


def _wrong_tag(image: str, tag: str) -> tuple[str, str, str] | None:
    if tag == "latest":
        return "RL252", "the tag latest changes its meaning, so the run could not be repeated", _EXAMPLE
    if not tag:
        return "RL251", f"the image {image[:120]!r} has no tag, so nobody knows which version is meant", _EXAMPLE
    return None


def _ssh_key(case: Case) -> Iterator[Finding]:
    key = case.job.spec.ssh_public_key
    if not key:
        return
    if not _is_public_key(key):
        message = "this is no SSH public key"
        hint = "paste the one line of a .pub file: ssh-ed25519 AAAA... name"
        yield Finding(code="RL256", path=_KEY_PATH, message=message, hint=hint)
        return
    message = "no SSH server is started on this host, so the key opens nothing"
    yield Finding(code="RL255", severity="warning", path=_KEY_PATH, message=message, hint="remove sshPublicKey")


def _is_public_key(line: str) -> bool:
    """True when the second word holds the type that the first one names (RFC 4253, 6.6)."""
    kind, _, rest = line.strip().partition(" ")
    try:
        blob = base64.b64decode(rest.split()[0] if rest.split() else "", validate=True)
    except (binascii.Error, ValueError):
        return False
    length = int.from_bytes(blob[:4], "big")
    return "\n" not in line.strip() and len(blob) > 4 + length and blob[4 : 4 + length] == kind.encode()


RULES = (Rule(_reference, (_PATH,)), Rule(_ssh_key, (_KEY_PATH,)))
