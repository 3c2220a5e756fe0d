"""Codecs by the name a manifest gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sakura.codec.base import Codec
from sakura.codec.pipeline import SakuraCodec
from sakura.codec.profile import CodecProfile
from sakura.codec.raw import RawCodec
from sakura.errors import CodecError

CODECS: Mapping[str, Callable[[CodecProfile], Codec]] = MappingProxyType(
    {SakuraCodec.id: SakuraCodec, RawCodec.id: RawCodec}
)


def create_codec(codec_id: str, profile: CodecProfile) -> Codec:
    """The codec named `codec_id`; CodecError when there is none."""
    factory = CODECS.get(codec_id)
    if factory is None:
        raise CodecError(
            f"unknown codec {codec_id!r}, this version knows {', '.join(sorted(CODECS))}",
            hint="the bundle may need a newer version of sakura-kv",
        )
    return factory(profile)
