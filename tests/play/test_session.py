"""The session under a simulated link: which bytes it asks for, and what it does with them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.format import Head
from sakura.play.deadlines import BlockTimes
from sakura.play.downloads import Limits
from sakura.play.messages import (
    Abandon,
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
from sakura.play.policy import create_policy
from sakura.play.session import Session, Setting
from tests.play.heads import DATA_START, make_head, model_of

FULL_S, ACTIVE_S = 0.010, 0.003


@dataclass
class Simulation:
    """A link of constant rate, a decoder that takes no time, and a device of fixed speed."""

    session: Session
    rate_bps: float
    piece_bytes: int = 1500
    now_s: float = 0.0
    fetches: list[Fetch] = field(default_factory=list)
    abandoned: list[int] = field(default_factory=list)
    decoded: list[tuple[int, int, int]] = field(default_factory=list)
    _open: deque[list[int]] = field(default_factory=deque)

    def start(self) -> None:
        self._take(self.session.start(self.now_s))

    def tell(self, event: Event) -> None:
        self._take(self.session.handle(event, self.now_s))

    def run_link(self, duration_s: float) -> None:
        """Let the link carry bytes, fetches in turn, until the time is over or it is idle."""
        end_s = self.now_s + duration_s
        while self._open:
            piece = self._open.popleft()
            num_bytes = min(self.piece_bytes, piece[1])
            if self.now_s + 8 * num_bytes / self.rate_bps > end_s:
                self._open.appendleft(piece)
                break
            self.now_s += 8 * num_bytes / self.rate_bps
            piece[1] -= num_bytes
            if piece[1]:
                self._open.append(piece)
            self.tell(FetchProgress(piece[0], num_bytes))
        self.now_s = end_s

    def edit(self, num_steps: int, num_blocks: int) -> list[list[str]]:
        """Run an edit without waiting; returns how each block ran."""
        modes: list[list[str]] = []
        for step in range(num_steps):
            self.tell(StepStarted(step))
            modes.append([])
            for block in range(num_blocks):
                action = self.session.decide(self.now_s).action
                mode: Any = "inject" if action == "inject" else "compute"
                duration_s = ACTIVE_S if mode == "inject" else FULL_S
                self.run_link(duration_s)
                self.tell(BlockFinished(step, block, mode, duration_s))
                modes[-1].append(mode)
        return modes

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Fetch(fetch, start, stop, _):
                    self.fetches.append(command)
                    self._open.append([fetch, stop - start])
                case Abandon(fetch, _):
                    self.abandoned.append(fetch)
                    self._open = deque(piece for piece in self._open if piece[0] != fetch)
                case Decode(_, chunk):
                    self.decoded.append(chunk.layer)
                    self.tell(ShardDecoded(*chunk.layer))


def setting_of(
    head: Head, floor_db: float = 40.0, policy: str = "sakura", **limits: Any
) -> Setting:
    geometry = head.manifest.geometry
    return Setting(
        head=head,
        model=model_of(head, floor_db),
        policy=create_policy(policy),
        levels_BC=np.full((geometry.num_blocks, head.manifest.num_components), -1),
        limits=Limits(**limits),
    )


def session_of(head: Head, **changes: Any) -> Session:
    """A session on a device of unknown speed."""
    return Session(setting_of(head, **changes), BlockTimes(head.manifest.geometry.num_blocks))


sizes = st.lists(st.integers(0, 90_000), min_size=1, max_size=7)
small = st.integers(1, 4)


@given(sizes, small, small, small, st.integers(1, 6), st.floats(1e5, 1e9))
def test_every_byte_is_asked_for_once_in_order(
    sizes: list[int], steps: int, blocks: int, levels: int, num_fetches: int, rate_bps: float
) -> None:
    head = make_head(steps, blocks, sizes, levels)
    link = Simulation(session_of(head, num_fetches=num_fetches), rate_bps)
    link.start()
    link.run_link(1e9)
    position = DATA_START
    for fetch in link.fetches:
        assert fetch.start == position
        assert 0 < fetch.stop - fetch.start <= 64 * 1024
        position = fetch.stop
    assert position == DATA_START + head.num_bytes
    assert not link.session.can_arrive


@given(sizes, small, small, small, st.floats(1e5, 1e9), st.integers(0, 500_000))
def test_the_byte_limit_is_never_passed(
    sizes: list[int], steps: int, blocks: int, levels: int, rate_bps: float, most: int
) -> None:
    head = make_head(steps, blocks, sizes, levels)
    link = Simulation(session_of(head, max_total_bytes=most), rate_bps)
    link.start()
    link.run_link(1e9)
    asked = sum(fetch.stop - fetch.start for fetch in link.fetches)
    assert asked <= most
    assert asked == head.num_bytes or link.session.stop_reason is not None


@given(sizes, small, small, small, st.floats(1e5, 1e8))
def test_an_edit_keeps_its_budget_and_fetches_nothing_twice(
    sizes: list[int], steps: int, blocks: int, levels: int, rate_bps: float
) -> None:
    head = make_head(steps, blocks, sizes, levels)
    link = Simulation(session_of(head, floor_db=35.0), rate_bps)
    link.start()
    modes = link.edit(steps, blocks)
    assert link.session.spent <= 10**-3.5
    for row in modes:  # a step that injects goes on injecting
        assert row == sorted(row)
    spans = sorted((fetch.start, fetch.stop) for fetch in link.fetches)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


@given(st.floats(1e5, 1e8), small)
def test_levels_only_rise(rate_bps: float, levels: int) -> None:
    head = make_head(3, 2, [900, 5000], levels)
    link = Simulation(session_of(head), rate_bps)
    link.start()
    before = link.session.levels.copy()
    for _ in range(20):
        link.run_link(0.01)
        assert (link.session.levels >= before).all()
        before = link.session.levels.copy()


def test_a_dead_link_means_computing_everything_and_never_waiting() -> None:
    head = make_head(4, 3, [1000], 4)
    link = Simulation(session_of(head), rate_bps=1e-3)
    link.start()
    assert link.edit(4, 3) == [["compute"] * 3] * 4


def test_a_fast_link_means_injecting_everything_after_the_first_block() -> None:
    head = make_head(4, 3, [1000], 4)
    link = Simulation(session_of(head), rate_bps=1e9)
    link.start()
    modes = link.edit(4, 3)
    assert modes[0] == ["compute", "inject", "inject"]
    assert modes[1:] == [["inject"] * 3] * 3


def test_what_is_decoded_already_is_not_fetched() -> None:
    head = make_head(2, 2, [1000], 2)
    levels = np.full((2, 2), 1)
    levels[1, 0] = 0
    setting = Setting(head, model_of(head, 40.0), create_policy("sakura"), levels)
    (fetch,) = Session(setting, BlockTimes(2)).start(0.0)
    assert isinstance(fetch, Fetch)
    assert [chunk.layer for chunk in fetch.chunks] == [(1, 0, 1)]


def test_shards_of_steps_that_are_over_are_passed_over() -> None:
    head = make_head(3, 1, [30_000], 1)  # one component a step
    link = Simulation(session_of(head, num_fetches=1, most_fetches=1), 1e9)
    link.start()
    link.tell(StepStarted(2))
    link.run_link(1e9)
    assert [f.chunks[0].component for f in link.fetches] == [0, 2]


def test_a_failed_fetch_ends_all_fetching() -> None:
    head = make_head(4, 3, [20_000], 4)
    link = Simulation(session_of(head), 1e6)
    link.start()
    num_before = len(link.fetches)
    link.tell(FetchFailed(1, "the origin is gone"))
    link.run_link(1e9)
    assert link.session.stop_reason == "the origin is gone"
    assert sorted(link.abandoned) == [0, 2]
    assert (len(link.fetches), link.session.can_arrive) == (num_before, False)


def test_half_a_layer_is_nothing_to_wait_for() -> None:
    head = make_head(2, 1, [100_000], 1)  # two chunks
    session = session_of(head, policy="wait", num_fetches=1, most_fetches=1)
    session.handle(StepStarted(0), 0.0)
    session.handle(FetchProgress(0, 64 * 1024), 0.0)
    assert session.decide(0.0).action == "wait"
    session.handle(FetchFailed(1, "gone"), 0.0)
    assert not session.can_arrive
    assert session.decide(0.0).action == "compute"


def test_a_whole_layer_is_waited_for_although_the_origin_is_gone() -> None:
    head = make_head(2, 1, [100], 1)
    session = session_of(head, policy="wait", num_fetches=1, most_fetches=1, first_bytes=1)
    session.handle(StepStarted(0), 0.0)
    session.handle(FetchProgress(0, 100), 0.0)
    session.handle(FetchFailed(1, "gone"), 0.0)
    assert session.decide(0.0).action == "wait"
    session.handle(ShardDecoded(0, 0, 0), 0.0)
    assert session.decide(0.0).action == "inject"


def test_a_damaged_chunk_is_fetched_once_more_then_its_shard_is_given_up() -> None:
    head = make_head(2, 2, [9_000], 2)
    session = session_of(head, num_fetches=1, most_fetches=1)
    fetches = [command for command in session.start(0.0) if isinstance(command, Fetch)]
    damaged = fetches[0].chunks[0]
    asked = []
    for _ in range(20):
        if not fetches:
            break
        fetch = fetches.pop(0)
        asked.append(fetch)
        commands = session.handle(FetchProgress(fetch.fetch, fetch.stop - fetch.start), 0.0)
        while commands:
            command = commands.pop(0)
            if isinstance(command, Fetch):
                fetches.append(command)
            elif isinstance(command, Decode) and command.chunk == damaged:
                commands += session.handle(ChunkRefused(damaged, "digest"), 0.0)
            elif isinstance(command, Decode):
                commands += session.handle(ShardDecoded(*command.chunk.layer), 0.0)
    chunks = [chunk for fetch in asked for chunk in fetch.chunks]
    assert chunks.count(damaged) == 2
    assert (damaged.block, damaged.component, 1) not in [chunk.layer for chunk in chunks]
    assert len(chunks) == 2 + 6  # the others once, without the upper layer of the damaged shard
    assert not session.can_arrive


def test_too_many_refused_shards_end_all_fetching() -> None:
    head = make_head(4, 3, [1000], 1)
    session = session_of(head)
    session.start(0.0)
    for component in range(3):
        assert session.stop_reason is None
        session.handle(ShardRefused(0, component, "impossible"), 0.0)
    assert session.stop_reason == "impossible"


def test_naive_streaming_does_not_wait_for_a_shard_that_was_given_up() -> None:
    head = make_head(2, 2, [1000], 1)
    session = session_of(head, policy="wait")
    session.start(0.0)
    session.handle(StepStarted(0), 0.0)
    assert session.decide(0.0).action == "wait"
    session.handle(ShardRefused(0, 0, "impossible"), 0.0)
    assert session.decide(0.0).action == "compute"


def test_a_step_done_again_costs_once() -> None:
    head = make_head(2, 2, [1000], 1)
    link = Simulation(session_of(head), 1e9)
    link.start()
    link.run_link(1.0)
    for _ in range(2):
        link.tell(StepStarted(0))
        link.tell(BlockFinished(0, 0, "inject", ACTIVE_S))
    assert link.session.spent == pytest.approx(
        float(model_of(head, 40.0).block_costs(0, link.session.levels)[0])
    )


def test_a_short_wait_is_taken_and_a_lost_one_is_the_last() -> None:
    head = make_head(4, 3, [4000], 1)
    setting = setting_of(head, floor_db=30.0)
    times = BlockTimes(3)
    times.observe(0, "compute", FULL_S)
    times.observe(0, "inject", ACTIVE_S)
    session = Session(setting, times)
    link = Simulation(session, rate_bps=20e6, piece_bytes=500)
    link.start()
    while session.decide(link.now_s).action == "compute":
        link.run_link(0.0005)
        assert link.now_s < 1
    decision = session.decide(link.now_s)
    assert decision.action == "wait"
    assert 0 < decision.timeout_s <= 3 * FULL_S
    assert session.decide(link.now_s, wait_left_s=0.0).action == "compute"
    assert session.decide(link.now_s).action == "compute"


@given(st.floats(2e6, 5e7), st.floats(30, 45))
def test_buffer_covers_only_decoded_blocks(rate_bps: float, floor_db: float) -> None:
    head = make_head(3, 2, [6000], 2)
    session = session_of(head, floor_db=floor_db)
    link = Simulation(session, rate_bps)
    link.start()
    link.tell(BlockFinished(0, 0, "inject", ACTIVE_S))
    link.tell(StepStarted(0))
    assert session.buffer_s() == 0.0
    link.run_link(1e9)
    assert session.buffer_s() == pytest.approx(6 * ACTIVE_S)


@given(sizes, small, small, small, st.integers(0, 400_000), st.integers(1, 4))
def test_what_came_with_the_head_is_decoded_and_never_asked_for(
    sizes: list[int], steps: int, blocks: int, levels: int, num_opened: int, num_fetches: int
) -> None:
    head = make_head(steps, blocks, sizes, levels)
    setting = replace(setting_of(head, num_fetches=num_fetches), opened_bytes=num_opened)
    link = Simulation(Session(setting, BlockTimes(blocks)), 1e8)
    commands = link.session.start(0.0)
    opened = [c.chunk for c in commands if isinstance(c, Decode)]
    assert all(chunk.stop <= num_opened for chunk in opened)
    link._take(commands)
    link.run_link(1e9)
    spans = [(chunk.start, chunk.stop) for chunk in opened]
    spans = sorted([*spans, *((fetch.start, fetch.stop) for fetch in link.fetches)])
    assert spans == [] or (spans[0][0], spans[-1][1]) == (
        DATA_START,
        DATA_START + head.num_bytes,
    )
    assert all(stop == start for (_, stop), (start, _) in pairwise(spans))
    chunks = [chunk for fetch in link.fetches for chunk in fetch.chunks]
    assert all(chunk.stop > num_opened for chunk in chunks)
    assert not link.session.can_arrive
    assert link.session.stop_reason is None


def test_layers_that_are_held_are_waited_for_although_no_rate_is_known() -> None:
    head = make_head(8, 3, [4000], 1)
    setting = replace(setting_of(head, floor_db=30.0), opened_bytes=DATA_START + head.num_bytes)
    times = BlockTimes(3)
    times.observe(0, "compute", FULL_S)
    times.observe(0, "inject", ACTIVE_S)
    session = Session(setting, times)
    commands = session.start(0.0)
    assert all(isinstance(command, Decode) for command in commands)
    assert session.decide(0.0).action == "wait"
    for command in commands:
        assert isinstance(command, Decode)
        session.handle(ShardDecoded(*command.chunk.layer), 0.0)
    assert session.decide(0.0).action == "inject"


@pytest.mark.parametrize(("policy", "is_asked"), [("sakura", False), ("wait", True)])
@pytest.mark.parametrize("rate_bps", [1e5, 1e9])
def test_what_would_come_after_its_last_use_is_only_asked_for_by_the_patient(
    policy: str, is_asked: bool, rate_bps: float
) -> None:
    head = make_head(2, 2, [50_000], 1)
    session = session_of(head, policy=policy, num_fetches=1, most_fetches=1)
    (first,) = session.start(0.0)
    assert isinstance(first, Fetch)
    num_bytes = first.stop - first.start
    session.handle(BlockFinished(0, 0, "compute", FULL_S), FULL_S)
    took_s = 8 * num_bytes / rate_bps
    session.handle(FetchProgress(first.fetch, 1), FULL_S)
    commands = session.handle(FetchProgress(first.fetch, num_bytes - 1), FULL_S + took_s)
    assert any(isinstance(c, Fetch) for c in commands) == (is_asked or rate_bps == 1e9)
