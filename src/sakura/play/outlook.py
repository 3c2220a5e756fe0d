"""What lies ahead of the play head, in seconds: how long the rest of an edit takes, and what a
deadline or a wait would mean for it. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.play.deadlines import BlockTimes
from sakura.play.ledger import Ledger
from sakura.play.plan import MOST_LOSS, Haste, Wait

Array = NDArray[Any]


class Outlook:
    """See the module.

    Args:
        times: how long blocks take.
        num_steps: steps of the edit.
        num_blocks: blocks of a step.
    """

    def __init__(self, times: BlockTimes, num_steps: int, num_blocks: int) -> None:
        self._times, self._num_steps, self._num_blocks = times, num_steps, num_blocks
        self._recent: deque[float] = deque(maxlen=num_blocks)

    def observe(self, duration_s: float) -> None:
        """A block was executed, whichever way."""
        self._recent.append(duration_s)

    def until_s(self, blocks: int) -> float | None:
        """How long so many blocks take at the pace of the last step; None before the first one."""
        if not self._recent:
            return None
        return blocks * sum(self._recent) / len(self._recent)

    def play_s(self, step: int, block: int) -> float | None:
        """How long the edit takes from a block on if it is computed; None if not known."""
        step_s = self._times.step_s("compute")
        rest_s = self._times.step_s("compute", block)
        if step_s is None or rest_s is None:
            return None
        return rest_s + (self._num_steps - step - 1) * step_s

    def starts_s(self, step: int, block: int) -> Array:
        """When each later step can start, in seconds, if all blocks run as fast as they can."""
        whole_s = self._times.fastest_step_s()
        later = np.arange(self._num_steps - step - 1)
        starts: Array = self._times.fastest_step_s(block) + whole_s * later
        return starts

    def haste(self, left_s: float | None, step: int, block: int) -> Haste | None:
        """What a deadline in `left_s` seconds asks for; None where it, or a time, is not known."""
        rest_s = self.play_s(step, block)
        if left_s is None or rest_s is None:
            return None
        saving_s = (self._times.step_s("compute") or 0.0) - (self._times.step_s("inject") or 0.0)
        is_known = self._times.expected_s(0, "inject") is not None
        return Haste(left_s, rest_s, max(0.0, saving_s) if is_known else 0.0)

    def wait(self, block: int, arrival_s: float) -> Wait | None:
        """Waiting `arrival_s` seconds before a block; None where block times are not known."""
        full_s = self._times.expected_s(block, "compute")
        active_s = self._times.expected_s(block, "inject")
        if full_s is None or active_s is None:
            return None
        edit_s = self._num_steps * (self._times.step_s("compute") or 0.0)
        return Wait(arrival_s, full_s, active_s, self._num_blocks - block, MOST_LOSS * edit_s)

    def buffer_s(self, ledger: Ledger, step: int, block: int) -> float:
        """Seconds of execution from a block on whose base layers are decoded."""
        seconds, place = 0.0, step * self._num_blocks + block
        while place < self._num_steps * self._num_blocks:
            step, block = divmod(place, self._num_blocks)
            if not ledger.is_complete(step, block):
                break
            seconds += self._times.expected_s(block, "inject") or 0.0
            place += 1
        return seconds
