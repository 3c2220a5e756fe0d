"""Writes golden/v1_0.skv; a golden file that exists is never written again."""

from __future__ import annotations

from pathlib import Path

from sakura.format import write_bundle
from tests.format.tiny import PICTURE, seal, split, tiny_manifest, tiny_shards

GOLDEN = Path(__file__).parent / "golden" / "v1_0.skv"

if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    written = b"".join(write_bundle(tiny_manifest(), tiny_shards(), PICTURE))
    with GOLDEN.open("xb") as file:
        file.write(seal(*split(written)))
