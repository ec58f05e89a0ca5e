"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = ROOT / "docs/single-node.md"
NAMED = sorted(set(re.findall(r"`((?:broken/|tests/|test_)[\w/.:]+)`", PROMISES.read_text())) - {"broken/x"})


@pytest.mark.parametrize("name", NAMED)
def test_every_test_that_holds_a_promise_exists(name):
    if name.startswith("broken/"):
        assert (ROOT / f"tests/unit/preflight/{name}.yaml").is_file()
        return
    file, _, test = name.partition("::")
    found = [path for path in ROOT.glob("tests/**/*.py") if str(path.relative_to(ROOT)).endswith(file)]
    assert any(not test or f"def {test}(" in path.read_text() for path in found), f"no {name}"


def test_links_between_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
