"""A demo task with its two bundles: one as SAKURA writes it, one with uncompressed state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sakura.bench.methods import Job
from sakura.bench.tasks import DemoTask
from sakura.codec import CodecProfile
from sakura.images import load_rgb
from sakura.models.base import Adapter, Request, Template

CODECS = {"sakura": "sakura-klt-rans/1", "uncompressed": "raw-bf16/1"}
"""Codec of each method that streams."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What the runs of one task share."""

    task: DemoTask
    template: Template
    request: Request
    bundle_bytes: dict[str, int]
    profile: CodecProfile | None = None

    def job(self, base_url: str, floor_db: float) -> Job:
        """The edit to make against an origin."""
        urls = {method: f"{base_url}/{bundle_name(self.task.name, method)}" for method in CODECS}
        return Job(self.template, self.request, urls, floor_db, self.profile)


def bundle_name(task: str, method: str) -> str:
    """Name of a task's bundle in the store."""
    return f"{task}.skv" if method == "sakura" else f"{task}-{method}.skv"


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model and how to pack for it.

    Attributes:
        adapter: the model.
        profile: codec profile to use in place of the one that ships.
        num_calibration: edits that the packager tunes a bundle with.
    """

    adapter: Adapter
    profile: CodecProfile | None = None
    num_calibration: int = 3


def pack_task(
    model: DemoModel, task: DemoTask, store: Path, progress: Callable[[str, float], None]
) -> Packed:
    """Pack a task's template with every codec into a store folder.

    Args:
        model: what makes the edits.
        task: what to pack.
        store: folder.
        progress: told what is done, and how much of it (0 to 1).
    """
    from sakura.pack import PackOptions, load_template, pack

    template = load_template(
        task.template_path,
        task.mask_path,
        task.name,
        adapter=model.adapter,
        placement=task.placement,
    )
    num_bytes = {}
    for index, (method, codec) in enumerate(CODECS.items()):
        path = store / bundle_name(task.name, method)

        def part(text: str, fraction: float, index: int = index) -> None:
            progress(f"pack {task.name}: {text}", (index + fraction) / len(CODECS))

        profile = model.profile if method == "sakura" else None
        options = PackOptions(codec=codec, profile=profile, num_calibration=model.num_calibration)
        pack(model.adapter, template, path, options, progress=part)
        num_bytes[method] = path.stat().st_size
    request = Request(load_rgb(task.reference_path), seed=task.seed)
    return Packed(task, template, request, num_bytes, model.profile)
