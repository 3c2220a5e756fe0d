"""How fast bytes arrive: goodput over the union of busy time, time to first byte apart.

Pure: every call says what time it is. Busy means that a fetch is open and the first byte since the
link was last idle has come; what several fetches carry at once counts as one stream, because that
is what the next bytes will get. Two averages run at once, the smaller wins (as in hls.js and
Shaka); silence on an open fetch counts at once, so the estimate falls before the bytes do.
"""

from __future__ import annotations

from dataclasses import dataclass

from sakura.units import BITS_PER_BYTE, KIB

HALF_LIVES_S = (0.15, 0.6)
"""Of busy time. Mobile links keep their rate for about a second (autocorrelation 0.7 to 0.95)."""
MIN_BUSY_S = 0.004
MIN_BYTES = 4 * KIB
TTFB_WEIGHT = 0.3


@dataclass(slots=True)
class _Average:
    """Bytes and seconds that both fade with time: their ratio is a weighted mean rate."""

    half_life_s: float
    num_bytes: float = 0.0
    busy_s: float = 0.0

    def after(self, busy_s: float) -> tuple[float, float]:
        """Bytes and seconds after `busy_s` more seconds in which nothing came."""
        fade = 0.5 ** (busy_s / self.half_life_s)
        return self.num_bytes * fade, self.busy_s * fade + busy_s

    def rate_bps(self, silent_s: float) -> float:
        """Mean rate, `silent_s` seconds after the last byte."""
        num_bytes, busy_s = self.after(silent_s)
        return BITS_PER_BYTE * num_bytes / busy_s if busy_s > 0 else 0.0


class Throughput:
    """The estimate of one run.

    Args:
        prior_bps: what an earlier run measured; holds until this one has measured enough.
    """

    def __init__(self, prior_bps: float | None = None) -> None:
        self._prior_bps = prior_bps
        self._averages = tuple(_Average(half_life_s) for half_life_s in HALF_LIVES_S)
        self._waiting: dict[int, float] = {}  # fetches without a byte yet, and when they began
        self._open: set[int] = set()
        self._last_s: float | None = None  # latest byte of this busy period
        self._total_bytes = 0
        self._total_busy_s = 0.0
        self.ttfb_s: float | None = None
        self.least_ttfb_s: float | None = None

    def started(self, fetch: int, now_s: float) -> None:
        """A fetch was sent."""
        if not self._open:
            self._last_s = None
        self._open.add(fetch)
        self._waiting[fetch] = now_s

    def arrived(self, fetch: int, num_bytes: int, now_s: float) -> None:
        """Some of its bytes came."""
        if fetch not in self._open:
            return
        if fetch in self._waiting:
            self._note_first_byte(now_s - self._waiting.pop(fetch))
        if self._last_s is None:  # these bytes begin the busy period, no time belongs to them
            self._last_s = now_s
            return
        self._add(num_bytes, max(0.0, now_s - self._last_s))
        self._last_s = now_s

    def ended(self, fetch: int, now_s: float) -> None:
        """It is complete, abandoned or failed; silence until now counts."""
        if fetch not in self._open:
            return
        if self._last_s is not None and now_s > self._last_s:
            self._add(0, now_s - self._last_s)
            self._last_s = now_s
        self._open.discard(fetch)
        self._waiting.pop(fetch, None)

    @property
    def is_measured(self) -> bool:
        """Whether this run has measured enough to be believed."""
        return self._total_bytes >= MIN_BYTES and self._total_busy_s >= MIN_BUSY_S

    def estimate_bps(self, now_s: float) -> float | None:
        """Payload bits per second to expect, or None where nothing is known."""
        if not self.is_measured:
            return self._prior_bps
        silent_s = 0.0
        if self._open and self._last_s is not None:
            silent_s = max(0.0, now_s - self._last_s)
        return min(average.rate_bps(silent_s) for average in self._averages)

    def _add(self, num_bytes: int, busy_s: float) -> None:
        for average in self._averages:
            before, seconds = average.after(busy_s)
            average.num_bytes, average.busy_s = before + num_bytes, seconds
        self._total_bytes += num_bytes
        self._total_busy_s += busy_s

    def _note_first_byte(self, seconds: float) -> None:
        old, least = self.ttfb_s, self.least_ttfb_s
        self.least_ttfb_s = seconds if least is None else min(least, seconds)
        self.ttfb_s = seconds if old is None else old + TTFB_WEIGHT * (seconds - old)
