"""A link's rate over time: how many bytes it can carry by when, and the inverse.

Pure: no clock, no sockets. CSV form: header `time_s,mbps`, one row per sample, time from 0; a rate
holds until the next row, the last one for one median step.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from statistics import median

from sakura.errors import InputError
from sakura.units import BITS_PER_BYTE, BPS_PER_MBPS

HEADER = "time_s,mbps"
_MAX_FILE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Trace:
    """A step function of time; by default it repeats after `duration_s`.

    Attributes:
        times_s: start of each step, from 0, strictly rising.
        rates_bps: bits per second during each step, not negative, at least one positive.
        name: for messages and plots.
        duration_s: end of the last step; 0 means one median step after the last start (1 s for one
            step).
    """

    times_s: tuple[float, ...]
    rates_bps: tuple[float, ...]
    name: str = "trace"
    duration_s: float = 0.0
    _sums: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_steps(self.times_s, self.rates_bps, self.name)
        if self.duration_s == 0.0:
            steps = [later - earlier for earlier, later in pairwise(self.times_s)]
            object.__setattr__(
                self, "duration_s", self.times_s[-1] + (median(steps) if steps else 1.0)
            )
        if not self.times_s[-1] < self.duration_s < math.inf:
            raise InputError(
                f"duration {self.duration_s} s ends before the last step", where=self.name
            )
        sums = [0.0]
        ends = (*self.times_s[1:], self.duration_s)
        for start, end, rate in zip(self.times_s, ends, self.rates_bps, strict=True):
            sums.append(sums[-1] + (end - start) * rate / BITS_PER_BYTE)
        object.__setattr__(self, "_sums", tuple(sums))

    @classmethod
    def constant(cls, rate_bps: float, name: str = "constant") -> Trace:
        """The same rate for ever."""
        return cls((0.0,), (float(rate_bps),), name)

    @classmethod
    def outage(cls, rate_bps: float, start_s: float, length_s: float, duration_s: float) -> Trace:
        """`rate_bps`, but nothing in [start_s, start_s + length_s); repeats after `duration_s`."""
        times, rates = [0.0, start_s, start_s + length_s], [rate_bps, 0.0, rate_bps]
        first = 1 if start_s == 0 else 0
        return cls(tuple(times[first:]), tuple(rates[first:]), "outage", duration_s)

    @property
    def mean_bps(self) -> float:
        """Mean rate over one pass."""
        return self._sums[-1] * BITS_PER_BYTE / self.duration_s

    def scaled(self, rate: float = 1.0, time: float = 1.0) -> Trace:
        """Rates times `rate`; time axis times `time` (0.01: a recorded second passes in 10 ms)."""
        return Trace(
            tuple(t * time for t in self.times_s),
            tuple(r * rate for r in self.rates_bps),
            self.name,
            self.duration_s * time,
        )

    def rate_at(self, time_s: float, loop: bool = True) -> float:
        """Bits per second at `time_s`; without `loop` the last rate holds on."""
        within = time_s % self.duration_s if loop else time_s
        return self.rates_bps[max(0, bisect_right(self.times_s, within) - 1)]

    def bytes_by(self, time_s: float, loop: bool = True) -> float:
        """Exact integral of the rate over [0, time_s], in bytes."""
        passes, within = divmod(time_s, self.duration_s) if loop else (0.0, time_s)
        index = max(0, bisect_right(self.times_s, within) - 1)
        partial = (within - self.times_s[index]) * self.rates_bps[index] / BITS_PER_BYTE
        return passes * self._sums[-1] + self._sums[index] + partial

    def time_of(self, num_bytes: float, loop: bool = True) -> float:
        """First moment by which `num_bytes` can have passed; infinity where that never happens."""
        total = self._sums[-1]
        slack = max(1e-6, num_bytes * 1e-12)  # rounding must not push bytes past an outage
        passes = max(0, math.ceil((num_bytes - slack) / total) - 1) if loop else 0
        num_bytes -= passes * total
        # The step whose end sum reaches num_bytes first; behind the last one, its rate holds on.
        reached = bisect_left(self._sums, num_bytes - slack)
        index = min(max(reached, 1), len(self.rates_bps)) - 1
        missing = num_bytes - self._sums[index]
        if missing <= 0:
            return passes * self.duration_s + self.times_s[index]
        rate = self.rates_bps[index]
        extra = missing * BITS_PER_BYTE / rate if rate > 0 else math.inf
        return passes * self.duration_s + self.times_s[index] + extra


def load_trace(name_or_path: str | Path) -> Trace:
    """A shipped trace by name (`lte-drive`), or a CSV file by path. Raises InputError."""
    shipped = files("sakura") / "assets" / "traces"
    if isinstance(name_or_path, str) and name_or_path in trace_names():
        return parse_trace((shipped / f"{name_or_path}.csv").read_text("utf-8"), name_or_path)
    path = Path(name_or_path)
    try:
        if not path.is_file():
            hint = f"shipped traces: {', '.join(trace_names())}"
            raise InputError("no such trace", where=str(name_or_path), hint=hint)
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InputError(f"a trace file has at most {_MAX_FILE_BYTES} bytes", where=str(path))
        return parse_trace(path.read_text("utf-8"), path.stem)
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"cannot read the trace: {error}", where=str(path)) from error


def trace_names() -> tuple[str, ...]:
    """Names of the shipped traces."""
    shipped = files("sakura") / "assets" / "traces"
    names = (entry.name for entry in shipped.iterdir())
    return tuple(sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv")))


def parse_trace(text: str, name: str) -> Trace:
    """Read the CSV form. Raises InputError with the line number."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != HEADER:
        found = repr(lines[0][:40]) if lines else "nothing"
        raise InputError(f"found {found}, expected the header {HEADER!r}", where=f"{name}:1")
    rows = [_parse_row(line, f"{name}:{n}") for n, line in enumerate(lines[1:], 2) if line.strip()]
    if not rows:
        raise InputError("the trace has no rows", where=name)
    return Trace(tuple(t for t, _ in rows), tuple(v * BPS_PER_MBPS for _, v in rows), name)


def _parse_row(line: str, where: str) -> tuple[float, float]:
    fields = line.split(",")
    try:
        time_s, mbps = (float(text) for text in fields)
    except ValueError as error:
        raise InputError(f"found {line[:40]!r}, expected two numbers", where=where) from error
    return time_s, mbps


def _check_steps(times_s: Sequence[float], rates_bps: Sequence[float], name: str) -> None:
    if not times_s or len(times_s) != len(rates_bps):
        raise InputError(f"{len(times_s)} times for {len(rates_bps)} rates", where=name)
    if times_s[0] != 0:
        raise InputError(f"time starts at {times_s[0]}, expected 0", where=name)
    for index, (earlier, later) in enumerate(pairwise(times_s)):
        if not earlier < later < math.inf:
            raise InputError(f"time {later} after {earlier}", where=f"{name}: sample {index + 2}")
    for index, rate in enumerate(rates_bps):
        if not 0 <= rate < math.inf:
            raise InputError(f"rate is {rate}", where=f"{name}: sample {index + 1}")
    if not any(rates_bps):
        raise InputError(
            "the rate is 0 all the time", where=name, hint="a dead link carries nothing"
        )
