from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from rlark.runtime.tensorboard import FLUSH_S, EventFile
from rlark.testing import FakeClock


def events(folder: Path):
    """Reads event files as TensorBoard's own reader does: framing, checksums, protocol buffers."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader",
        reason="tensorboard is missing: pip install tensorboard",
    )
    (path,) = folder.iterdir()
    return list(accumulator.EventFileLoader(str(path)).Load())


def test_tensorboard_reads_what_was_written(tmp_path: Path):
    clock = FakeClock()
    file = EventFile(tmp_path / "tb", clock)
    file.write(1, {"meanReward": -0.5, "länge": 3.0})
    clock.advance(1.5)
    file.write(300, {"meanReward": 1e39})
    file.close()
    first, second, third = events(tmp_path / "tb")
    assert first.file_version == "brain.Event:2"
    values = {value.tag: value for value in second.summary.value}
    assert set(values) == {"meanReward", "länge"}
    assert (second.step, third.step, third.wall_time - second.wall_time) == (1, 300, 1.5)
    assert _number(values["meanReward"]) == -0.5
    assert _number(third.summary.value[0]) == math.inf


def _number(value) -> float:
    """TensorBoard migrates scalars to tensors when it reads them."""
    return value.simple_value if value.WhichOneof("value") == "simple_value" else value.tensor.float_val[0]


def test_curves_can_be_read_while_the_run_goes_on(tmp_path: Path):
    clock = FakeClock()
    file = EventFile(tmp_path, clock)
    (path,) = tmp_path.iterdir()
    begun = path.stat().st_size
    file.write(1, {"a": 1.0})
    assert path.stat().st_size == begun
    clock.advance(FLUSH_S)
    file.write(2, {"a": 2.0})
    assert path.stat().st_size > begun
    file.close()


def test_a_record_is_framed_with_its_length(tmp_path: Path):
    EventFile(tmp_path, FakeClock()).close()
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    assert len(data) == 8 + 4 + length + 4
