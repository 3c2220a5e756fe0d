"""The store of components against the codec's own synthesis, RoPE and all."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from sakura.codec import CodecProfile, fit_profile, forward, inverse_channels, synthesise
from sakura.models.base import BlockState
from sakura.play.state import StateStore
from tests.play.bundles import Array
from tests.play.heads import make_head

RNG = np.random.default_rng(3)
STATE = RNG.normal(size=(2, 2, 4, 5, 3, 8)).astype(np.float32) + 1.0  # (B, 2, S, N, H, Dh)


@cache
def profile() -> CodecProfile:
    return fit_profile([STATE])


def rotate(keys: Array) -> Array:
    """Any linear map of a token's channels that depends on the token."""
    angle = np.arange(5, dtype=np.float32)[:, None, None]
    even, odd = keys[..., 0::2], keys[..., 1::2]
    out = np.empty_like(keys)
    out[..., 0::2] = even * np.cos(angle) - odd * np.sin(angle)
    out[..., 1::2] = even * np.sin(angle) + odd * np.cos(angle)
    return out


def components(block: int) -> Array:
    """(C, 2, N, H, Dh) of a block, in channel space."""
    coefficients = forward(profile(), block, STATE[block])
    return np.stack([inverse_channels(profile(), block, values) for values in coefficients])


def slot() -> BlockState:
    return BlockState(*np.full((2, 5, 3, 8), np.nan, np.float32))


@pytest.mark.parametrize("num_decoded", [0, 1, 2, 4])
def test_steps_are_those_of_the_codec_with_keys_after_rope(num_decoded: int) -> None:
    store = StateStore(profile(), 5, 4, rotate)
    comps = components(1)
    for component in range(num_decoded):
        store.publish(1, component, comps[component].copy(), 2)
    for step in range(4):
        expected = synthesise(profile(), 1, comps[:num_decoded], step)
        state = store.block_state(step, 1, slot())
        assert state.rotated
        np.testing.assert_allclose(state.keys, rotate(expected[0]), atol=2e-5)
        np.testing.assert_allclose(state.values, expected[1], atol=2e-5)


def test_whole_state_comes_back() -> None:
    store = StateStore(profile(), 5, 4, lambda keys: keys)
    for component, values in enumerate(components(0)):
        store.publish(0, component, values.copy(), 0)
    np.testing.assert_allclose(store.block_state(2, 0, slot()).keys, STATE[0, 0, 2], atol=2e-5)


def test_level_is_the_lowest_of_the_components_in_use() -> None:
    store = StateStore(profile(), 5, 4, rotate)
    assert store.level_of(0, 1) == 0
    for component, level in enumerate((3, 1, 2, 2)):
        store.publish(1, component, components(1)[component].copy(), level)
    assert store.level_of(0, 1) == 1
    assert store.levels.tolist() == [[-1] * 4, [3, 1, 2, 2]]


def test_components_of_other_steps_do_not_count_without_a_transform() -> None:
    one_per_step = np.broadcast_to(np.eye(4, dtype=np.float32), (2, 2, 4, 4)).copy()
    plain = dataclasses.replace(profile(), step_basis=one_per_step)
    store = StateStore(plain, 5, 4, rotate)
    store.publish(0, 2, np.zeros((2, 5, 3, 8), np.float32), 3)
    assert [store.level_of(step, 0) for step in range(4)] == [0, 0, 3, 0]


def test_layers_without_bytes_need_no_decoding() -> None:
    store = StateStore(profile(), 5, 4, rotate)
    store.skip_empty(make_head(4, 2, [0, 10, 0, 0, 0, 0, 0, 0], 2).manifest.shards)
    assert store.levels.tolist() == [[1, 1, 1, 1], [-1, 1, 1, 1]]
