from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import rlark

NOTEBOOK = Path(__file__).parents[3] / "examples" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def code() -> list[dict[str, Any]]:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_the_quickstart_is_committed_without_outputs(code: list[dict[str, Any]]) -> None:
    assert code
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


def test_the_quickstart_uses_public_names_only(code: list[dict[str, Any]]) -> None:
    tree = ast.parse("\n".join(source(cell) for cell in code))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rlark"
    }
    assert used
    assert used <= set(rlark.__all__)
