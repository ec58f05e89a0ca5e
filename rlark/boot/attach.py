"""Reaching Ray: the environment that it reads when it is imported, and clusters of others."""

from __future__ import annotations

import os
from pathlib import Path

from rlark.boot.state import secret_file
from rlark.errors import ClusterError, UsageError
from rlark.folder import Home
from rlark.host import ports

PROBE_S = 2.0
_DROPPED = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def ray_environment(token_path: str) -> None:
    """Prepare this process for Ray, before Ray is imported: it reads its mode only then.

    Args:
        token_path: the file with Ray's token; empty for a cluster without one.
    """
    for name in _DROPPED:
        os.environ.pop(name, None)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token" if token_path else "disabled"
    if token_path:
        os.environ["RAY_AUTH_TOKEN_PATH"] = token_path


def their_token(home: Home) -> str:
    """The file with the token of a cluster that is not ours, found as Ray itself finds it.

    `RAY_AUTH_TOKEN` is copied into a file of ours of mode 0600: variables are inherited, and shown. It is
    another than the one of our own head, which those who know theirs must never share.

    Returns:
        Its path; empty when this user has none.

    Raises:
        UsageError: RAY_AUTH_TOKEN_PATH names no file.
    """
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        return ""
    if token := os.environ.get("RAY_AUTH_TOKEN"):
        copy = home.ray_token.with_name("their-ray-token")
        secret_file(copy, token)
        return str(copy)
    if named := os.environ.get("RAY_AUTH_TOKEN_PATH"):
        if not Path(named).is_file():
            raise UsageError(f"RAY_AUTH_TOKEN_PATH names no file: {named}")
        return str(Path(named).absolute())
    usual = Path.home() / ".ray" / "auth_token"
    return str(usual) if usual.is_file() else ""


def reach(address: str) -> None:
    """See that somebody listens at `HOST:PORT`; Ray itself would hang for minutes.

    Raises:
        UsageError: the text is no such address.
        ClusterError: nobody does.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(
            f"--ray-address {address!r} is not HOST:PORT", hint="the address of the GCS, as in 10.0.0.5:6379"
        )
    if not ports.listening(host, int(port), PROBE_S):
        raise ClusterError(
            f"No Ray cluster answers at {address}.",
            hint="`ray status` on its head shows the address; or leave --ray-address out to start a head here",
        )
