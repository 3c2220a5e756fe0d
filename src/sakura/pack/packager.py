"""Makes a bundle of a template: capture, rank, calibrate, tune, encode, measure, write.

Every step's result is kept in a work folder, so a killed run's successor goes on where it stopped
and writes the same bytes. A bundle appears whole or not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sakura.codec import EncodedShard
from sakura.fidelity import to_db, to_mse
from sakura.format import write_bundle
from sakura.format.manifest import Predicted
from sakura.models.base import Adapter, Template
from sakura.models.threads import one_thread
from sakura.pack.allocate import (
    base_steps,
    coefficient_worth,
    component_shares,
    first_scale,
    scale_at,
)
from sakura.pack.capture import Capture, capture
from sakura.pack.describe import draft_manifest, step_share
from sakura.pack.edits import Injection
from sakura.pack.importance import Importance, rank_tokens
from sakura.pack.job import Job, make_job
from sakura.pack.ladder import Ladder, coefficients, decoded_levels
from sakura.pack.options import PackOptions, PackReport, missed_targets
from sakura.pack.picture import pack_picture
from sakura.pack.tuning import (
    MAX_TRIALS,
    Calibration,
    Shards,
    calibrate,
    tune_scale,
)
from sakura.pack.work import WorkFolder, work_folder
from sakura.store.writer import put_atomic

Array = NDArray[Any]
Progress = Callable[[str, float], None]

LEAST_MSE = 1e-10
"""Stands for identical pictures where a ratio of errors is needed."""


def pack(
    adapter: Adapter,
    template: Template,
    out: str | Path,
    options: PackOptions | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Write the bundle of a template.

    Args:
        adapter: the model.
        template: public part of the edits to come.
        out: path or URL of the bundle.
        options: see `PackOptions`.
        progress: told what is being done, and how much of the whole is done (0 to 1).

    Raises:
        InputError: the model cannot use the template.
        CodecError: unknown codec, or a profile that is missing or another model's.
        StoreError: another packager is at it, or the output cannot be written.
    """
    job = make_job(adapter, template, options or PackOptions())
    # Sums of several threads would come in another order: the same input must give the same bytes.
    with one_thread(), work_folder(out, job.key()) as work:
        bundle = _Packing(job, work, progress or _silent).run()
        num_bytes = put_atomic(out, bundle.pieces)
        work.discard()
    (progress or _silent)("done", 1.0)
    num_cached = job.template.mask.num_cached
    return PackReport(
        output=str(out),
        num_bytes=num_bytes,
        raw_state_bytes=adapter.geometry.state_bytes(num_cached, adapter.schedule.num_steps),
        level_bytes=bundle.level_bytes,
        predicted_db=bundle.levels_db,
        num_cached=num_cached,
        num_reused=work.num_reused,
        missed=missed_targets(job.options, bundle.levels_db),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Bundle:
    """What is left to write."""

    pieces: Iterator[bytes]
    level_bytes: tuple[int, ...]
    levels_db: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Material:
    """What the shards are made from; rows are in importance order."""

    captured: Capture
    importance: Importance
    injection: Injection
    coefs: Array
    worth: Array


class _Packing:
    """One run of the packager; each method makes a part, or finds it in the work folder."""

    def __init__(self, job: Job, work: WorkFolder, progress: Progress) -> None:
        self._job, self._work, self._progress = job, work, progress

    def run(self) -> _Bundle:
        """Make all parts of the bundle."""
        self._progress("capture the template", 0.0)
        material = self._material(self._capture())
        self._progress("run calibration edits", 0.15)
        calibration = self._calibration(material.injection)
        ladder = self._ladder(material, self._scale(material, calibration))
        shards = self._shards(material, ladder)
        self._progress("measure the levels", 0.75)
        errors = self._errors(calibration, ladder, shards)
        self._progress("write the bundle", 0.95)
        return self._bundle(material, ladder, shards, errors)

    def _capture(self) -> Capture:
        data = self._work.get("capture")
        if data is not None:
            return Capture(**_from_npz(data))
        job = self._job
        made = capture(job.adapter, job.template, [job.neutral()], job.options.seed)
        self._work.put("capture", _to_npz(tokens=made.tokens, state=made.state, mass=made.mass))
        return made

    def _material(self, captured: Capture) -> _Material:
        profile, importance = self._job.profile, rank_tokens(captured.mass)
        state = np.ascontiguousarray(captured.state[:, :, :, importance.order])
        shares = component_shares(profile.step_basis, step_share(profile))
        return _Material(
            captured,
            importance,
            Injection(captured.tokens[importance.order], state),
            coefficients(profile, state),
            coefficient_worth(profile.sensitivity, shares),
        )

    def _calibration(self, injection: Injection) -> Calibration:
        job, data = self._job, self._work.get("calibration")
        if data is not None:
            expected = tuple(_from_npz(data)["expected"])
            return Calibration(
                job.adapter, job.template, injection.tokens, job.requests(), expected
            )
        made = calibrate(job.adapter, job.template, injection, job.requests())
        self._work.put("calibration", _to_npz(expected=np.stack(made.expected)))
        return made

    def _scale(self, material: _Material, calibration: Calibration) -> int:
        """Index of the scale of all steps; uncompressed state has none."""
        job, options, data = self._job, self._job.options, self._work.get("scale")
        if data is not None:
            return int(data)
        if options.is_raw:
            return 0
        trials = count()

        def encode(scale: int) -> tuple[Ladder, Shards]:
            self._progress("tune the steps", 0.25 + 0.3 * next(trials) / MAX_TRIALS)
            ladder = self._ladder(material, scale)
            return ladder, {p: _encode(ladder, material, p, job.num_levels) for p in ladder.shards}

        first = first_scale(material.worth, to_mse(options.target_db), options.target_level)
        scale = tune_scale(calibration, first, options.targets, encode)
        self._work.put("scale", str(scale).encode())
        return scale

    def _ladder(self, material: _Material, scale: int) -> Ladder:
        job, worth = self._job, material.worth
        steps = np.ones_like(worth) if job.options.is_raw else base_steps(worth, scale_at(scale))
        return Ladder(job.codec, job.profile, material.importance, worth, steps)

    def _shards(self, material: _Material, ladder: Ladder) -> Shards:
        shards, places = {}, list(ladder.shards)
        for number, place in enumerate(places):
            self._progress("encode the shards", 0.55 + 0.2 * number / len(places))
            name = "shard-{:04d}-{:04d}".format(*place)
            data = self._work.get(name)
            if data is None:
                shards[place] = _encode(ladder, material, place, self._job.num_levels)
                self._work.put(name, msgspec.msgpack.encode(shards[place]))
            else:
                shards[place] = msgspec.msgpack.decode(data, type=EncodedShard)
        return shards

    def _errors(self, calibration: Calibration, ladder: Ladder, shards: Shards) -> list[float]:
        """Measured MSE of the calibration edits with nothing decoded, then at each level."""
        data = self._work.get("errors")
        if data is not None:
            return list(json.loads(data))
        errors = [calibration.mse(state) for state in decoded_levels(ladder, shards)]
        self._work.put("errors", json.dumps(errors).encode())
        return errors

    def _bundle(
        self, material: _Material, ladder: Ladder, shards: Shards, errors: list[float]
    ) -> _Bundle:
        job, predicted = self._job, ladder.predicted_errors(shards)
        corrections = np.maximum(errors, LEAST_MSE) / np.maximum(predicted, LEAST_MSE)
        levels_db = tuple(round(to_db(error), 2) for error in errors[1:])
        made = (material.captured, material.importance)
        draft = draft_manifest(job.adapter, job.template, made, job.profile, job.options)
        draft = msgspec.structs.replace(draft, predicted=Predicted(levels=levels_db))
        data = [ladder.shard_data(place, shards[place], corrections) for place in ladder.shards]
        sizes = np.array([[len(layer.payload) for layer in shard.layers] for shard in data])
        pieces = write_bundle(draft, data, pack_picture(job.template.image))
        return _Bundle(pieces, tuple(sizes.sum(0).tolist()), levels_db)


def _encode(
    ladder: Ladder, material: _Material, place: tuple[int, int], num_layers: int
) -> EncodedShard:
    spec = ladder.spec(*place)
    return ladder.codec.encode_shard(spec, material.coefs[place], num_layers)


def _to_npz(**arrays: Any) -> bytes:
    # numpy 2.0 would take a keyword of np.savez such as allow_pickle for one more array.
    assert not any(array.dtype.hasobject for array in arrays.values())
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _from_npz(data: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(data)) as arrays:
        return dict(arrays)


def _silent(_text: str, _fraction: float) -> None:
    """Progress that nobody watches."""
