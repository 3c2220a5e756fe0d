"""The demo's tasks: each has a template, its mask, a private reference and the ground truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.images import load_rgb

TASKS = ("face-swap", "try-on", "into-scene")


@dataclass(frozen=True, slots=True)
class DemoTask:
    """One shipped edit.

    Attributes:
        name: the task, as the model knows it.
        caption: what the edit does, for people.
        placement: (top, left, height, width) in tokens: where the reference's content belongs.
        seed: of the request.
        folder: where template, mask, reference and truth lie, as PNG files.
    """

    name: str
    caption: str
    placement: tuple[int, int, int, int]
    seed: int
    folder: Path

    @property
    def template_path(self) -> Path:
        return self.folder / "template.png"

    @property
    def mask_path(self) -> Path:
        return self.folder / "mask.png"

    @property
    def reference_path(self) -> Path:
        return self.folder / "reference.png"

    def truth(self) -> NDArray[np.uint8]:
        """What a perfect edit shows: (H, W, 3) uint8."""
        return load_rgb(self.folder / "truth.png")


def load_task(name: str) -> DemoTask:
    """A shipped task by name. Raises InputError for another one."""
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}", hint=f"tasks: {', '.join(TASKS)}")
    folder = Path(str(files("sakura").joinpath("assets", "templates", name)))
    about = json.loads((folder / "template.json").read_text("utf-8"))
    top, left, height, width = about["placement"]
    return DemoTask(name, about["caption"], (top, left, height, width), about["seed"], folder)
