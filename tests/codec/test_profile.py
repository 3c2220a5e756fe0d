"""Profiles: canonical bytes, strict loading, fitting and the transforms they drive."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.codec import (
    CodecProfile,
    ErrorWeights,
    fit_profile,
    forward,
    identity_profile,
    inverse_channels,
    load_profile,
    profile_from_bytes,
    synthesise,
)
from sakura.errors import CodecError, InputError

DIMS = (2, 3, 2, 4)


def states(num: int = 3) -> list[NDArray[Any]]:
    """Steps that are nearly alike, channels that are mixed, and a large mean."""
    rng = np.random.default_rng(8)
    num_blocks, num_steps, num_heads, head_dim = DIMS
    mix = rng.normal(size=(num_blocks, 2, num_heads, head_dim, head_dim))
    made = []
    for i in range(num):
        still = rng.laplace(size=(num_blocks, 2, 1, 30 + i, num_heads, head_dim))
        moving = 0.1 * rng.laplace(size=(num_blocks, 2, num_steps, 30 + i, num_heads, head_dim))
        made.append((5 + np.einsum("bksnhd,bkhde->bksnhe", still + moving, mix)).astype(np.float32))
    return made


@pytest.fixture(scope="module")
def profile() -> CodecProfile:
    return fit_profile(states())


def reconstruct(profile: CodecProfile, block: int, state: NDArray[Any], num: int) -> NDArray[Any]:
    """State of a block from its first `num` components."""
    coefs = forward(profile, block, state)[:num]
    comps = np.stack([inverse_channels(profile, block, c) for c in coefs])
    return np.stack([synthesise(profile, block, comps, s) for s in range(DIMS[1])], axis=1)


def test_all_components_give_the_state_back(profile: CodecProfile) -> None:
    state = states(4)[3]
    for block in range(DIMS[0]):
        found = reconstruct(profile, block, state[block], DIMS[1])
        assert found == pytest.approx(state[block], abs=1e-4)


def test_the_first_component_holds_what_the_steps_share(profile: CodecProfile) -> None:
    """The moving part has 1 % of the variance; one component must explain the rest."""
    state = states(4)[3][0]
    error = np.square(state - reconstruct(profile, 0, state, 1)).mean()
    assert error < 0.02 * state.var()


def test_no_component_gives_the_mean(profile: CodecProfile) -> None:
    nothing = np.zeros((0, 2, 7, *DIMS[2:]), np.float32)
    found = synthesise(profile, 1, nothing, 2)
    assert (found == profile.mean[1, :, 2][:, None]).all()


def test_fitted_sigmas_are_those_of_the_coefficients(profile: CodecProfile) -> None:
    coefs = np.concatenate([forward(profile, 1, s[1]) for s in states()], axis=2)
    expected = np.sqrt(np.square(coefs, dtype=np.float64).mean(2)).transpose(1, 0, 2)
    assert profile.sigma[1].reshape(2, DIMS[1], -1) == pytest.approx(expected, rel=1e-4)
    # Sorted by the eigenvalues of the pooled covariance; component 0 dominates that pool.
    leading = profile.sigma[1, :, 0]
    assert (np.diff(leading, axis=-1) < 0.1 * leading[..., :1]).all()


def test_fitting_is_deterministic_and_reads_any_sequence(profile: CodecProfile) -> None:
    assert fit_profile(tuple(states())).digest == profile.digest


def test_one_constant_state_can_be_fitted() -> None:
    profile = fit_profile([np.full((1, 2, 2, 5, 1, 4), 3, np.float32)])
    assert not profile.sigma.any()
    assert (profile.mean == 3).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one"),
        ([np.zeros((1, 2, 2, 5, 1), np.float32)], "share"),
        ([np.zeros((1, 3, 2, 5, 1, 4), np.float32)], "share"),
        ([np.zeros((1, 2, n, 5, 1, 4), np.float32) for n in (1, 2)], "share"),
        ([np.zeros((1, 2, 2, 0, 1, 4), np.float32)], "no tokens"),
    ],
)
def test_states_that_do_not_fit_are_refused(bad: list[NDArray[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_profile(bad)


def test_profile_files_round_trip(profile: CodecProfile, tmp_path: Path) -> None:
    profile.save(tmp_path / "a.profile")
    loaded = load_profile(tmp_path / "a.profile")
    assert loaded.digest == profile.digest
    assert loaded.to_bytes() == profile.to_bytes()
    assert (loaded.step_basis == profile.step_basis).all()


def test_every_truncation_of_a_profile_is_refused() -> None:
    data = identity_profile(1, 2, 1, 2).to_bytes()
    for length in range(len(data)):
        with pytest.raises(CodecError):
            profile_from_bytes(data[:length])
    with pytest.raises(CodecError):
        profile_from_bytes(data + b"\0")


def test_every_bit_flip_of_a_profile_changes_its_digest_or_is_refused() -> None:
    original = identity_profile(1, 1, 1, 2)
    data = original.to_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            assert profile_from_bytes(bytes(changed)).digest != original.digest
        except CodecError:
            continue


@pytest.mark.parametrize(
    "dims", [(0, 1, 1, 1, 1, 1), (1, 257, 1, 1, 1, 1), (1, 1, 2, 1, 1025, 1), (2**32 - 1,) * 6]
)
def test_dimensions_are_bounded_before_anything_is_allocated(dims: tuple[int, ...]) -> None:
    with pytest.raises(CodecError, match=r"expected 1\.\."):
        profile_from_bytes(struct.pack("<8s6I", b"SKPROF\x02\n", *dims))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sigma", np.nan, "not finite"),
        ("mean", np.inf, "not finite"),
        ("sigma", -1, "negative"),
        ("step_weight", -1, "negative"),
        ("sensitivity", 0, "not positive"),
        ("step_basis", np.nan, "not finite"),
        ("channel_basis", np.inf, "not finite"),
    ],
)
def test_values_that_make_no_sense_are_refused(name: str, value: float, message: str) -> None:
    profile = identity_profile(1, 2, 1, 2)
    array = getattr(profile, name).copy()
    array.flat[0] = value
    with pytest.raises(CodecError, match=message):
        dataclasses.replace(profile, **{name: array})


def test_bases_without_an_inverse_are_refused_when_one_is_needed() -> None:
    profile = identity_profile(1, 2, 1, 2)
    state = np.zeros((2, 2, 5, 1, 2), np.float32)
    for name in ("step_basis", "channel_basis"):
        broken = dataclasses.replace(profile, **{name: np.zeros_like(getattr(profile, name))})
        with pytest.raises(CodecError, match=f"{name} has no inverse"):
            forward(broken, 0, state)


def test_a_profile_of_lower_rank_keeps_what_matters_most() -> None:
    state = states(4)[3][0]
    errors = []
    for rank in (2, 6, 12, 16):
        low = fit_profile(states(), rank=rank)
        assert (
            low.rank == rank
            and not low.sigma.reshape(2, 2, 3, -1)[:, 1, :, max(rank - 8, 0) :].any()
        )
        errors.append(np.square(state - reconstruct(low, 0, state, DIMS[1])).mean())
    assert errors[0] > errors[1] > errors[2] > errors[3] and errors[3] < 1e-6


def test_heads_must_divide_into_groups(profile: CodecProfile) -> None:
    data = bytearray(profile.to_bytes())
    struct.pack_into("<I", data, 24, 3)
    with pytest.raises(CodecError, match="2 heads in 3 groups"):
        profile_from_bytes(bytes(data))
    struct.pack_into("<II", data, 24, 1, 17)
    with pytest.raises(CodecError, match="17 coefficients a group"):
        profile_from_bytes(bytes(data))
    with pytest.raises(InputError, match="2 heads in 3 groups"):
        fit_profile(states(), num_groups=3)


@pytest.mark.parametrize("num_groups", [1, 2])
def test_costly_channels_and_steps_are_kept_finer(num_groups: int) -> None:
    """With uniform steps, an error's expected cost is that of white noise in every coefficient."""
    steps = np.array([1.0, 4.0, 9.0])
    channels = np.zeros((DIMS[0], 2, *DIMS[2:], DIMS[3]))
    channels[...] = np.diag([1.0, 2.0, 8.0, 16.0])
    channels[:, 1] *= 3
    profile = fit_profile(states(), ErrorWeights(steps, channels), num_groups)
    noise = np.random.default_rng(1).normal(size=(DIMS[1], 2, 4000, 8)).astype(np.float32)
    comps = np.stack([inverse_channels(profile, 0, rows) for rows in noise])
    error = np.stack([synthesise(profile, 0, comps, s) for s in range(DIMS[1])], axis=1)
    error -= profile.mean[0][:, :, None]
    cost = np.square(error, dtype=np.float64).mean(2) * steps[:, None, None]
    cost *= np.diagonal(channels[0], axis1=-2, axis2=-1)[:, None]
    assert cost == pytest.approx(np.full_like(cost, cost.mean()), rel=0.15)


def test_shapes_must_agree() -> None:
    profile = identity_profile(1, 2, 1, 2)
    with pytest.raises(CodecError, match="expected float32"):
        dataclasses.replace(profile, mean=profile.mean[:, :, :1])
    with pytest.raises(CodecError, match="expected float32"):
        dataclasses.replace(profile, mean=profile.mean.astype(np.float64))
    with pytest.raises(CodecError, match="expected 5"):
        dataclasses.replace(profile, sigma=profile.sigma[0])


def test_transforms_refuse_another_shape() -> None:
    profile = identity_profile(*DIMS)
    with pytest.raises(CodecError, match="expected"):
        forward(profile, 0, np.zeros((2, 3, 5, 2, 5), np.float32))
    with pytest.raises(CodecError, match="block 2"):
        forward(profile, 2, np.zeros((2, 3, 5, 2, 4), np.float32))
    with pytest.raises(CodecError, match="step 3"):
        synthesise(profile, 0, np.zeros((1, 2, 5, 2, 4), np.float32), 3)
