from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlark.evidence.network import Network
from rlark.evidence.onnx_file import in_double, write_onnx
from rlark.evidence.onnx_policy import OnnxPolicy
from rlark.evidence.parity import Parity, compare, samples_of, skipped

SEEN = np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)


def act(net: Network) -> Callable[[np.ndarray], np.ndarray]:
    """The policy in float32, as another library than ONNX Runtime would compute it."""

    def policy(observation: np.ndarray) -> np.ndarray:
        here = np.clip((observation - net.mean) / net.std, -net.clip, net.clip)
        for index, (weight, bias) in enumerate(net.layers):
            here = here @ weight.T + bias
            if index < len(net.layers) - 1:
                here = np.tanh(here)
        return np.clip(here, -1.0, 1.0).astype(np.float32)

    return policy


@pytest.fixture
def parity(tmp_path: Path) -> Callable[..., Parity]:
    """The file of one network against the checkpoint of another."""

    def judge(written: Network, checkpoint: Network, seen: np.ndarray = SEEN) -> Parity:
        path = tmp_path / "policy.onnx"
        write_onnx(path, written, producer="test")
        policy, exact = OnnxPolicy(path), OnnxPolicy(in_double(path))
        return compare(policy, exact, act(checkpoint), checkpoint, seen, checkpoint="c", onnx_name="policy.onnx")

    return judge


def changed(net: Network, by: float) -> Network:
    """One weight of the last layer is another."""
    weight, bias = net.layers[-1]
    other = weight.copy()
    other[0, 0] += np.float32(by)
    return replace(net, layers=[*net.layers[:-1], (other, bias)])


def test_a_file_agrees_with_its_own_checkpoint(parity, make_network):
    found = parity(make_network(), make_network())
    assert (found.verdict, found.samples, found.obs_dim, found.action_dim) == ("pass", 64, 8, 2)
    assert found.atol == 1e-6
    assert found.parity_max_abs_error < 1e-12
    assert 0 < found.rounding_max_abs_error < 1e-6


def test_out_of_range_is_tried_too():
    samples = samples_of(SEEN)
    np.testing.assert_array_equal(samples[:32], SEEN)
    assert np.abs(samples[32:]).max() > 10 * np.abs(SEEN).max()


@pytest.mark.parametrize("by", [0.05, 1e-3, 1e-5])
def test_one_changed_weight_is_found(parity, make_network, by):
    found = parity(make_network(), changed(make_network(), by))
    assert found.verdict == "failed"
    assert found.parity_max_abs_error > found.atol


def test_wide_nets_round_differently_pass_and_hide_no_changed_weight(parity):
    rng = np.random.default_rng(0)
    sizes = [(256, 8), (256, 256), (2, 256)]
    layers = [(rng.normal(size=size).astype(np.float32), np.zeros(size[0], np.float32)) for size in sizes]
    net = Network(np.zeros(8, np.float32), np.full(8, 0.5, np.float32), 10.0, layers)
    found = parity(net, net)
    assert found.verdict == "pass"
    assert found.parity_max_abs_error < 1e-9
    assert 1e-6 < found.rounding_max_abs_error < 1e-4
    assert parity(net, changed(net, 3e-5)).verdict == "failed"  # less than what rounding does


def test_a_forgotten_normaliser_is_seen(parity, make_network):
    bare = replace(make_network(), mean=np.zeros(8, np.float32), std=np.ones(8, np.float32))
    assert parity(make_network(), bare).verdict == "failed"


def test_a_forgotten_clamp_is_seen_out_of_range_only(parity, make_network):
    loose = replace(make_network(), clip=1e6)
    assert parity(loose, make_network(), SEEN * np.float32(1e-3)).verdict == "failed"


def test_a_nan_fails(parity, make_network):
    net = make_network()
    weight, bias = net.layers[-1]
    found = parity(replace(net, layers=[*net.layers[:-1], (weight, bias * np.float32(np.nan))]), net)
    assert (found.verdict, found.parity_max_abs_error) == ("failed", None)
    found.to_json()


def test_what_was_not_compared_says_why():
    told = skipped("c", "policy.onnx", "no ONNX here").to_json()
    assert (told["verdict"], told["reason"], told["samples"]) == ("skipped", "no ONNX here", 0)
