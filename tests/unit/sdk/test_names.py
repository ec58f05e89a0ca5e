from __future__ import annotations

import subprocess
import sys

import pytest

import rlark

NAMES = [
    "run",
    "connect",
    "Client",
    "Job",
    "Placement",
    "Findings",
    "RlarkError",
    "SpecError",
    "PlacementError",
    "ClusterError",
    "AuthError",
    "ConflictError",
    "NotFound",
    "JobFailed",
    "NotFinished",
]


def test_the_public_names() -> None:
    assert rlark.__all__ == NAMES
    assert [getattr(rlark, name).__name__ for name in NAMES] == NAMES
    assert set(NAMES) <= set(dir(rlark))


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'submit'"):
        rlark.submit  # noqa: B018


HEAVY = ("ray", "torch", "jax", "onnx", "onnxruntime", "numpy", "hydra", "pydantic", "rich", "httpx", "fastapi")


def imported_by(code: str) -> set[str]:
    listing = "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    return set(subprocess.check_output([sys.executable, "-c", f"{code}\n{listing}"], text=True).split())


def test_the_import_loads_nothing_heavy() -> None:
    assert imported_by("import rlark") & {*HEAVY, "click", "yaml", "asyncio"} == set()


def test_a_client_is_light_too() -> None:
    assert imported_by("import rlark; rlark.connect()") & set(HEAVY) == set()
