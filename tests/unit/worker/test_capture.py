from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlark.redactor import Redactor
from rlark.worker.capture import LONGEST, Capture, Splitter


def split(*chunks: bytes) -> list[str]:
    splitter = Splitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"it", b"er 1", b"/4\nit", b"er 2/4\n"], ["iter 1/4", "iter 2/4"]),
        ([b"a\r\nb\r", b"\nc"], ["a", "b", "c"]),
        ([b"\r10%\r20%\r", b"30%\ndone"], ["10%", "20%", "30%", "done"]),
        ([b"a\n\n", b"\nb\n"], ["a", "", "", "b"]),
        ([b"caf\xc3", b"\xa9\n\xff\n"], ["café", "\ufffd"]),
        ([b"last\r"], ["last"]),
        ([b""], []),
    ],
)
def test_lines_are_whole_wherever_the_chunks_are_cut(chunks: list[bytes], lines: list[str]):
    assert split(*chunks) == lines
    assert split(*(bytes([byte]) for chunk in chunks for byte in chunk)) == lines


def test_a_line_without_end_is_cut_and_not_kept_in_memory():
    lines = split(b"x" * (2 * LONGEST + 5), b"\n")
    assert [len(line) for line in lines] == [LONGEST, LONGEST, 5]


class Stream:
    """A pipe into a capture."""

    def __init__(self, path: Path, secrets=(), mark: str | None = None):
        self.path, self.heard = path, []
        self.capture = Capture(path, lambda: "T", Redactor(secrets))
        source, self._end = os.pipe()
        self.capture.follow(source, self.heard.extend, mark)

    def write(self, data: bytes) -> None:
        os.write(self._end, data)

    def end(self) -> list[str]:
        os.close(self._end)
        self.capture.finish(5)
        self.capture.close()
        return self.path.read_text().splitlines() if self.path.is_file() and not self.path.is_symlink() else []


def test_lines_are_stamped_masked_and_told(tmp_path: Path):
    stream = Stream(tmp_path / "stdout.log", secrets=["hunter22"])
    stream.capture.write("Executing run script...")
    stream.write(b"the word is hunter22!\nand half a li")
    stream.write(b"ne")
    assert stream.end() == ["T Executing run script...", "T the word is ***!", "T and half a line"]
    assert stream.heard == ["the word is ***!", "and half a line"]
    assert list(stream.capture.last) == stream.heard


def test_a_secret_of_several_lines_is_masked(tmp_path: Path):
    stream = Stream(tmp_path / "stdout.log", secrets=["BEGIN KEY\nabcdef\nEND KEY"])
    stream.write(b"x\nBEGIN KEY\nabcdef\nEND KEY\ny\n")
    assert stream.end() == ["T x", "T ***", "T y"]


def test_what_prepare_prints_is_logged_and_not_told(tmp_path: Path):
    stream = Stream(tmp_path / "stdout.log", mark="here it ends")
    stream.write(b"iter 1/4 of the installation\n")
    assert not stream.capture.marked.is_set()
    stream.write(b"half\nhere it ends\niter 1/4\n")
    assert stream.capture.marked.wait(5)
    assert stream.end() == ["T iter 1/4 of the installation", "T half", "T iter 1/4"]
    assert stream.heard == ["iter 1/4"]


def test_a_full_disk_does_not_block_the_run(tmp_path: Path):
    (tmp_path / "stdout.log").symlink_to("/dev/full")
    stream = Stream(tmp_path / "stdout.log")
    for _ in range(64):
        stream.write(b"x" * 4095 + b"\n")
    stream.end()
    assert stream.capture.error is not None
    assert len(stream.heard) == 64
    with pytest.raises(OSError, match="No space left"):
        Capture(tmp_path / "stdout.log", lambda: "T", Redactor()).write("a marker")


def test_logs_are_readable_by_their_owner_only(tmp_path: Path):
    stream = Stream(tmp_path / "stderr.log")
    stream.end()
    assert stream.path.stat().st_mode & 0o777 == 0o600


def test_what_comes_after_the_end_is_dropped(tmp_path: Path):
    stream = Stream(tmp_path / "stdout.log")
    stream.capture.close()
    stream.write(b"too late\n")
    assert stream.end() == []
