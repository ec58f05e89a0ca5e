from __future__ import annotations

import os
import pickle
from collections import OrderedDict, deque
from pathlib import Path

import numpy as np
import pytest

from rlark.runtime import plain

VALUES = [
    None,
    {"a": [1, 2.5, "text", b"bytes", True], "t": (1,)},
    {1, 2},
    deque([True, False], maxlen=2),
    OrderedDict(a=1),
    np.float32(0.5),
    np.bool_(True),
    1 + 2j,
    np.random.Generator(np.random.PCG64(1)).bit_generator.state,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(value):
    assert plain.loads(plain.dumps(value)) == value


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool", "<U3"])
def test_arrays_come_back(kind, order):
    array = np.asarray(np.arange(6).reshape(2, 3).astype(kind), order=order)
    found = plain.loads(plain.dumps({"a": array, "part": array[:, 1:]}))
    np.testing.assert_array_equal(found["a"], array)
    np.testing.assert_array_equal(found["part"], array[:, 1:])
    assert found["a"].dtype == array.dtype


class Harmful:
    """A pickle that runs a command when it is read."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self._mark}",)


def test_what_would_run_something_is_refused_before_it_runs(tmp_path: Path):
    data = pickle.dumps({"actor": Harmful(tmp_path / "ran")})
    with pytest.raises(plain.NotPlain, match=r"names posix\.system"):
        plain.loads(data)
    assert not (tmp_path / "ran").exists()


def test_an_object_of_a_class_is_refused_when_it_is_written(tmp_path: Path):
    with pytest.raises(plain.NotPlain, match="pathlib"):
        plain.dumps({"path": tmp_path})


@pytest.mark.parametrize("data", [b"", b"no pickle", pickle.dumps([1, 2])[:-1], b"\x80\x05c\n\n."])
def test_what_is_no_pickle_is_told(data):
    with pytest.raises(ValueError, match=r"it cannot be read|it names"):
        plain.loads(data)
