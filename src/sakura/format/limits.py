"""How much a reader is willing to believe; checked before anything of that size is allocated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, inclusive. The defaults hold every model family in docs/ with room to spare."""

    max_manifest_bytes: int = 16 << 20
    max_tokens: int = 1 << 20
    max_blocks: int = 1 << 10
    max_steps: int = 1 << 10
    max_heads: int = 1 << 10
    max_head_dim: int = 1 << 12
    max_levels: int = 16
    # K and V of one shard for all cached tokens, in values: what a decoder allocates at once.
    max_shard_values: int = 1 << 31


DEFAULT = Limits()
