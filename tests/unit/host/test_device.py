from __future__ import annotations

import json
import os

import pytest

from rlark.host import device

FOUR = """\
0, GPU-aaaa0000, NVIDIA H200, 143771, 12, 570.86.15, 9.0
1, GPU-bbbb1111, NVIDIA H200, 143771, 0, 570.86.15, 9.0
2, GPU-cccc2222, NVIDIA H200, 143771, 0, 570.86.15, 9.0
3, GPU-cccc3333, NVIDIA H200, [N/A], [N/A], 570.86.15, [N/A]
"""


@pytest.fixture
def machine(tmp_path):
    """A machine whose nvidia-smi prints what it is told to."""

    def build(text: str = FOUR, code: int = 0, **env: str) -> dict[str, str]:
        program = tmp_path / "nvidia-smi"
        (tmp_path / "answer").write_text(text)
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/answer\nexit {code}\n")
        program.chmod(0o755)
        return {"PATH": str(tmp_path), **env}

    return build


def test_cards_are_reported_with_uuid_memory_and_driver(machine, tmp_path):
    found = device.report(tmp_path, machine())
    assert [card.index for card in found.gpus] == [0, 1, 2, 3]
    first = found.gpus[0]
    assert (first.uuid, first.name, first.driver) == ("GPU-aaaa0000", "NVIDIA H200", "570.86.15")
    assert (first.memory, first.memory_used) == (143771 * device.MIB, 12 * device.MIB)
    assert (found.gpus[3].memory, found.gpus[3].compute_capability) == (0, "")
    assert found.gpu_note == ""


@pytest.mark.parametrize(
    ("restriction", "expected"),
    [
        ("2,0", [2, 0]),
        ("", []),
        ("-1", []),
        ("1, 7, 0", [1]),  # CUDA stops at the first that does not exist
        ("1,1,0", [1]),
        ("GPU-bbbb1111,0", [1, 0]),
        ("GPU-bb", [1]),
    ],
)
def test_an_outer_restriction_is_honoured_as_cuda_reads_it(machine, tmp_path, restriction, expected):
    found = device.report(tmp_path, machine(CUDA_VISIBLE_DEVICES=restriction))
    assert [card.index for card in found.gpus] == expected
    assert found.gpus_installed == 4
    assert found.visible_devices == restriction


def test_a_card_is_found_by_number_and_by_uuid(machine, tmp_path):
    found = device.report(tmp_path, machine(CUDA_VISIBLE_DEVICES="2,3"))
    assert found.gpu("2").uuid == "GPU-cccc2222"
    assert found.gpu("GPU-cccc3333").index == 3
    assert found.gpu("0") is None


def test_no_driver_is_said_and_is_no_error(tmp_path):
    found = device.report(tmp_path, {"PATH": str(tmp_path)})
    assert list(found.gpus) == []
    assert "nvidia-smi is not on PATH" in found.gpu_note


def test_a_driver_that_fails_gives_its_own_reason(machine, tmp_path):
    found = device.report(tmp_path, machine("Failed to initialize NVML: Driver/library version mismatch\n", code=18))
    assert list(found.gpus) == []
    assert "Driver/library version mismatch" in found.gpu_note


def test_the_machine_itself_is_reported(tmp_path):
    found = device.report(tmp_path / "not" / "there" / "yet", {"PATH": ""})
    assert found.cores == len(os.sched_getaffinity(0))
    assert 0 < found.memory_free <= found.memory
    assert found.disk_free > 0
    assert json.loads(json.dumps(found.to_json()))["cores"] == found.cores
