"""The decode thread: order, damage, and what it does with bytes the codec refuses."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from sakura.codec import forward, inverse_channels, synthesise
from sakura.format import Head, parse_head
from sakura.format.shard import digest
from sakura.models.base import BlockState
from sakura.play.decode import Decoder
from sakura.play.decode_process import ProcessEngine
from sakura.play.engine import Engine, Key, LocalEngine, Piece
from sakura.play.ranges import Chunk, FetchList
from sakura.play.state import StateStore
from tests.play import bundles

NUM_SHARDS = 48


def head() -> Head:
    found = parse_head(bundles.compressed().data, len(bundles.compressed().data))
    assert isinstance(found, Head)
    return found


@dataclass(eq=False)
class Sink:
    """Collects what it is told; `heard` is released once for each message."""

    levels: dict[Key, list[int]] = field(default_factory=dict)
    damaged: list[Chunk] = field(default_factory=list)
    refused: list[Key] = field(default_factory=list)
    heard: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def now(self) -> float:
        return 0.0

    def decoded(self, shard: Key, level: int, start_s: float) -> None:
        self.levels.setdefault(shard, []).append(level)
        self.heard.release()

    def chunk_refused(self, chunk: Chunk, reason: str) -> None:
        self.damaged.append(chunk)
        self.heard.release()

    def shard_refused(self, shard: Key, reason: str) -> None:
        self.refused.append(shard)
        self.heard.release()

    def wait(self, num_messages: int = 1) -> None:
        for _ in range(num_messages):
            assert self.heard.acquire(timeout=60)


@contextmanager
def decoding(engine: Engine | None = None) -> Iterator[tuple[Decoder, StateStore]]:
    manifest, profile = head().manifest, bundles.compressed().profile
    store = StateStore(profile, len(bundles.token_order()), 8, lambda keys: keys)
    decoder = Decoder(engine or LocalEngine(manifest, profile), store)
    decoder.start()
    try:
        yield decoder, store
    finally:
        decoder.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sakura-decode"]


def chunks_of(key: Key) -> list[Chunk]:
    fetch_list = FetchList(head(), np.full((6, 8), -1))
    every = fetch_list.take(1 << 40, lambda chunk: (chunk.block, chunk.component) == key)
    while more := fetch_list.take(1 << 40, lambda chunk: (chunk.block, chunk.component) == key):
        every += more
    return list(every)


def data_of(chunk: Chunk) -> bytes:
    return bundles.compressed().data[chunk.start : chunk.stop]


def test_levels_come_one_after_the_other_and_come_closer() -> None:
    sink, errors = Sink(), []
    profile, (block, component) = bundles.compressed().profile, (2, 0)
    coefficients = forward(profile, block, bundles.captured_state()[block])[component]
    component_2NHD = inverse_channels(profile, block, coefficients)
    exact = synthesise(profile, block, component_2NHD[None], step=0)[1]
    with decoding() as (decoder, store):
        for chunk in chunks_of((block, component)):
            decoder.submit(sink, chunk, data_of(chunk))
            sink.wait()
            now = store.block_state(0, block, BlockState(*np.empty((2, *exact.shape), np.float32)))
            errors.append(float(np.square(now.values - exact).mean()))
    assert sink.levels == {(block, component): [0, 1, 2, 3]}
    assert errors == sorted(errors, reverse=True)
    assert errors[3] < errors[0] / 100


def test_an_upper_layer_waits_for_those_below() -> None:
    sink = Sink()
    base, first, *_ = chunks_of((0, 1))
    with decoding() as (decoder, store):
        decoder.submit(sink, first, data_of(first))
        other = chunks_of((1, 1))[0]
        decoder.submit(sink, other, data_of(other))
        sink.wait()
        assert store.levels[0, 1] == -1
        decoder.submit(sink, base, data_of(base))
        sink.wait()
        assert store.levels[0, 1] == 1
    assert sink.levels == {(1, 1): [0], (0, 1): [1]}


def test_damage_is_refused_before_it_is_decoded() -> None:
    sink = Sink()
    base = chunks_of((0, 0))[0]
    with decoding() as (decoder, store):
        decoder.submit(sink, base, bytes([data_of(base)[0] ^ 1]) + data_of(base)[1:])
        decoder.submit(sink, base, data_of(base)[:-1])
        sink.wait(2)
        assert (sink.damaged, store.levels.max()) == ([base, base], -1)
        decoder.submit(sink, base, data_of(base))
        sink.wait()
    assert sink.levels == {(0, 0): [0]}


def test_verified_bytes_that_the_codec_refuses_end_the_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hostile packager can give rubbish a good digest."""
    monkeypatch.setattr("sakura.play.engine.verify_chunk", lambda *_: None)
    sink = Sink()
    base, first, *_ = chunks_of((0, 0))
    with decoding() as (decoder, store):
        decoder.submit(sink, base, data_of(base))
        sink.wait()
        decoder.submit(sink, first, digest(b"rubbish") * (first.num_bytes // 16))
        sink.wait()
        decoder.submit(sink, first, data_of(first))
        sink.wait()
        assert store.levels[0, 0] == 0
    assert (sink.levels, sink.refused) == ({(0, 0): [0]}, [(0, 0), (0, 0)])


def test_what_was_decoded_before_is_reported_again() -> None:
    """An edit that begins while another's last chunk is decoded may fetch that chunk again."""
    old, new = Sink(), Sink()
    base = chunks_of((0, 0))[0]
    with decoding() as (decoder, _):
        decoder.submit(old, base, data_of(base))
        old.wait()
        decoder.submit(new, base, data_of(base))
        new.wait()
    assert old.levels == new.levels == {(0, 0): [0]}


def test_dropped_chunks_are_not_decoded() -> None:
    sink = Sink()
    with decoding() as (decoder, store):
        decoder.drop()
        last = chunks_of((5, 7))[0]
        decoder.submit(sink, last, data_of(last))
        sink.wait()
        assert np.argwhere(store.levels > -1).tolist() == [[5, 7]]


def test_a_process_decodes_the_same_and_survives_damage() -> None:
    manifest, profile = head().manifest, bundles.compressed().profile
    local, remote = LocalEngine(manifest, profile), ProcessEngine(manifest, profile)
    try:
        for chunk in chunks_of((1, 0)):
            bad = Piece(chunk.level, chunk.index, data_of(chunk)[:-1] + b"?")
            good = Piece(chunk.level, chunk.index, data_of(chunk))
            for pieces in ([bad], [good], [good]):
                one, other = local.advance((1, 0), pieces), remote.advance((1, 0), pieces)
                assert (one.level, one.damaged) == (other.level, other.damaged)
                assert (one.values is None) == (other.values is None)
                if one.values is not None:
                    np.testing.assert_array_equal(one.values, other.values)
    finally:
        remote.close()


def test_a_process_that_dies_refuses_its_shards() -> None:
    sink = Sink()
    engine = ProcessEngine(head().manifest, bundles.compressed().profile)
    base = chunks_of((0, 0))[0]
    with decoding(engine) as (decoder, _):
        os.kill(engine.pid, signal.SIGKILL)
        decoder.submit(sink, base, data_of(base))
        sink.wait()
    assert sink.refused == [(0, 0)]
