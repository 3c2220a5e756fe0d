"""The codecs keep the contract, and the registry knows them."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.codec import CODECS, Codec, RawCodec, SakuraCodec, create_codec
from sakura.codec.bf16 import from_bf16, to_bf16
from sakura.codec.kernel import NumpyKernel
from sakura.codec.native import native_kernel
from sakura.errors import CodecError
from tests.codec.contract import PROFILE, SPEC, CodecContract


class TestNumpy(CodecContract):
    def codec(self) -> Codec:
        return SakuraCodec(PROFILE, NumpyKernel())


@pytest.mark.skipif(native_kernel() is None, reason="the native core is not built")
class TestNative(CodecContract):
    def codec(self) -> Codec:
        return SakuraCodec(PROFILE, native_kernel())


class TestRaw(CodecContract):
    def codec(self) -> Codec:
        return RawCodec(PROFILE)


def test_the_registry_creates_each_codec_by_its_name() -> None:
    assert set(CODECS) == {"sakura-klt-rans/1", "raw-bf16/1"}
    for name in CODECS:
        assert create_codec(name, PROFILE).id == name


def test_an_unknown_codec_is_refused_with_a_hint() -> None:
    with pytest.raises(CodecError, match="unknown codec 'zip/9'") as caught:
        create_codec("zip/9", PROFILE)
    assert caught.value.hint is not None


def test_bf16_rounds_to_nearest_even() -> None:
    # 1 + 1/256 lies half-way between 1 and the next bfloat16; 1 + 3/256 half-way to an even one.
    values = np.array([1.0, 1 + 1 / 256, 1 + 3 / 256, -2.5, 0.0], np.float32)
    expected = [1.0, 1.0, 1 + 4 / 256, -2.5, 0.0]
    assert from_bf16(to_bf16(values)).tolist() == expected


def test_bf16_refuses_overflow() -> None:
    source = np.full((2, 8, 6), np.finfo(np.float32).max, np.float32)
    with pytest.raises(CodecError, match="too large"):
        RawCodec(PROFILE).encode_shard(SPEC, source)


def test_a_raw_layer_with_nan_is_refused_and_a_prefix_of_it_is_zeroed() -> None:
    codec = RawCodec(PROFILE)
    data = bytearray(codec.encode_shard(SPEC, np.ones((2, 8, 6), np.float32)).layers[0])
    data[0:2] = b"\xc0\x7f"
    decoder = codec.decoder(SPEC)
    decoder.feed_layer(0, bytes(data), complete=False)
    assert decoder.coefficients()[0, 0, 0] == 0
    with pytest.raises(CodecError, match="NaN"):
        decoder.feed_layer(0, bytes(data), complete=True)
