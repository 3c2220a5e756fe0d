"""How long blocks take on this device, and therefore when later ones can start.

Pure: durations come in as arguments. Knows nothing of bytes.
"""

from __future__ import annotations

from typing import Literal

Mode = Literal["compute", "inject"]

WEIGHT = 0.3
"""Share of the newest measurement in the moving average."""


class BlockTimes:
    """Moving average of each block's duration, with all tokens and with the active ones alone."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._seconds: dict[tuple[int, Mode], float] = {}
        self._fastest: dict[int, float] = {}

    def observe(self, block: int, mode: Mode, duration_s: float) -> None:
        """A block was executed."""
        old = self._seconds.get((block, mode))
        new = duration_s if old is None else old + WEIGHT * (duration_s - old)
        self._seconds[block, mode] = new
        self._fastest.clear()

    def expected_s(self, block: int, mode: Mode) -> float | None:
        """Duration of a block; the mean of the others where it has not run yet."""
        own = self._seconds.get((block, mode))
        if own is not None:
            return own
        others = [seconds for (_, kind), seconds in self._seconds.items() if kind == mode]
        return sum(others) / len(others) if others else None

    def step_s(self, mode: Mode, first: int = 0) -> float | None:
        """Duration of blocks `first` and later of a step."""
        parts = [self.expected_s(block, mode) for block in range(first, self._num_blocks)]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def fastest_step_s(self, first: int = 0) -> float:
        """The least time that blocks `first` and later can take; 0 where nothing is known."""
        if first not in self._fastest:
            found = (self.step_s("inject", first), self.step_s("compute", first))
            known = [seconds for seconds in found if seconds is not None]
            self._fastest[first] = min(known, default=0.0)
        return self._fastest[first]
