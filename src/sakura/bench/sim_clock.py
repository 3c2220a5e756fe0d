"""Simulated time: a clock, what is due when, and a place to meet that lets it pass. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

LEAST_WAIT_S = 1e-9
"""A wait of less than a float can tell would last for ever."""


class SimClock:
    """Time stands still until someone lets it pass; then what is due happens in order.

    Attributes:
        now_s: the present time.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()

    def __call__(self) -> float:
        """The present time, as `time.monotonic` gives it."""
        return self.now_s

    def at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` at a time, never for infinity; what is past happens as soon as it can."""
        if time_s < float("inf"):
            heapq.heappush(self._due, (time_s, next(self._order), action, arguments))

    def pass_until(self, time_s: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, at most until `time_s` and until `is_enough` after something happened."""
        due = self._due
        while due and due[0][0] <= time_s:
            when_s, _, action, arguments = heapq.heappop(due)
            self.now_s = max(self.now_s, when_s)
            action(*arguments)
            if is_enough():
                return
        self.now_s = max(self.now_s, time_s)


class SimMeeting:
    """Stands in for a `threading.Condition`: nobody else runs, so whoever waits lets time pass."""

    def __init__(self, clock: SimClock) -> None:
        self._clock, self._is_notified = clock, False

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None) -> bool:
        """Until notified, or for `timeout` seconds."""
        assert timeout is not None
        self._is_notified = False
        end_s = self._clock.now_s + max(timeout, LEAST_WAIT_S)
        self._clock.pass_until(end_s, lambda: self._is_notified)
        return self._is_notified

    def notify_all(self) -> None:
        """End a wait."""
        self._is_notified = True
