"""The bundle format, v1: the only thing the packager, the origin and the player agree on.

docs/format.md is normative. Imports nothing above grid and errors, and reads no file or network.
"""

from __future__ import annotations

from sakura.format.container import (
    Head,
    HeadNeeds,
    parse_head,
    read_head,
    read_manifest,
)
from sakura.format.limits import Limits
from sakura.format.manifest import Manifest
from sakura.format.shard import Layer, Shard, verify_chunk
from sakura.format.verify import Report, verify_bundle
from sakura.format.write import LayerData, Picture, ShardData, plan_bundle, write_bundle

__all__ = [
    "Head",
    "HeadNeeds",
    "Layer",
    "LayerData",
    "Limits",
    "Manifest",
    "Picture",
    "Report",
    "Shard",
    "ShardData",
    "parse_head",
    "plan_bundle",
    "read_head",
    "read_manifest",
    "verify_bundle",
    "verify_chunk",
    "write_bundle",
]
