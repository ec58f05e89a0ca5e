from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.episode import OBSTACLE_TRIES, Start, place_obstacles
from engines.tasks.goal_navigation import formula_of
from engines.tasks.observe import LAYOUTS
from engines.tasks.randomise import training_ranges
from rlark.spec.task_pack import TaskPack, Workspace


def begin(pack: TaskPack, count: int, distance: tuple[float, float] = (0.8, 1.2)):
    ranges = training_ranges(pack.domain_randomization)
    start = Start(pack, ranges, LAYOUTS[pack.observation_adapter_id], formula_of(pack))
    rng = np.random.default_rng(0)
    uniform, normal = rng.random((start.uniforms, count)), rng.standard_normal((start.layout.normals, count))
    return start.make(uniform, normal, distance)


def test_robots_start_at_the_origin_and_look_anywhere(pack):
    episodes, _ = begin(pack, 5000)
    assert not episodes.x.any()
    assert not episodes.y.any()
    np.testing.assert_array_equal(episodes.yaw[0], episodes.yaw[1])
    assert episodes.yaw.min() < -3.1
    assert episodes.yaw.max() > 3.1


def test_goals_lie_in_the_range_in_every_direction(pack):
    episodes, _ = begin(pack, 5000, (1.0, 1.5))
    distance = np.hypot(*episodes.goal)
    np.testing.assert_allclose(distance, episodes.distance)
    assert 1.0 <= distance.min() < 1.01
    assert 1.49 < distance.max() <= 1.5
    quadrants = np.sign(episodes.goal).astype(int)
    assert len({tuple(column) for column in quadrants.T}) == 4


def test_obstacles_keep_their_distance_and_stay_inside(make_pack):
    episodes, _ = begin(make_pack(obstacles=5), 20_000)
    keep_out = 0.15 + 0.30
    x, y = episodes.obstacles[:, 0], episodes.obstacles[:, 1]
    assert np.hypot(x, y).min() >= keep_out
    assert np.hypot(x - episodes.goal[0], y - episodes.goal[1]).min() >= keep_out
    assert np.abs(episodes.obstacles).max() <= 2.0 - 0.15
    assert np.abs(episodes.obstacles).max() > 1.8


def test_the_first_free_place_is_taken():
    workspace = Workspace.model_validate({"bound": 2.0, "obstacles": {"count": 1, "radius": 0.15}})
    goal = np.array([[1.0], [0.0]])
    tries = np.full((1, OBSTACLE_TRIES, 2, 1), 0.5)  # on the robot
    tries[0, 3:, :, 0] = [0.9, 0.1]
    half = 2.0 - 0.15
    np.testing.assert_allclose(place_obstacles(workspace, goal, tries)[0, :, 0], [0.8 * half, -0.8 * half])


def test_without_a_free_place_the_corner_opposite_the_goal_is_taken():
    workspace = Workspace.model_validate({"bound": 2.0, "obstacles": {"count": 1, "radius": 0.15}})
    tries = np.full((1, OBSTACLE_TRIES, 2, 2), 0.5)
    places = place_obstacles(workspace, np.array([[1.0, -1.0], [0.5, 0.5]]), tries)
    np.testing.assert_allclose(places[0], [[-1.85, 1.85], [-1.85, -1.85]])


def test_a_workspace_without_room_is_refused(make_pack):
    with pytest.raises(ValueError, match=r"workspace\.bound 0\.4 m leaves no place"):
        begin(make_pack(workspace={"bound": 0.4, "obstacles": {"count": 3, "radius": 0.15}}), 1)


def test_no_obstacles_need_no_room(make_pack):
    episodes, _ = begin(make_pack(workspace={"bound": 0.1}), 2)
    assert episodes.obstacles.shape == (0, 2, 2)
