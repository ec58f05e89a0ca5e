from __future__ import annotations

import pytest

from rlark.spec.quantity import cpu_count, memory_bytes, seconds, spell_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4Gi", 4 * 2**30),
        ("512Mi", 512 * 2**20),
        ("2G", 2 * 10**9),
        ("1.5Ki", 1536),
        ("0", 0),
        (17, 17),
        ("10k", 10_000),
    ],
)
def test_memory(text, count):
    assert memory_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["4 Gi", "Gi", "-1", "4gb", "", "4Xi", True, None, 1.5, -1, "1e9", "٤Gi", 2**63, "9000000P"]
)
def test_no_memory(text):
    with pytest.raises(ValueError, match="write 4Gi"):
        memory_bytes(text)


@pytest.mark.parametrize(("text", "count"), [("500m", 0.5), ("2", 2), (1.5, 1.5), (2, 2), ("1.5", 1.5)])
def test_cpu(text, count):
    assert cpu_count(text) == count


@pytest.mark.parametrize("text", ["0", 0, "-1", "2Gi", True, None, float("nan"), float("inf"), 10**400, "x"])
def test_no_cpu(text):
    with pytest.raises(ValueError, match="no amount of CPU"):
        cpu_count(text)


@pytest.mark.parametrize(
    ("text", "length"),
    [("30s", 30), ("5m", 300), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("1d", 86400)],
)
def test_seconds(text, length):
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["30", 30, "0s", "-5m", "5 m", "1:30", "", None, "5x", "s"])
def test_no_duration(text):
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (12, "12"), (4 * 2**30, "4Gi"), (1536, "1.5Ki"), (1023 * 2**20, "1023Mi"), (2**40, "1Ti")],
)
def test_bytes_for_people(count, text):
    assert spell_bytes(count) == text


@pytest.mark.parametrize("amount", [memory_bytes, cpu_count, seconds])
def test_a_long_text_is_told_in_short(amount):
    with pytest.raises(ValueError, match=r"^'xxx.{50,60}\.\.\. is no") as caught:
        amount("x" * 5000)
    assert len(str(caught.value)) < 200
