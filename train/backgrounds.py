"""Procedural backgrounds: rooms, hills, skies, patterns and cloud noise, drawn from a seed.

Test backgrounds use families that training never draws, so a model cannot have learned them.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

TRAIN_FAMILIES = ("gradient", "clouds", "hills", "room", "stripes", "blobs")
TEST_FAMILIES = ("city", "tiles", "clouds")


def _color(rng: np.random.Generator, low: float = 20, high: float = 245) -> tuple[int, int, int]:
    r, g, b = rng.uniform(low, high, 3).astype(int)
    return int(r), int(g), int(b)


def _gradient(rng: np.random.Generator, size: int) -> Image.Image:
    top, bottom = np.array(_color(rng)), np.array(_color(rng))
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[0:size, 0:size] / (size - 1) - 0.5
    t = np.clip(0.5 + x * np.cos(angle) + y * np.sin(angle), 0, 1)[..., None]
    return Image.fromarray((top * (1 - t) + bottom * t).astype(np.uint8))


def _clouds(rng: np.random.Generator, size: int) -> Image.Image:
    """1/f noise mapped through two colours: the spectrum of natural photographs."""
    fy, fx = np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)[None]
    amplitude = 1 / np.maximum(np.hypot(fy, fx), 1 / size) ** rng.uniform(1.2, 2.0)
    noise = np.fft.ifft2(amplitude * np.exp(2j * np.pi * rng.random((size, size)))).real
    t = (noise - noise.min()) / (np.ptp(noise) + 1e-9)
    a, b = np.array(_color(rng)), np.array(_color(rng))
    return Image.fromarray((a * (1 - t[..., None]) + b * t[..., None]).astype(np.uint8))


def _hills(rng: np.random.Generator, size: int) -> Image.Image:
    image = _gradient(rng, size)
    draw = ImageDraw.Draw(image)
    x = np.arange(size)
    for level in np.sort(rng.uniform(0.35, 0.9, rng.integers(2, 5))):
        wave = rng.uniform(0.02, 0.12) * np.sin(x * rng.uniform(0.01, 0.06) + rng.uniform(0, 6))
        y = (level + wave) * size
        points = [*zip(x.tolist(), y.tolist(), strict=True), (size, size), (0, size)]
        draw.polygon(points, fill=_color(rng, 30, 200))
    if rng.random() < 0.5:
        cx, cy, r = rng.uniform(0, size), rng.uniform(0, size * 0.35), rng.uniform(5, 18)
        draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=_color(rng, 180, 255))
    return image


def _room(rng: np.random.Generator, size: int) -> Image.Image:
    image = Image.new("RGB", (size, size), _color(rng, 60, 245))
    draw = ImageDraw.Draw(image)
    floor = rng.uniform(0.6, 0.85) * size
    draw.rectangle((0, floor, size, size), fill=_color(rng, 40, 200))
    for _ in range(rng.integers(1, 4)):
        x, y = rng.uniform(0, size * 0.8), rng.uniform(0, floor * 0.6)
        w, h = rng.uniform(0.15, 0.4, 2) * size
        draw.rectangle((x, y, x + w, y + h), fill=_color(rng), outline=_color(rng), width=3)
    return image


def _stripes(rng: np.random.Generator, size: int) -> Image.Image:
    y, x = np.mgrid[0:size, 0:size]
    angle, period = rng.uniform(0, np.pi), rng.uniform(8, 40)
    t = (np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period) > 0)[..., None]
    image = Image.fromarray(np.where(t, _color(rng), _color(rng)).astype(np.uint8))
    return image.filter(ImageFilter.GaussianBlur(0.7))


def _blobs(rng: np.random.Generator, size: int) -> Image.Image:
    image = _gradient(rng, size)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(4, 14)):
        cx, cy = rng.uniform(0, size, 2)
        rx, ry = rng.uniform(3, 30, 2)
        draw.ellipse((cx - rx, cy - ry, cx + rx, cy + ry), fill=_color(rng))
    return image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 3))))


def _city(rng: np.random.Generator, size: int) -> Image.Image:
    image = _gradient(rng, size)
    draw = ImageDraw.Draw(image)
    x = 0.0
    while x < size:
        w, top = rng.uniform(12, 30), rng.uniform(0.25, 0.8) * size
        draw.rectangle((x, top, x + w, size), fill=_color(rng, 30, 160))
        light = _color(rng, 150, 250)
        for wy in np.arange(top + 4, size - 4, 8):
            for wx in np.arange(x + 3, x + w - 4, 7):
                if rng.random() < 0.5:
                    draw.rectangle((wx, wy, wx + 2, wy + 3), fill=light)
        x += w
    return image


def _tiles(rng: np.random.Generator, size: int) -> Image.Image:
    image = Image.new("RGB", (size, size), _color(rng))
    draw = ImageDraw.Draw(image)
    step, a, b = int(rng.integers(10, 28)), _color(rng), _color(rng)
    for i, y in enumerate(range(0, size, step)):
        for j, x in enumerate(range(0, size, step)):
            fill = a if (i + j) % 2 else b
            draw.rectangle((x + 1, y + 1, x + step - 1, y + step - 1), fill=fill)
    return image


FAMILIES = {
    "gradient": _gradient,
    "clouds": _clouds,
    "hills": _hills,
    "room": _room,
    "stripes": _stripes,
    "blobs": _blobs,
    "city": _city,
    "tiles": _tiles,
}


def background(rng: np.random.Generator, size: int, families: tuple[str, ...]) -> np.ndarray:
    """Draw one background.

    Args:
        rng: source of all randomness.
        size: side in pixels.
        families: names to choose from.

    Returns:
        (size, size, 3) uint8.
    """
    family = families[int(rng.integers(len(families)))]
    return np.asarray(FAMILIES[family](rng, size).convert("RGB"))
