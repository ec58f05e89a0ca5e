"""What a Job's processes may inherit: an allow-list, never the whole environment.

The worker builds the run's environment from it, the run builds its ranks' from it. What is not
here (tokens, cloud credentials, an outer scheduler's variables) is not handed on.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CUDA_HOME",
        "CUDA_DEVICE_ORDER",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
    }
)
PREFIXES = ("LC_", "XDG_", "SSL_CERT_", "MALLOC_", "OPENBLAS_")


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Those variables of an environment that a Job's processes may see."""
    return {name: value for name, value in environ.items() if name in NAMES or name.startswith(PREFIXES)}
