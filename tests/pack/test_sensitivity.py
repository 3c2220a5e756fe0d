"""Sensitivities from quantised states, against edits whose answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.codec import CodecProfile, analyse
from sakura.models.base import Request
from sakura.pack.capture import capture
from sakura.pack.edits import Injection, edit_injected
from sakura.pack.importance import rank_tokens
from sakura.pack.neutral import neutral_reference
from sakura.pack.sensitivity import OPERATING_DB, Probe, measure
from tests.pack.toy import ToyAdapter, toy_profile, toy_template

Array = NDArray[Any]
WORTH = np.array([3.0, 40.0])
SHARE = np.array([0.1, 0.2, 0.7])


@pytest.fixture(scope="module")
def profile() -> CodecProfile:
    return toy_profile()


def linear_edit(state: Array) -> Array:
    """Its mean squared error is exactly the error model's."""
    weight = np.sqrt(WORTH[:, None] * SHARE * 2 * WORTH.size * SHARE.size)
    rows = state.reshape(*state.shape[:4], -1).swapaxes(1, 2)
    coefs = np.stack([analyse(toy_profile(), block, row) for block, row in enumerate(rows)])
    return coefs.astype(np.float64) * weight[..., None, None, None]


def random_state(profile: CodecProfile, seed: int) -> Array:
    noise = np.random.default_rng(seed).normal(size=(2, 2, 3, 60, 2, 6))
    return (profile.mean[:, :, :, None] + noise).astype(np.float32)


def test_a_linear_edit_gives_its_own_numbers(profile: CodecProfile) -> None:
    even = np.ones((2, 60))
    probes = [Probe(profile, random_state(profile, s), even, linear_edit) for s in (1, 2)]
    found = measure(probes, profile)
    np.testing.assert_allclose(found.blocks, np.stack([WORTH] * 2, 1), rtol=0.01)
    np.testing.assert_allclose(found.steps, SHARE, rtol=0.01)
    np.testing.assert_allclose(found.components, found.expected_components, rtol=0.02)


def test_errors_count_by_precision(profile: CodecProfile) -> None:
    state = random_state(profile, 3)
    even, fine = (Probe(profile, state, f * np.ones((2, 60)), linear_edit) for f in (1.0, 4.0))
    steps = np.full((2, 2, 3), 0.5)
    np.testing.assert_allclose(fine.quantised(4 * steps), even.quantised(steps), atol=1e-5)
    disturbed = even.quantised(steps)
    np.testing.assert_allclose(fine.errors(disturbed), 16 * even.errors(disturbed))
    np.testing.assert_allclose(even.errors(disturbed).mean(), 0.25 / 12, rtol=0.1)


def test_one_component_leaves_the_others_alone(profile: CodecProfile) -> None:
    probe = Probe(profile, random_state(profile, 4), np.ones((2, 60)), linear_edit)
    steps = np.full((2, 2, 3), 0.5)
    parts = [probe.quantised(steps, c) - probe.state for c in range(3)]
    whole = probe.quantised(steps) - probe.state
    np.testing.assert_allclose(sum(parts), whole, atol=1e-4)


def test_a_real_edit_stays_near_the_operating_point(profile: CodecProfile) -> None:
    adapter, template = ToyAdapter(), toy_template()
    captured = capture(adapter, template, [neutral_reference("mean", template)])
    importance = rank_tokens(captured.mass, 6)
    tokens, state = captured.tokens[importance.order], captured.state[:, :, :, importance.order]
    request = Request(np.full((4, 4, 3), 77, np.uint8))
    seen: list[float] = []

    def edit(state: Array) -> Array:
        picture = edit_injected(adapter, template, request, Injection(tokens, state))
        return picture[2:6, 2:6].astype(np.float64) / 255

    probe = Probe(profile, state, importance.precision, edit)
    respond = probe.response

    def watched(state: Array) -> float:
        seen.append(respond(state))
        return seen[-1]

    probe.response = watched  # type: ignore[method-assign]
    found = measure([probe], profile)
    assert (found.blocks > 0).all() and found.steps.sum() == pytest.approx(1)
    assert max(seen[-10:]) < 10 * 10 ** (-OPERATING_DB / 10)
