from __future__ import annotations

import os
from pathlib import Path

from rlark.host.remove import remove


def test_files_links_and_folders_go_and_what_links_lead_to_stays(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(kept)
    for path in (folder, _link(tmp_path / "alone", kept), tmp_path / "nothing"):
        remove(path)
        assert not os.path.lexists(path)
    assert (kept / "file").exists()


def test_an_ordinary_user_removes_what_the_run_closed(open_folder, ordinary_user):
    def closed_and_removed() -> None:
        folder = open_folder / "folder"
        (folder / "closed" / "deeper").mkdir(parents=True)
        (folder / "closed" / "deeper" / "file").write_text("x")
        (folder / "closed" / "deeper").chmod(0)
        (folder / "closed").chmod(0o500)
        remove(folder)
        assert not folder.exists()

    ordinary_user(closed_and_removed)


def _link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path
