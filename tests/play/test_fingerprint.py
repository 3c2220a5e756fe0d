"""Which models and profiles a bundle accepts."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from sakura.codec import identity_profile
from sakura.errors import CodecError, FingerprintError
from sakura.format import Head, Manifest, parse_head
from sakura.format.manifest import Canary
from sakura.play.fingerprint import check_model, find_profile
from tests.play import bundles


def manifest(**changes: Any) -> Manifest:
    """The manifest of the test bundle with single fields changed: `model__family="x"`."""
    head = parse_head(bundles.compressed().data, len(bundles.compressed().data))
    assert isinstance(head, Head)
    found = head.manifest
    for path, value in changes.items():
        part, _, field = path.partition("__")
        inner = msgspec.structs.replace(getattr(found, part), **{field: value}) if field else value
        found = msgspec.structs.replace(found, **{part: inner})
    return found


def canary(shift: float, tolerance: float = 0.01) -> Canary:
    values = bundles.adapter().identity().canary * np.float16(1 + shift)
    return Canary(values=values.astype("<f2").tobytes(), tolerance=tolerance)


def test_the_model_that_was_captured_fits() -> None:
    assert check_model(bundles.adapter(), manifest()) == 0.0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model__family", "mini-z"),
        ("model__class_name", "Other"),
        ("model__config_digest", "0" * 32),
        ("model__adapters", ("lora:x",)),
        ("reuse", "reference"),
        ("noise__generator", "mersenne"),
        ("schedule__name", "ddim"),
        ("schedule__sigmas", (1.0, 0.5, 0.0)),
        ("geometry__num_double", 3),
        ("geometry__head_dim", 64),
        ("grid__patch_px", 16),
    ],
)
def test_what_differs_is_named(path: str, value: Any) -> None:
    with pytest.raises(FingerprintError) as caught:
        check_model(bundles.adapter(), manifest(**{path: value}))
    assert path.replace("__", ".") in str(caught.value)
    assert caught.value.hint


def test_sigmas_may_differ_in_the_last_bit() -> None:
    sigmas = tuple(float(np.nextafter(s, 0)) for s in bundles.adapter().schedule.sigmas)
    assert check_model(bundles.adapter(), manifest(schedule__sigmas=sigmas)) == 0.0


def test_other_weights_need_a_close_canary() -> None:
    other = "2" * 32
    found = manifest(model__weights_digest=other, model__canary=canary(0.005))
    assert 0 < (check_model(bundles.adapter(), found) or 0.0) <= 0.01
    with pytest.raises(FingerprintError, match="weights"):
        check_model(bundles.adapter(), manifest(model__weights_digest=other, model__canary=None))


def test_a_far_canary_is_refused_even_with_the_same_weights() -> None:
    with pytest.raises(FingerprintError, match="canary"):
        check_model(bundles.adapter(), manifest(model__canary=canary(0.05)))


def test_a_canary_of_another_length_is_infinitely_far() -> None:
    short = Canary(values=b"\0\x3c", tolerance=1e6)
    with pytest.raises(FingerprintError, match="inf"):
        check_model(bundles.adapter(), manifest(model__canary=short))


def test_without_canary_the_digest_decides() -> None:
    assert check_model(bundles.adapter(), manifest(model__canary=None)) is None


def test_the_profile_is_found_by_digest() -> None:
    profile = bundles.compressed().profile
    assert find_profile(bundles.adapter(), manifest(), profile) is profile
    with pytest.raises(CodecError, match="profile") as caught:
        find_profile(
            bundles.adapter(),
            manifest(),
            dataclasses.replace(profile, sigma=profile.sigma * np.float32(1.5)),
        )
    assert caught.value.hint


def test_the_raw_codec_needs_no_shipped_profile() -> None:
    head = parse_head(bundles.raw().data, len(bundles.raw().data))
    assert isinstance(head, Head)
    found = find_profile(bundles.adapter(), head.manifest)
    assert found.digest == identity_profile(6, 8, 4, 48).digest
