"""What every codec promises; a codec is done when a subclass of `CodecContract` passes."""

from __future__ import annotations

import abc

import numpy as np
import pytest

from sakura.codec import Codec, ShardSpec, TilePlan
from sakura.errors import CodecError
from tests.codec.cases import Array, draw, spectrum_profile

PROFILE = spectrum_profile(2, 3)
TILES = TilePlan(widths=(5, 3), gains=(0, 0))
SPEC = ShardSpec(block=0, component=0, delta=(0.5, 0.5), tiles=TILES)


class CodecContract(abc.ABC):
    """Subclass it as `Test...` and say which codec."""

    @abc.abstractmethod
    def codec(self) -> Codec:
        """The codec under test, for PROFILE."""

    def source(self) -> Array:
        return draw(PROFILE, TILES.num_tokens, seed=3)

    def test_layers_only_improve(self) -> None:
        codec, source = self.codec(), self.source()
        shard = codec.encode_shard(SPEC, source)
        decoder = codec.decoder(SPEC)
        assert decoder.num_layers >= len(shard.layers) == len(shard.stats)
        before = np.array(shard.energy)
        for layer, (data, stats) in enumerate(zip(shard.layers, shard.stats, strict=True)):
            assert decoder.level == layer
            decoder.feed_layer(layer, data, complete=True)
            error = np.square(source - decoder.coefficients(), dtype=np.float64).mean((1, 2))
            assert stats.distortion == pytest.approx(tuple(error), rel=1e-6)
            assert stats.num_bytes == len(data)
            assert (error < before).all()
            before = error
        assert decoder.level == len(shard.layers)

    def test_nothing_decoded_is_zero(self) -> None:
        values = self.codec().decoder(SPEC).coefficients()
        assert values.shape == (2, TILES.num_tokens, PROFILE.num_coefs)
        assert values.dtype == np.float32
        assert not values.any()

    def test_every_prefix_decodes_to_part_of_the_layer(self) -> None:
        codec = self.codec()
        data = codec.encode_shard(SPEC, self.source()).layers[0]
        whole = codec.decoder(SPEC)
        whole.feed_layer(0, data, complete=True)
        full, before = whole.coefficients(), 0
        for length in range(len(data) + 1):
            decoder = codec.decoder(SPEC)
            count = decoder.feed_layer(0, data[:length], complete=False)
            assert count >= before
            assert decoder.level == 0
            before = count
        assert (decoder.coefficients() == full).all()

    def test_a_longer_prefix_may_follow_a_shorter_one(self) -> None:
        codec = self.codec()
        shard = codec.encode_shard(SPEC, self.source())
        decoder, straight = codec.decoder(SPEC), codec.decoder(SPEC)
        for layer, data in enumerate(shard.layers):
            for length in (0, len(data) // 2, len(data) - 1):
                decoder.feed_layer(layer, data[:length], complete=False)
            decoder.feed_layer(layer, data, complete=True)
            straight.feed_layer(layer, memoryview(data), complete=True)
            assert (decoder.coefficients() == straight.coefficients()).all()

    def test_a_complete_stream_of_another_length_is_refused(self) -> None:
        codec = self.codec()
        data = codec.encode_shard(SPEC, self.source()).layers[0]
        for wrong in (data[:-1], data + b"\0", b""):
            decoder = codec.decoder(SPEC)
            with pytest.raises(CodecError):
                decoder.feed_layer(0, wrong, complete=True)
            assert decoder.level == 0
            assert not decoder.coefficients().any()

    def test_layers_come_in_turn(self) -> None:
        decoder = self.codec().decoder(SPEC)
        for layer in (-1, 1, 4, 99):
            with pytest.raises(CodecError, match="out of turn"):
                decoder.feed_layer(layer, b"", complete=False)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_refused(self, bad: float) -> None:
        source = self.source()
        source[1, 7, 5] = bad
        with pytest.raises(CodecError, match="NaN or infinity"):
            self.codec().encode_shard(SPEC, source)

    def test_another_shape_is_refused(self) -> None:
        source = self.source()
        for wrong in (source[:1], source[:, 1:], source[:, :, 1:], source[None]):
            with pytest.raises(CodecError, match="coefficients are"):
                self.codec().encode_shard(SPEC, wrong)

    def test_encoding_is_deterministic(self) -> None:
        first = self.codec().encode_shard(SPEC, self.source())
        assert first == self.codec().encode_shard(SPEC, self.source())

    def test_no_tokens_is_a_shard_too(self) -> None:
        codec = self.codec()
        empty = ShardSpec(0, 0, (1.0, 1.0), TilePlan((), ()))
        shard = codec.encode_shard(empty, np.zeros((2, 0, PROFILE.num_coefs), np.float32))
        assert set(shard.layers) == {b""}
        decoder = codec.decoder(empty)
        decoder.feed_layer(0, b"", complete=True)
        assert decoder.coefficients().shape == (2, 0, PROFILE.num_coefs)
