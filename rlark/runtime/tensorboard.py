"""TensorBoard event files, written as the format says: a run needs no library for its curves.

(The usual writers import torch where it is installed, which costs a numpy or JAX run a second and
two hundred megabytes.) A file is a sequence of records, a record `length, crc(length), data,
crc(data)` in little endian with masked CRC-32C, and its data the protocol buffer `Event`:

    Event    1: double wall_time   2: int64 step   3: string file_version   5: Summary summary
    Summary  1: repeated Value     Value  1: string tag   2: float simple_value
"""

from __future__ import annotations

import math
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from rlark.host.clock import Clock

FLUSH_S = 2.0
_VERSION = b"brain.Event:2"
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _table()


class EventFile:
    """One event file of a run; events reach the disk every two seconds and at the end."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Begin a file.

        Args:
            folder: made where needed; TensorBoard reads all files in it as one run.
            clock: gives each event its time.

        Raises:
            OSError: it cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        name = f"events.out.tfevents.{int(clock.now().timestamp())}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("ab", buffering=1 << 16)
        self._flushed = clock.monotonic()
        self._append(_bytes(3, _VERSION))
        self._file.flush()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append the scalars of one step.

        Args:
            step: counted from 1.
            values: tag -> number.

        Raises:
            OSError: the disk is full.
        """
        summary = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in values.items())
        self._append(_varint(2 << 3) + _varint(step) + _bytes(5, summary))
        if self._clock.monotonic() - self._flushed >= FLUSH_S:
            self._file.flush()
            self._flushed = self._clock.monotonic()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._file.close()

    def _append(self, event: bytes) -> None:
        data = struct.pack("<Bd", 1 << 3 | 1, self._clock.now().timestamp()) + event
        length = struct.pack("<Q", len(data))
        self._file.write(b"".join((length, _checksum(length), data, _checksum(data))))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _float(field: int, value: float) -> bytes:
    try:
        number = struct.pack("<f", value)
    except OverflowError:  # beyond what four bytes hold
        number = struct.pack("<f", math.copysign(math.inf, value))
    return _varint(field << 3 | 5) + number


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)
