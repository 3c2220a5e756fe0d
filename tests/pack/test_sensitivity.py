"""Sensitivities from injected noise, against models whose answer is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.models.base import Request
from sakura.pack.capture import capture
from sakura.pack.edits import Injection
from sakura.pack.importance import rank_tokens
from sakura.pack.neutral import neutral_reference
from sakura.pack.sensitivity import TARGET_MSE, make_probe, measure
from tests.pack.toy import ToyAdapter, toy_template

Array = NDArray[Any]
WORTH = np.array([[3.0, 0.02], [40.0, 0.5]])
SHARE = np.array([0.1, 0.2, 0.7])


@dataclass
class LinearProbe:
    """An edit whose error is exactly the error model's."""

    factor: float
    injection: Injection
    sizes: list[float] = field(default_factory=list)

    def response(self, noise: Array) -> float:
        mse = np.square(noise).mean((3, 4, 5))  # (B, 2, S)
        answer = self.factor * float(np.einsum("bk,s,bks->", WORTH, SHARE, mse))
        self.sizes.append(answer)
        return answer


def test_a_linear_edit_gives_its_own_numbers() -> None:
    state = np.random.default_rng(0).normal(size=(2, 2, 3, 500, 2, 6)).astype(np.float32)
    probes = [LinearProbe(factor, Injection(np.arange(500), state)) for factor in (0.5, 1.5)]
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2, 3, 3)))[0]
    found = measure(probes, basis)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.blocks, WORTH, rtol=0.05)
    np.testing.assert_allclose(found.steps, SHARE, rtol=0.05)
    expected = np.einsum("s,bksc->c", SHARE, np.square(basis)) / 4
    np.testing.assert_allclose(found.components, expected, rtol=0.05)
    # After the first, edits are disturbed by about as much as was aimed at.
    assert max(probes[1].sizes[:4]) < 4 * TARGET_MSE
    assert sum(found.steps) == pytest.approx(1) and sum(found.components) == pytest.approx(1)


def test_a_real_edit_answers_to_noise_linearly_and_by_precision() -> None:
    adapter, template = ToyAdapter(), toy_template()
    captured = capture(adapter, template, [neutral_reference("mean", template)])
    importance = rank_tokens(captured.mass, 6)
    injection = Injection(
        captured.tokens[importance.order], captured.state[:, :, :, importance.order]
    )
    request = Request(np.full((4, 4, 3), 77, np.uint8))
    even = np.ones_like(importance.precision)
    probe = make_probe(adapter, template, request, injection, even)
    fine = make_probe(adapter, template, request, injection, 2 * even)
    noise = 0.2 * np.random.default_rng(2).normal(size=injection.state.shape)
    assert probe.response(np.zeros_like(noise)) < 1e-6
    assert probe.response(2 * noise) / probe.response(noise) == pytest.approx(4, rel=0.3)
    assert fine.response(2 * noise) == pytest.approx(probe.response(noise), rel=1e-3)
