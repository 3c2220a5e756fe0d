"""The codec: coefficients of a shard to an embedded stream and back (docs/codec.md)."""

from sakura.codec.base import Codec, EncodedShard, LayerStats, ShardDecoder, ShardSpec, TilePlan
from sakura.codec.fit import ErrorWeights, fit_profile, with_statistics
from sakura.codec.pipeline import SakuraCodec
from sakura.codec.profile import CodecProfile, identity_profile, load_profile, profile_from_bytes
from sakura.codec.raw import RawCodec
from sakura.codec.registry import CODECS, create_codec
from sakura.codec.transform import analyse, forward, inverse_channels, synthesise

__all__ = [
    "CODECS",
    "Codec",
    "CodecProfile",
    "EncodedShard",
    "ErrorWeights",
    "LayerStats",
    "RawCodec",
    "SakuraCodec",
    "ShardDecoder",
    "ShardSpec",
    "TilePlan",
    "analyse",
    "create_codec",
    "fit_profile",
    "forward",
    "identity_profile",
    "inverse_channels",
    "load_profile",
    "profile_from_bytes",
    "synthesise",
    "with_statistics",
]
