"""Avatars with separable identity and garment, rendered from DiceBear definitions by resvg.

An avatar is (style, identity options, garment options). Swapping one part and keeping the other
gives the exact ground truth of an edit. Identities and garments of the test split never occur in
training: the split is a hash of the discrete choices, so colours may repeat, combinations may not.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import resvg_py
from dicebear import Avatar, Style
from PIL import Image

STYLES = ("avataaars", "toon-head", "micah")
_PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "avataaars": {
        "identity": ("top", "eyes", "eyebrows", "mouth", "facialHair", "accessories"),
        "identity_colors": ("skin", "hair", "facialHair", "hat", "accessories"),
        "garment": ("clothes", "clothesGraphic"),
        "garment_colors": ("clothes",),
    },
    "toon-head": {
        "identity": ("beard", "eyes", "eyebrows", "hair", "mouth", "rearHair"),
        "identity_colors": ("skin", "hair"),
        "garment": ("clothes",),
        "garment_colors": ("clothes",),
    },
    "micah": {
        "identity": (
            *("ears", "earrings", "eyebrows", "eyes", "facialHair"),
            *("glasses", "hair", "mouth", "nose"),
        ),
        "identity_colors": ("base", "hair", "glasses", "eyeShadow", "earring"),
        "garment": ("clothes",),
        "garment_colors": ("shirt",),
    },
}
_EXCLUDED = {"xDizzy", "hearts", "cry", "vomit", "eating"}
_PROBABILITY = {
    "facialHair": 0.3,
    "accessories": 0.3,
    "beard": 0.3,
    "rearHair": 0.6,
    "glasses": 0.35,
    "earrings": 0.3,
}


@dataclass(frozen=True, slots=True)
class Part:
    """One drawn choice: DiceBear options and the discrete key that decides its split."""

    options: dict[str, Any]
    key: str

    @property
    def is_test(self) -> bool:
        return hashlib.sha256(self.key.encode()).digest()[0] < 32  # one in eight


class AvatarStyle:
    """Draws identities and garments of one DiceBear style and renders them."""

    def __init__(self, name: str) -> None:
        text = files("dicebear_styles").joinpath(f"{name}.json").read_text()
        self.name = name
        self._definition = json.loads(text)
        self._style = Style(self._definition)

    def _draw(self, rng: np.random.Generator, kind: str) -> Part:
        options: dict[str, Any] = {}
        key = [self.name, kind]
        for part in _PARTS[self.name][kind]:
            names = [
                n for n in self._definition["components"][part]["variants"] if n not in _EXCLUDED
            ]
            variant = names[int(rng.integers(len(names)))]
            options[f"{part}Variant"] = [variant]
            shown = part not in _PROBABILITY or rng.random() < _PROBABILITY[part]
            if part in _PROBABILITY:
                options[f"{part}Probability"] = 100 if shown else 0
            key.append(variant if shown else "-")
        for part in _PARTS[self.name][f"{kind}_colors"]:
            values = self._definition["colors"][part]["values"]
            base = values[int(rng.integers(len(values)))].lstrip("#")
            rgb = np.array([int(base[i : i + 2], 16) for i in (0, 2, 4)])
            rgb = np.clip(rgb * rng.uniform(0.8, 1.2, 3), 0, 255).astype(int)
            options[f"{part}Color"] = ["#{:02x}{:02x}{:02x}".format(*rgb)]
            if kind == "garment":
                key.append(base)
        return Part(options, "|".join(key))

    def draw(self, rng: np.random.Generator, kind: str, test: bool) -> Part:
        """Draw an `identity` or `garment` of the wanted split."""
        while (part := self._draw(rng, kind)).is_test != test:
            pass
        return part

    def render(self, identity: Part, garment: Part, size: int) -> np.ndarray:
        """Render to (size, size, 4) uint8, premultiplied alpha."""
        options = {"seed": "x", "size": size, "backgroundColor": []}
        svg = Avatar(self._style, {**options, **identity.options, **garment.options}).to_string()
        png = resvg_py.svg_to_bytes(svg_string=svg, width=size, height=size, skip_system_fonts=True)
        rgba = np.asarray(Image.open(io.BytesIO(bytes(png))).convert("RGBA"), np.uint16)
        rgb = rgba[..., :3] * rgba[..., 3:] // 255
        return np.concatenate([rgb, rgba[..., 3:]], -1).astype(np.uint8)
