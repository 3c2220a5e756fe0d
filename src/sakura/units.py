"""Sizes, rates and durations as people write and read them.

Inside the code a quantity is a plain number whose name carries the unit: `num_bytes`, `_s`, `_bps`
(bits, not bytes, per second). This module is the border to text.
"""

from __future__ import annotations

import re

from sakura.errors import InputError

KIB = 1 << 10
MIB = 1 << 20
BITS_PER_BYTE = 8
BPS_PER_MBPS = 1_000_000

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)(?:bps|bit(?:/s)?)?", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)(i?)b?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3}


def parse_rate(text: str) -> float:
    """Bits per second of `20M`, `20Mbit/s`, `1.5 gbps` or `800000`; prefixes are powers of 1000."""
    match = _RATE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"{text!r} is not a rate", hint="write it as 20Mbit/s or 800k")
    return float(match[1]) * 1000 ** _POWER[match[2].lower()]


def parse_size(text: str) -> int:
    """Bytes of `64KiB`, `1.5 MB` or `4096`; `Ki` is 1024, `K` is 1000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{text!r} is not a size", hint="write it as 64KiB, 1.5MB or 4096")
    base = 1024 if match[3] else 1000
    return round(float(match[1]) * base ** _POWER[match[2].lower()])


def format_bytes(num_bytes: int) -> str:
    """`512 B`, `1.5 KiB`, `20.0 MiB`."""
    if num_bytes < KIB:
        return f"{num_bytes} B"
    if num_bytes < MIB:
        return f"{num_bytes / KIB:.1f} KiB"
    return f"{num_bytes / MIB:.1f} MiB"


def format_rate(rate_bps: float) -> str:
    """`800 kbit/s`, `20.0 Mbit/s`, `1.20 Gbit/s`."""
    if rate_bps < 1e6:
        return f"{rate_bps / 1e3:.0f} kbit/s"
    if rate_bps < 1e9:
        return f"{rate_bps / 1e6:.1f} Mbit/s"
    return f"{rate_bps / 1e9:.2f} Gbit/s"


def format_duration(duration_s: float) -> str:
    """`850 us`, `12.3 ms`, `1.25 s`."""
    if abs(duration_s) < 1e-3:
        return f"{duration_s * 1e6:.0f} us"
    if abs(duration_s) < 1:
        return f"{duration_s * 1e3:.1f} ms"
    return f"{duration_s:.2f} s"
