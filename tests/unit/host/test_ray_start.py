"""What a head that lives as long as one Job needs; `ray start` for the platform is in test_head."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlark.errors import ClusterError
from rlark.host import ports, ray_start


@pytest.fixture
def short(monkeypatch):
    """Any path is short enough."""
    monkeypatch.setattr(ray_start, "LONGEST_TEMP_DIR", 500)


def test_a_fresh_folder_is_private_and_nobody_elses(tmp_path: Path, short):
    one, two = (ray_start.fresh_temp_dir([tmp_path]) for _ in range(2))
    assert one.parent != two.parent
    assert one.parent.stat().st_mode & 0o777 == 0o700
    assert not one.exists()  # Ray makes it


def test_the_first_place_that_is_short_and_lets_itself_be_written_is_taken(tmp_path: Path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(ray_start, "LONGEST_TEMP_DIR", len(str(tmp_path)) + 15)
    places = [tmp_path / "too-long", tmp_path / "file", tmp_path]
    assert ray_start.fresh_temp_dir(places).parent.parent == tmp_path


def test_without_any_place_it_says_where_it_looked(tmp_path: Path):
    too_long = tmp_path / ("x" * ray_start.LONGEST_TEMP_DIR)
    too_long.mkdir()
    with pytest.raises(ClusterError, match=f"in any of {too_long}"):
        ray_start.fresh_temp_dir([too_long])
    with pytest.raises(ClusterError, match="no place at all"):
        ray_start.fresh_temp_dir([])


def test_only_a_folder_of_ours_is_removed(tmp_path: Path, short):
    made = ray_start.fresh_temp_dir([tmp_path])
    (made / "session").mkdir(parents=True)
    ray_start.remove_temp_dir(made)
    assert not made.parent.exists()
    ray_start.remove_temp_dir(made)

    named_otherwise, opened, link = tmp_path / "mine" / "s", tmp_path / "rlark-open" / "s", tmp_path / "rlark-link"
    for path in (named_otherwise, opened):
        path.mkdir(parents=True)
    opened.parent.chmod(0o755)
    link.symlink_to(named_otherwise.parent)
    for path in (named_otherwise, opened, link / "s"):
        ray_start.remove_temp_dir(path)
    assert named_otherwise.exists()
    assert opened.exists()


def test_every_port_of_a_head_is_its_own():
    with ports.claim_block() as block:
        chosen = ray_start.HeadPorts.take(block)
        lowest, highest = chosen.workers
        assert len(set(chosen.numbers.values())) == 11
        assert not [number for number in chosen.numbers.values() if lowest <= number <= highest]
        assert set(chosen.env) == {"DASHBOARD_METRIC_PORT", "AUTOSCALER_METRIC_PORT"}
        assert len(chosen.flags) == 11
        assert ray_start.HeadPorts.take(block, 8265).numbers["dashboard-port"] == 8265


def test_a_port_that_is_in_use_is_not_taken(monkeypatch):
    with ports.claim_block() as block:
        busy = {block.first, block.first + 2}
        monkeypatch.setattr(ports, "free", lambda port: port not in busy)
        assert not busy & set(ray_start.HeadPorts.take(block).numbers.values())
