"""States to measure codecs on: the shipped demo templates, bundles of uncompressed state, or files
with a captured state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines.base import check_state
from sakura.bench.bundle_levels import head_of, level_states
from sakura.bench.subjects import Subject, check_edit
from sakura.bench.tasks import TASKS, load_task
from sakura.codec.raw import RawCodec
from sakura.errors import CodecError, InputError
from sakura.format import Manifest
from sakura.images import load_rgb
from sakura.models.base import Adapter, Request, Template
from sakura.pack.capture import capture
from sakura.pack.edits import Injection
from sakura.pack.neutral import calibration_references, neutral_reference
from sakura.pack.options import PackOptions
from sakura.store.open import open_reader

Array = NDArray[Any]

_PORTRAIT = PackOptions().num_calibration
"""The first shipped portrait that no packager has tuned a bundle with."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What the inputs are read with.

    Args:
        adapter: the model that edits; None measures the state alone.
        notes: remarks for people; reading adds to them.
    """

    adapter: Adapter | None
    notes: list[str]


def load_subjects(inputs: Sequence[str], setting: Setting) -> list[Subject]:
    """One subject an input; without inputs, one a demo template.

    Args:
        inputs: paths of `.npz` and `.safetensors` files (`state`, perhaps `mass`), or paths or
            URLs of bundles.
        setting: see `Setting`.

    Raises:
        InputError: a file that holds no state, or no inputs and no model.
        SakuraError: a bundle that cannot be read.
    """
    if inputs:
        return [_load(source, setting) for source in inputs]
    if setting.adapter is None:
        raise InputError("the demo templates need the model", hint="name captured states instead")
    return [demo_subject(name, setting.adapter) for name in TASKS]


def demo_subject(task: str, adapter: Adapter) -> Subject:
    """A shipped template, captured now, with its private reference."""
    from sakura.pack import load_template

    shipped = load_task(task)
    template = load_template(
        shipped.template_path,
        shipped.mask_path,
        task,
        adapter=adapter,
        placement=shipped.placement,
    )
    request = Request(load_rgb(shipped.reference_path), seed=shipped.seed)
    return captured_subject(adapter, task, template, request)


def captured_subject(adapter: Adapter, name: str, template: Template, request: Request) -> Subject:
    """A template's state as the packager captures it, and an edit on it."""
    made = capture(adapter, template, [neutral_reference(PackOptions().neutral, template)])
    check = check_edit(adapter, template, request, Injection(made.tokens, made.state))
    return Subject(name, template.task, made.state, made.mass, check)


def load_state(path: Path) -> dict[str, Array]:
    """Arrays of a captured state file: `state`, perhaps `mass`.

    Raises:
        InputError: there is no such file, or no state in it.
    """
    try:
        arrays = _arrays(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read a state: {error}", where=str(path)) from error
    if "state" not in arrays:
        raise InputError(
            f"no array `state`, found {', '.join(sorted(arrays)) or 'nothing'}",
            where=str(path),
            hint="save it as (blocks, 2, steps, tokens, heads, head dimension), K before V",
        )
    try:
        state = check_state(arrays["state"])
    except CodecError as error:
        raise InputError(str(error), where=str(path)) from error
    if state.size == 0:
        raise InputError(f"an empty state {state.shape}", where=str(path))
    return {**arrays, "state": state}


def is_state_file(source: str) -> bool:
    """Whether an input is a bare state, by its name."""
    return Path(source).suffix in (".npz", ".safetensors")


def _load(source: str, setting: Setting) -> Subject:
    if is_state_file(source):
        arrays = load_state(Path(source))
        mass, shape = arrays.get("mass"), arrays["state"].shape
        if mass is not None and mass.shape != (shape[0], shape[3]):
            raise InputError(
                f"mass is {mass.shape}, expected (blocks, tokens) {(shape[0], shape[3])}",
                where=source,
            )
        return Subject(Path(source).stem, "", arrays["state"], mass)
    return _bundled(source, setting)


def _bundled(source: str, setting: Setting) -> Subject:
    reader = open_reader(source)
    data = reader.read(0, reader.stat().num_bytes)
    head = head_of(data)
    manifest = head.manifest
    if manifest.codec.id != RawCodec.id:
        raise InputError(
            f"the bundle holds {manifest.codec.id}, not uncompressed state",
            where=source,
            hint=f"pack it with --codec {RawCodec.id}",
        )
    order = manifest.importance_order
    (state,) = level_states(data, head, None)
    rows = np.argsort(order)
    state, tokens = np.ascontiguousarray(state[:, :, :, rows]), order[rows]
    name, adapter = Path(source).stem, setting.adapter
    if adapter is None or not _is_model(adapter, manifest):
        setting.notes.append(f"{name}: no model for it, fidelity is of the state alone")
        return Subject(name, manifest.task, state)
    from sakura.play import open as open_bundle

    template = open_bundle(source).template()
    made = capture(adapter, template, [neutral_reference(PackOptions().neutral, template)])
    request = Request(calibration_references(_PORTRAIT + 1)[_PORTRAIT], seed=1)
    check = check_edit(adapter, template, request, Injection(tokens, state))
    return Subject(name, manifest.task, state, made.mass, check)


def _is_model(adapter: Adapter, manifest: Manifest) -> bool:
    identity, model = adapter.identity(), manifest.model
    ours = (identity.family, identity.weights_digest)
    return ours == (model.family, model.weights_digest)


def _arrays(path: Path) -> dict[str, Array]:
    if path.suffix == ".safetensors":
        try:
            from safetensors.numpy import load_file
        except ImportError as error:
            raise InputError(
                "safetensors files need a package", hint='pip install "sakura-kv[torch]"'
            ) from error
        return dict(load_file(path))
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)
