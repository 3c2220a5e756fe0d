"""Sizes and rates as text."""

from __future__ import annotations

import pytest

from sakura.errors import InputError
from sakura.units import format_bytes, format_duration, format_rate, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "rate"),
    [("20M", 20e6), ("20Mbit/s", 20e6), ("1.5 gbps", 1.5e9), ("800k", 8e5), (" 64000 ", 64e3)],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65536), ("64KB", 64000), ("1.5 MB", 1_500_000), ("4096", 4096), ("2Gi", 2 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "fast", "-1M", "0", "1e6", "nan", "20MB/s", "20 M M"])
def test_bad_rates(text: str) -> None:
    with pytest.raises(InputError, match="not a rate"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "big", "-1", "1 TiB", "0x10"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InputError, match="not a size"):
        parse_size(text)


def test_formats() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 3 << 20)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 MiB",
    ]
    assert [format_rate(r) for r in (8e5, 2e7, 1.2e9)] == [
        "800 kbit/s",
        "20.0 Mbit/s",
        "1.20 Gbit/s",
    ]
    assert [format_duration(d) for d in (8.5e-4, 0.0123, 1.25)] == ["850 us", "12.3 ms", "1.25 s"]
