"""What the run sees through its mounts, and where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlark.host.view import Bind, View


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Folders as a node has them."""
    for folder in ("data/inner", "other", "point"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("data/a.txt", "data/inner/b.txt", "other/c.txt", "point/hidden.txt"):
        (tmp_path / file).write_text(file)
    return tmp_path


def test_without_mounts_everything_lies_where_it_is_seen(node):
    view = View()
    assert view.real(f"{node}/data/a.txt") == f"{node}/data/a.txt"
    assert view.over("/etc") is None


def test_the_deepest_mount_wins(node):
    view = View([Bind(f"{node}/data", "/mnt"), Bind(f"{node}/other", "/mnt/inner")])
    assert view.real("/mnt/a.txt") == f"{node}/data/a.txt"
    assert view.real("/mnt/inner/c.txt") == f"{node}/other/c.txt"
    assert view.real("/mnt") == f"{node}/data"
    assert view.real("/mnt-2/x") == "/mnt-2/x"


def test_links_lead_where_they_lead_the_run(node):
    (node / "data" / "absolute").symlink_to("/mnt/inner")
    (node / "data" / "relative").symlink_to("../mnt/a.txt")
    (node / "data" / "inner" / "up").symlink_to("..")
    view = View([Bind(f"{node}/data", "/mnt")])
    assert view.real("/mnt/absolute/b.txt") == f"{node}/data/inner/b.txt"
    assert view.real("/mnt/relative") == f"{node}/data/a.txt"
    assert view.resolve("/mnt/inner/up/a.txt") == "/mnt/a.txt"


def test_dots_are_taken_after_links_as_the_kernel_does(node):
    (node / "link").symlink_to("data/inner")
    assert View().resolve(f"{node}/link/../a.txt") == f"{node}/data/a.txt"
    assert View().resolve("/../etc/.//passwd") == "/etc/passwd"


def test_a_mount_over_a_link_hides_it(node):
    (node / "link").symlink_to("other")
    view = View([Bind(f"{node}/data", f"{node}/link")])
    assert view.real(f"{node}/link/a.txt") == f"{node}/data/a.txt"


def test_links_in_a_circle_are_an_error(node):
    (node / "one").symlink_to("two")
    (node / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        View().real(f"{node}/one")
    assert not View().exists(f"{node}/one")


def test_names_hold_mount_points_and_not_what_they_hide(node):
    view = View([Bind(f"{node}/data", f"{node}/point"), Bind(f"{node}/other", f"{node}/new/deep")])
    assert view.names(f"{node}/point") == ["a.txt", "inner"]
    assert "new" in view.names(str(node))
    assert view.names(f"{node}/new") == ["deep"]
    assert view.names(f"{node}/nowhere") == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/seen/*.txt", ["/seen/a.txt"]),
        ("/seen/**/*.txt", ["/seen/a.txt", "/seen/inner/b.txt", "/seen/other/c.txt"]),
        ("/seen/**", ["/seen", "/seen/a.txt", "/seen/inner", "/seen/inner/b.txt", "/seen/other", "/seen/other/c.txt"]),
        ("/seen/[io]*/?.txt", ["/seen/inner/b.txt", "/seen/other/c.txt"]),
        ("/se*/a.txt", ["/seen/a.txt"]),
        ("/seen/a.txt", ["/seen/a.txt"]),
        ("/seen/none*", []),
        ("/seen/.h*", ["/seen/.hidden"]),
    ],
)
def test_globs_see_mounts_as_the_shell_does(node, pattern, found):
    (node / "data" / ".hidden").write_text("x")
    view = View([Bind(f"{node}/data", "/seen"), Bind(f"{node}/other", "/seen/other")])
    assert sorted(view.glob(pattern)) == found


def test_a_glob_from_a_folder_takes_the_folder_literally(node):
    odd = node / "[odd]*"
    odd.mkdir()
    (odd / "policy.onnx").write_text("x")
    assert list(View().glob("*.onnx", str(odd))) == [f"{odd}/policy.onnx"]


def test_a_deep_glob_does_not_run_in_circles(node):
    (node / "data" / "inner" / "loop").symlink_to("..")
    assert sorted(View().glob(f"{node}/data/**/b.txt")) == [f"{node}/data/inner/b.txt"]
