"""One edit as a state machine without I/O: events go in; commands and decisions come out.

It decides which bytes to ask for next and whether a block is injected, computed or waited for. It
knows no thread, clock, socket or tensor library: the time is an argument, and the same code runs
under a simulated clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.play.deadlines import BlockTimes
from sakura.play.decoding import Decoding
from sakura.play.downloads import Downloads
from sakura.play.forecast import Arrival, Ask, Forecast
from sakura.play.ledger import Ledger
from sakura.play.levels import LevelChooser, Pace
from sakura.play.messages import (
    OPENED,
    BlockFinished,
    ChunkRefused,
    Command,
    Decode,
    Event,
    Fetch,
    FetchFailed,
    FetchProgress,
    ShardDecoded,
    ShardRefused,
    StepStarted,
)
from sakura.play.outlook import Outlook
from sakura.play.plan import Decision, Wait
from sakura.play.policy import View
from sakura.play.ranges import Chunk, FetchList
from sakura.play.setting import Setting
from sakura.play.throughput import Throughput
from sakura.units import BITS_PER_BYTE

Array = NDArray[Any]

__all__ = ["Session", "Setting"]

MIN_SHARE = 1e-3
"""A shard with less than this of its error still ahead is not worth a byte."""
HOPE, HOPE_ALONE = 1.25, 4.0
"""Times the estimated rate that bytes are given to come in before their last use."""


class Session:
    """See the module; `times` may be shared between the edits of a device."""

    def __init__(self, setting: Setting, times: BlockTimes) -> None:
        self._model, self._policy, self._times = setting.model, setting.policy, times
        self._num_blocks = setting.head.manifest.geometry.num_blocks
        self._num_steps = len(self._model.share_SBC)
        self._ledger = Ledger(self._model, setting.levels_BC)
        self.throughput = Throughput(setting.prior_bps)
        self._list = FetchList(
            setting.head,
            setting.levels_BC,
            setting.opened_bytes,
            setting.held,
            self._policy.chooses_levels,
        )
        self._outlook = Outlook(times, self._num_steps, self._num_blocks)
        self._forecast = Forecast(self._model, self._list, self._ledger)
        self._downloads = Downloads(self._list, self.throughput, setting.limits)
        # Share of each shard's error in step s and later; after the last step, none.
        ahead = np.cumsum(self._model.share_SBC[::-1], 0)[::-1]
        self._ahead_SBC = np.concatenate([ahead, np.zeros_like(ahead[:1])])
        self._last_step_BC = np.maximum((ahead >= MIN_SHARE).sum(0) - 1, 0)
        self._decoding = Decoding(setting.head.manifest)
        self._chooser = LevelChooser(
            self._policy, setting.head.manifest, self._model, self._list.shards
        )
        self._deadline_s = setting.deadline_s
        self._step, self._block, self._is_dropped = 0, 0, False
        self._spent_before, self._spent_now = 0.0, 0.0
        self._lost_wait = False

    def start(self, now_s: float) -> list[Command]:
        """What is there already goes to the decoder; the first fetches."""
        opened = [Decode(OPENED, chunk) for chunk in self._list.opened if self._is_useful(chunk)]
        self._decoding.note(opened)
        return [*opened, *self._next_fetches(now_s)]

    def handle(self, event: Event, now_s: float) -> list[Command]:
        """Take an event in; returns what to do now, new fetches included."""
        commands: list[Command] = []
        match event:
            case FetchProgress():
                commands += self._downloads.on_progress(event, now_s)
                self._decoding.note(commands)
            case FetchFailed():
                commands += self._downloads.on_failure(event, now_s)
            case ChunkRefused(chunk, _):
                self._decoding.refuse(chunk.layer, chunk.index)
                commands += self._downloads.on_damage(event, now_s)
            case ShardRefused(block, component, reason):
                commands += self._downloads.give_up(block, component, reason, now_s)
            case ShardDecoded():
                self._on_decoded(event)
            case StepStarted(step):
                self._spent_before += self._spent_now if step != self._step else 0.0
                self._step, self._block, self._is_dropped = step, 0, False
                self._spent_now = 0.0
            case BlockFinished():
                self._on_block(event)
        self._forecast.give_up(self._downloads.given_up)
        return [*commands, *self._next_fetches(now_s)]

    def stop(self, reason: str, now_s: float) -> list[Command]:
        """Fetch nothing more in this edit and drop what is in flight."""
        return self._downloads.stop(reason, now_s)

    def decide(self, now_s: float, wait_left_s: float | None = None) -> Decision:
        """What to do with the next block.

        Args:
            now_s: the present time.
            wait_left_s: while waiting, the seconds that are left of it.
        """
        if self._is_dropped:  # the budget was asked when this step began to inject
            return self._policy.decide(self._view(now_s, wait_left_s, ()))
        arrival = self._arrival(now_s)
        has_state = self._ledger.has_state(self._step, self._block)
        may_inject = has_state or arrival.rate_bps > 0 or self._is_decoding
        view = self._view(now_s, wait_left_s, self._later_costs(arrival) if may_inject else ())
        decision = self._policy.decide(view)
        if decision.action != "compute":
            return decision
        if wait_left_s is not None:
            self._lost_wait = True
            return decision
        wait = self._wait(view, arrival)
        return decision if wait is None else self._policy.decide(replace(view, wait=wait))

    @property
    def levels(self) -> Array:
        """(B, C) level of each shard, -1 for none."""
        return self._ledger.levels

    @property
    def spent(self) -> float:
        """Predicted error of all that was injected so far."""
        return self._spent_before + self._spent_now

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more is fetched, if so."""
        return self._downloads.stop_reason

    @property
    def can_arrive(self) -> bool:
        """Whether anything more can be decoded in this edit."""
        return self._downloads.can_arrive or self._is_decoding

    def buffer_s(self) -> float:
        """Seconds of execution ahead of the play head whose base layers are decoded."""
        return self._outlook.buffer_s(self._ledger, self._step, self._block)

    def _view(
        self, now_s: float, wait_left_s: float | None, later_costs: tuple[float, ...]
    ) -> View:
        step, block = self._step, self._block
        left_s = None if self._deadline_s is None else self._deadline_s - now_s
        has_state = self._ledger.has_state(step, block)
        return View(
            step=step,
            block=block,
            num_blocks=self._num_blocks,
            is_dropped=self._is_dropped,
            has_state=has_state,
            is_complete=self._ledger.is_complete(step, block),
            can_arrive=self.can_arrive and not self._is_hopeless(),
            cost=self._ledger.rest_cost(step, block) if has_state else math.inf,
            later_costs=later_costs,
            budget=self._model.budget - self.spent,
            wait_left_s=wait_left_s,
            is_ready=self._is_ready(),
            now_s=now_s,
            haste=self._outlook.haste(left_s, step, block),
        )

    @property
    def _is_decoding(self) -> bool:
        """Whether a layer that comes next in its shard is whole and with the decoder."""
        next_layers = ((b, c, int(self.levels[b, c]) + 1) for b, c in self._decoding.shards())
        given_up = self._downloads.given_up
        return any(self._decoding.is_whole(layer, given_up) for layer in next_layers)

    def _is_ready(self) -> bool:
        if not self._policy.chooses_levels:
            return self._ledger.is_complete(self._step, self._block)
        needed = self._ledger.needed(self._step, self._block)
        return self._chooser.is_ready(self._block, needed, self.levels)

    def _later_costs(self, arrival: Arrival) -> tuple[float, ...]:
        """Predicted error of each later step, if all steps ran as fast as they can."""
        starts_s = self._outlook.starts_s(self._step, self._block)
        return self._forecast.later_costs(self._step, starts_s, arrival)

    def _is_hopeless(self) -> bool:
        """Whether a component that this block needs was given up."""
        given_up = self._downloads.given_up
        if not given_up:
            return False
        missing = self._ledger.missing(self._step, self._block)
        return any((self._block, component) in given_up for component in missing)

    def _arrival(self, now_s: float) -> Arrival:
        rate_bps = self.throughput.estimate_bps(now_s)
        has_rate = self._downloads.can_arrive and self.throughput.is_measured
        return Arrival(
            num_bytes=self._downloads.num_settled_bytes,
            num_layers=self._decoding.num_decoded + self._list.num_passed_layers,
            rate_bps=rate_bps if has_rate and rate_bps is not None else 0.0,
            decode_s=self._decoding.layer_s,
        )

    def _wait(self, view: View, arrival: Arrival) -> Wait | None:
        """What waiting before this block would take; None where it cannot be told."""
        if self._lost_wait or not view.can_arrive:
            return None
        ask = Ask(
            step=view.step,
            block=view.block,
            gain=(view.num_blocks - view.block) / view.num_blocks,
            later_costs=view.later_costs,
            budget=view.budget,
        )
        missing = self._forecast.missing_layers(ask, self._ledger)
        if not missing:
            return None
        num_bytes = max(self._downloads.bytes_until(layer) for layer in missing)
        if num_bytes > 0 and arrival.rate_bps <= 0:
            return None
        network_s = num_bytes * BITS_PER_BYTE / arrival.rate_bps if num_bytes > 0 else 0.0
        return self._outlook.wait(view.block, network_s + len(missing) * self._decoding.layer_s)

    def _on_decoded(self, event: ShardDecoded) -> None:
        num_layers = self._ledger.raise_level(event.block, event.component, event.level)
        self._decoding.finish(event, num_layers)

    def block_cost(self, step: int, block: int) -> float:
        """Predicted error of injecting a block at the levels that are decoded now."""
        return self._ledger.cost(step, block)

    def _on_block(self, event: BlockFinished) -> None:
        if event.mode == "inject":
            now = self.block_cost(event.step, event.block)
            self._spent_now += now if event.cost is None else event.cost
            self._is_dropped = True
        self._times.observe(event.block, event.mode, event.duration_s)
        self._outlook.observe(event.duration_s)
        self._block = event.block + 1

    def _next_fetches(self, now_s: float) -> list[Fetch]:
        def pace() -> Pace:
            play_s = self._outlook.play_s(self._step, self._block)
            return Pace(self.throughput.estimate_bps(now_s), self.buffer_s(), play_s)

        def is_wanted(chunk: Chunk) -> bool:
            return self._is_useful(chunk) and self._chooser.takes(chunk, pace)

        def is_late(chunk: Chunk, num_bytes: int) -> bool:
            return self._is_late(chunk, num_bytes, now_s)

        return self._downloads.next_fetches(now_s, is_wanted, is_late)

    def _is_late(self, chunk: Chunk, num_bytes: int, now_s: float) -> bool:
        """Whether a chunk, the last of `num_bytes` to come, will hardly be there for its last use.

        While nothing else is in flight more is hoped for: only bytes tell that a link recovered.
        """
        rate_bps = self.throughput.estimate_bps(now_s)
        last = int(self._last_step_BC[chunk.block, chunk.component]) * self._num_blocks
        ahead = last + chunk.block - self._step * self._num_blocks - self._block
        left_s = self._outlook.until_s(ahead)
        if rate_bps is None or left_s is None or self._policy.is_patient:
            return False
        hope = HOPE_ALONE if num_bytes == chunk.num_bytes else HOPE
        return num_bytes * BITS_PER_BYTE > hope * rate_bps * left_s

    def _is_useful(self, chunk: Chunk) -> bool:
        shard = chunk.block, chunk.component
        if shard in self._downloads.given_up or chunk.level <= self.levels[shard]:
            return False
        first = self._step + (chunk.block < self._block)
        return bool(self._ahead_SBC[first][shard] >= MIN_SHARE)
