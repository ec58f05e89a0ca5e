from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.episode import Start
from engines.tasks.goal_navigation import Outcome, World
from engines.tasks.observe import LAYOUTS
from engines.tasks.randomise import Ranges, fixed
from rlark.spec.dynamics import Envelope
from rlark.spec.task_pack import TaskPack

STILL = Envelope(1, 0.0, 0, 0, 0, 0, 0, 1)


class Robots:
    """A few robots under one envelope, with their goals ahead of them where a test wants it so."""

    def __init__(self, pack: TaskPack, envelope: Envelope, count: int = 1, seed: int = 0) -> None:
        self.pack = pack
        ranges: Ranges = fixed(envelope)
        self.world = World(pack, ranges, count)
        self.start = Start(pack, ranges, LAYOUTS[pack.observation_adapter_id], self.world.formula)
        self.rng = np.random.default_rng(seed)
        self.begin()
        self.at = self.world.episodes

    def begin(self) -> None:
        uniform = self.rng.random((self.start.uniforms, self.world.size))
        normal = self.rng.standard_normal((self.world.normals, self.world.size))
        episodes, frames = self.start.make(uniform, normal, (0.8, 1.2))
        self.world.begin(np.arange(self.world.size), episodes.table, frames)

    def ahead(self, distance: float) -> Robots:
        """Put the goal straight ahead."""
        self.at.yaw[:] = 0.0
        self.at.goal[0], self.at.goal[1] = distance, 0.0
        self.at.distance[:] = distance
        return self

    def step(self, linear: float = 0.0, angular: float = 0.0) -> Outcome:
        action = np.tile(np.array([linear, angular], np.float32), (self.world.size, 1))
        normal = self.rng.standard_normal((self.world.normals, self.world.size))
        lost = self.rng.random(self.world.size) if self.world.drops_frames else None
        return self.world.advance(action, normal, lost)


class TestEnds:
    def test_reaching_the_goal(self, make_pack):
        outcome = Robots(make_pack(obstacles=0), STILL).ahead(0.17).step(1.0)
        assert outcome.success[0]
        assert outcome.terminated[0]
        assert not outcome.timeout[0]
        assert outcome.reward[0] == pytest.approx(0.03 + 10.0 - 0.01 * 0.5)

    def test_just_outside_is_not_reached(self, make_pack):
        assert not Robots(make_pack(obstacles=0), STILL).ahead(0.181).step(1.0).terminated[0]

    def test_a_collision(self, make_pack):
        robots = Robots(make_pack(obstacles=1), STILL).ahead(1.0)
        robots.at.obstacles[0, :, 0] = [0.17, 0.0]
        outcome = robots.step(1.0)
        assert outcome.collision[0]
        assert outcome.terminated[0]
        assert outcome.reward[0] == pytest.approx(0.03 - 5.0 - 0.005)

    def test_beside_an_obstacle_is_no_collision(self, make_pack):
        robots = Robots(make_pack(obstacles=1), STILL).ahead(1.0)
        robots.at.obstacles[0, :, 0] = [0.03, 0.151]
        assert not robots.step(1.0).collision[0]

    def test_leaving_the_workspace_ends_without_success_or_collision(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL).ahead(1.0)
        robots.at.y[0, 0] = 1.99
        robots.at.yaw[:] = np.pi / 2
        outcome = robots.step(1.0)
        assert outcome.out_of_bounds[0]
        assert outcome.terminated[0]
        assert not (outcome.success[0] or outcome.collision[0] or outcome.timeout[0])

    def test_the_true_pose_counts_not_the_odometry(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL).ahead(1.0)
        robots.at.x[1], robots.at.y[1] = 1.0, 5.0
        assert not robots.step().terminated[0]

    def test_timeout_comes_at_exactly_the_last_step_and_is_no_termination(self, make_pack):
        robots = Robots(make_pack(obstacles=0, timeout=5), STILL)
        outcomes = [robots.step() for _ in range(5)]
        assert [bool(outcome.timeout[0]) for outcome in outcomes] == [False] * 4 + [True]
        assert not outcomes[-1].terminated[0]

    def test_success_in_the_last_step_is_success(self, make_pack):
        robots = Robots(make_pack(obstacles=0, timeout=1), STILL).ahead(0.17)
        outcome = robots.step(1.0)
        assert outcome.success[0]
        assert not outcome.timeout[0]


class TestDynamics:
    def test_slip_makes_the_odometry_run_ahead(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL._replace(slip_scale=0.5)).ahead(1.5)
        for _ in range(20):
            robots.step(1.0)
        assert robots.at.x[1, 0] > robots.at.x[0, 0] + 0.01

    def test_the_odometry_does_not_see_the_bias(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL._replace(angular_bias_rad_sec=0.05)).ahead(1.5)
        for _ in range(10):
            robots.step(0.1)
        assert robots.at.yaw[1, 0] == 0.0
        assert robots.at.yaw[0, 0] == pytest.approx(0.05)

    def test_a_lost_frame_repeats_the_one_before(self, make_pack):
        noisy = STILL._replace(odom_dropout_prob=1.0, odom_noise_std_m=0.05)
        robots = Robots(make_pack(obstacles=0), noisy, count=3)
        first = robots.world.observation.copy()
        np.testing.assert_array_equal(robots.step(1.0).observation, first)

    def test_nothing_is_lost_without_dropout(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL._replace(odom_noise_std_m=0.05))
        first = robots.world.observation.copy()
        assert (robots.step(1.0).observation[:, :2] != first[:, :2]).all()

    def test_a_new_episode_forgets_waiting_commands(self, make_pack):
        robots = Robots(make_pack(obstacles=0), STILL._replace(action_latency_steps=2))
        robots.step(1.0)
        robots.step(1.0)
        robots.begin()
        robots.step(0.0)
        robots.step(0.0)
        assert np.hypot(robots.at.x[0, 0], robots.at.y[0, 0]) == 0.0

    def test_robots_do_not_influence_each_other(self, make_pack):
        pack, envelope = make_pack(obstacles=2), Envelope(0.8, 0.2, 0, 0, 0.02, 1, 0, 0.9)
        many = Robots(pack, envelope, count=4)
        one = Robots(pack, envelope, count=1)
        one.world.begin(np.arange(1), many.at.table[:, 2:3].copy(), np.zeros((1, 8)))
        for _ in range(10):
            many.step(0.7, 0.3)
            one.step(0.7, 0.3)
        np.testing.assert_array_equal(one.at.x[:, 0], many.at.x[:, 2])


class TestHistory:
    def test_frames_stand_oldest_first_with_zeros_before_the_first(self, make_pack):
        robots = Robots(make_pack(frames=3, obstacles=0), STILL)
        first = robots.world.observation.copy()
        assert first.shape == (1, 24)
        assert not first[0, :16].any()
        assert first[0, 16:].any()
        second = robots.step(1.0).observation
        assert not second[0, :8].any()
        np.testing.assert_array_equal(second[0, 8:16], first[0, 16:])
        third = robots.step(1.0).observation
        np.testing.assert_array_equal(third[0, :16], second[0, 8:])

    def test_a_new_episode_starts_from_zeros(self, make_pack):
        robots = Robots(make_pack(frames=3, obstacles=0), STILL)
        for _ in range(3):
            robots.step(1.0)
        robots.begin()
        assert not robots.world.observation[0, :16].any()

    def test_a_lost_frame_stands_there_twice(self, make_pack):
        noisy = STILL._replace(odom_dropout_prob=1.0, odom_noise_std_m=0.05)
        robots = Robots(make_pack(frames=3, obstacles=0), noisy)
        first = robots.world.observation.copy()
        second = robots.step(1.0).observation
        np.testing.assert_array_equal(second[0, 8:16], first[0, 16:])
        np.testing.assert_array_equal(second[0, 16:], first[0, 16:])

    def test_forty_two_numbers_have_a_history_too(self, make_pack):
        robots = Robots(make_pack(frames=4, obstacles=0, layout="imu-gravity-v1"), STILL)
        for _ in range(3):
            seen = robots.step(1.0).observation
        assert seen.shape == (1, 4 * 42)
        assert list(seen[0, 5::42]) == [-1.0] * 4  # gravity

    def test_a_frame_is_drawn_once(self, make_pack):
        """The noise of a frame is the same now and later, when it has become history."""
        robots = Robots(make_pack(frames=2, obstacles=0), STILL._replace(odom_noise_std_m=0.05))
        before = robots.step(0.5).observation
        assert (robots.step(0.5).observation[0, :8] == before[0, 8:]).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("motor_gain", 0.8),
        ("lag_tau_seconds", 0.25),
        ("gyro_noise_std_rad_sec", 0.05),
        ("odom_noise_std_m", 0.02),
        ("angular_bias_rad_sec", 0.05),
        ("action_latency_steps", 2),
        ("odom_dropout_prob", 1.0),
        ("slip_scale", 0.8),
    ],
)
def test_every_randomised_quantity_changes_what_is_seen_or_done(make_pack, name, value):
    pack = make_pack(obstacles=0, layout="imu-gravity-v1")
    plain, changed = (Robots(pack, envelope, seed=3) for envelope in (STILL, STILL._replace(**{name: value})))
    seen = []
    for robots in (plain, changed):
        robots.ahead(1.0).rng = np.random.default_rng(4)
        shown = [robots.step(1.0, 0.5).observation.copy() for _ in range(4)]
        seen.append((np.concatenate(shown), robots.at.x.copy(), robots.at.yaw.copy()))
    assert any((one != other).any() for one, other in zip(*seen, strict=True))
