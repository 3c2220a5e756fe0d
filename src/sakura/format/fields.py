"""The kinds of values a manifest holds, with their ranges; msgspec checks them while decoding."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

# Counts stop at 2^53: beyond it, JSON readers in other languages round.
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Gain = Annotated[int, Meta(ge=-32, le=32)]
Positive = Annotated[int, Meta(ge=1, le=1 << 53)]
HexDigest = Annotated[str, Meta(pattern="^[0-9a-f]{32,64}$")]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=4096)]
NonNegative = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
