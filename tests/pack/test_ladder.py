"""Layers, their predicted worth and the states they decode to, with real codecs on toy state."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.codec import CodecProfile, RawCodec, SakuraCodec, forward, identity_profile
from sakura.pack.allocate import base_steps
from sakura.pack.capture import capture
from sakura.pack.importance import rank_tokens
from sakura.pack.ladder import Ladder, coefficients, decoded_levels
from sakura.pack.neutral import neutral_reference
from tests.pack.toy import ToyAdapter, toy_profile, toy_template


@pytest.fixture(scope="module")
def profile() -> CodecProfile:
    return toy_profile()


def made(codec: SakuraCodec | RawCodec, num_layers: int):  # type: ignore[no-untyped-def]
    template = toy_template()
    captured = capture(ToyAdapter(), template, [neutral_reference("mean", template)])
    importance = rank_tokens(captured.mass, tile_tokens=5)
    state = captured.state[:, :, :, importance.order]
    worth = np.random.default_rng(5).random((2, 2, 3)) + 0.2
    ladder = Ladder(codec, codec.profile, importance, worth, base_steps(worth, 0.5))
    coefs = coefficients(codec.profile, state)
    shards = {p: codec.encode_shard(ladder.spec(*p), coefs[p], num_layers) for p in ladder.shards}
    return ladder, shards, state


def test_shards_are_in_the_order_of_the_data(profile: CodecProfile) -> None:
    ladder, _, _ = made(SakuraCodec(profile), 1)
    assert list(ladder.shards) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_predicted_error_is_the_weighted_error_of_the_decoded_state(profile: CodecProfile) -> None:
    """The prediction, computed again from the decoded state: transforms, precision and worth."""
    ladder, shards, state = made(SakuraCodec(profile), 3)
    squares = np.square(ladder.importance.precision)
    predicted = ladder.predicted_errors(shards)
    for level, decoded in enumerate(decoded_levels(ladder, shards)):
        error = sum(
            float(
                (coef * coef * squares[block][:, None]).mean(-1).mean(-1)
                @ ladder.worth[block, :, c]
            )
            for block in range(2)
            for c, coef in enumerate(
                forward(profile, block, decoded[block]) - forward(profile, block, state[block])
            )
        )
        assert predicted[level] == pytest.approx(error, rel=1e-3)


def test_levels_get_better(profile: CodecProfile) -> None:
    ladder, shards, state = made(SakuraCodec(profile), 4)
    errors = [float(np.square(d - state).mean()) for d in decoded_levels(ladder, shards)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[1] / 20


def test_shard_data_is_the_model_times_the_corrections(profile: CodecProfile) -> None:
    ladder, shards, _ = made(SakuraCodec(profile), 2)
    plain = ladder.shard_data((1, 2), shards[1, 2], np.ones(3))
    found = ladder.shard_data((1, 2), shards[1, 2], np.array([3.0, 2.0, 1.0]))
    assert found.energy == pytest.approx(3 * plain.energy)
    assert found.layers[0].distortion == pytest.approx(2 * plain.layers[0].distortion)
    assert found.layers[1].distortion == pytest.approx(plain.layers[1].distortion)
    assert plain.delta == tuple(ladder.steps[1, :, 2])
    total = sum(ladder.shard_data(p, shards[p], np.ones(3)).energy for p in shards)
    assert total == pytest.approx(ladder.predicted_errors(shards)[0])


def test_a_level_is_never_said_to_be_worse_than_the_one_below(profile: CodecProfile) -> None:
    ladder, shards, _ = made(SakuraCodec(profile), 2)
    found = ladder.shard_data((1, 2), shards[1, 2], np.array([1e-3, 1.0, 1e3]))
    assert found.energy == found.layers[0].distortion == found.layers[1].distortion


def test_raw_levels_are_bfloat16() -> None:
    ladder, shards, state = made(RawCodec(identity_profile(2, 3, 2, 6)), 1)
    nothing, decoded = decoded_levels(ladder, shards)
    assert not nothing.any()
    np.testing.assert_allclose(decoded, state, rtol=2**-8)
    assert not np.array_equal(decoded, state)
