from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rlark.runtime import device_memory
from rlark.runtime.codec import pack, same, unpack
from rlark.runtime.device_memory import Handle


class Pair(NamedTuple):
    left: np.ndarray
    right: torch.Tensor


@dataclasses.dataclass
class Batch:
    observation: np.ndarray
    extra: dict[str, object]


def passed(value):
    body, arrays = pack(value)
    return unpack(body, [bytearray(array) for array in arrays])


def test_nests_of_arrays_and_tensors_arrive_as_they_were():
    batch = Batch(np.arange(6, dtype=np.float32).reshape(2, 3), {"pair": Pair(np.ones(2), torch.arange(3)), "n": 4})
    got = passed(batch)
    assert got.observation.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (got.extra["pair"].left.tolist(), got.extra["pair"].right.tolist(), got.extra["n"]) == ([1, 1], [0, 1, 2], 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_tensors_of_any_type_stand_beside_the_body(dtype, shape):
    sent = torch.ones(shape).to(dtype)
    _, arrays = pack(sent)
    assert sum(map(len, arrays)) == sent.numel() * sent.element_size()
    got = passed(sent)
    assert (got.dtype, got.shape) == (dtype, sent.shape)
    assert torch.equal(got, sent)


def test_arrays_are_not_copied_into_the_body_and_not_copied_by_packing():
    array, tensor = np.zeros(100_000), torch.zeros(100_000)
    body, arrays = pack([array, tensor])
    assert len(body) < 1000
    array[0], tensor[0] = 1, 2
    assert np.frombuffer(arrays[0], np.float64)[0] == 1
    assert np.frombuffer(arrays[1], np.float32)[0] == 2


def test_what_is_not_contiguous_arrives_too():
    array, tensor = np.arange(6).reshape(2, 3)[:, ::2], torch.arange(6).reshape(2, 3).t()
    _, arrays = pack([array, tensor])
    assert [len(one) for one in arrays] == [4 * 8, 6 * 8]
    got = passed([array, tensor])
    assert (got[0].tolist(), got[1].tolist()) == ([[0, 2], [3, 5]], [[0, 3], [1, 4], [2, 5]])


def test_tensors_that_torch_has_not_computed_yet_or_keeps_in_its_own_way_arrive_too():
    turned = torch.tensor([1 + 2j]).conj()
    got = passed([turned, turned.imag, torch.ones(1).expand(3), torch.eye(2).to_sparse()])
    assert [one.tolist() for one in got[:3]] == [[1 - 2j], [-2], [1, 1, 1]]
    assert got[3].to_dense().tolist() == [[1, 0], [0, 1]]


def test_a_slice_of_one_number_arrives():
    assert passed(torch.arange(6).reshape(2, 3)[1:, 1]).tolist() == [4]


def test_one_array_twice_is_one_array_there():
    array, tensor = np.zeros(3), torch.zeros(3)
    got = passed([array, array, tensor, tensor])
    assert got[0] is got[1]
    assert got[2] is got[3]


def test_a_parameter_arrives_as_a_plain_tensor():
    got = passed({"weight": torch.nn.Parameter(torch.ones(2))})["weight"]
    assert (type(got), got.requires_grad, got.tolist()) == (torch.Tensor, False, [1, 1])


@pytest.mark.parametrize("length", [0, 3, 8, 21])
def test_the_same_bytes_are_the_same(length):
    left, right = bytearray(range(length)), bytearray(range(length))
    assert same(memoryview(left), memoryview(right))
    for i in range(length):
        right[i] ^= 1
        assert not same(memoryview(left), memoryview(right))
        right[i] ^= 1


class OnGpu:
    """What `shared` asks of a CUDA tensor."""

    def __init__(self, index):
        self.device = torch.device("cuda", index)

    def detach(self):
        return self


@pytest.fixture
def reduced(monkeypatch):
    """torch's own part, which needs a GPU, replaced by one that tells what it was given."""
    import torch.multiprocessing.reductions as reductions

    def reduce(tensor):
        return (lambda *arguments: arguments), (*"abcdef", tensor.device.index, "handle")

    monkeypatch.setattr(reductions, "reduce_tensor", reduce)


def test_a_gpu_is_known_by_its_physical_name_in_both_processes(reduced, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-aa")
    handle = device_memory.shared(OnGpu(1), {"GPU-aa"})
    assert handle.gpu == "GPU-aa"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa")
    assert handle.open() == (*"abcdef", 0, "handle")


@pytest.mark.parametrize(
    ("own", "others", "found"),
    [((0, 1), [(1,), (1, 2)], ["GPU-aa"]), ((0,), [(1,)], []), ((0, 1), [(0, 1)], ["4", "GPU-aa"])],
)
def test_gpus_that_everybody_sees(monkeypatch, own, others, found):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-aa")
    assert device_memory.seen_by_all(own, others) == found


def test_a_tensor_on_a_gpu_that_others_do_not_see_goes_through_the_host(reduced, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert device_memory.shared(OnGpu(0), {"5"}) is None
    assert device_memory.shared(OnGpu(2), {"5"}) is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert device_memory.shared(OnGpu(0), {"5"}) is None


def test_a_handle_that_reaches_the_wrong_process_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="a tensor lies on GPU 4, and this process sees none"):
        Handle("4", None, ()).open()
