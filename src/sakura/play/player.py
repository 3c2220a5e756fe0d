"""Edits: one template, one model, any number of requests.

A player owns a fetch thread and a decode thread between `with` and its end. What it has decoded
stays, so a further edit with the same template fetches only what raises quality.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sakura.codec import CodecProfile, create_codec
from sakura.errors import InputError, PlayError
from sakura.grid import TokenMask
from sakura.images import load_rgb
from sakura.models.base import Adapter, Request
from sakura.play.bundle import Bundle
from sakura.play.deadlines import BlockTimes
from sakura.play.decode import Decoder
from sakura.play.decode_process import ProcessEngine
from sakura.play.downloads import Limits
from sakura.play.edit import DeviceGuide, EditResult, Job, Listener, edit_on_device
from sakura.play.engine import LocalEngine
from sakura.play.exchange import Exchange
from sakura.play.fetch import Fetcher
from sakura.play.fingerprint import check_model, find_profile
from sakura.play.plan import error_model
from sakura.play.policy import create_policy
from sakura.play.session import Session, Setting
from sakura.play.state import StateStore

Array = NDArray[Any]

__all__ = ["EditResult", "Player", "PlayerOptions", "edit_on_device"]


@dataclass(frozen=True, slots=True)
class PlayerOptions:
    """How a player plays.

    Args:
        policy: who decides, see `sakura.play.policy`; "device" fetches nothing.
        floor_db: least PSNR against uncompressed state that injecting may lead to.
        num_fetches: ranges in flight.
        max_total_bytes: bytes of shards to fetch for an edit, None for no limit.
        deadline_s: for the policy "deadline": the edit should take no longer; None for soon.
        decoder: "thread", or "process" to keep decoding away from the executor's interpreter lock
            at the price of a slower start and more memory.
        profile: codec profile to use instead of the one that ships with the model.
        clock: monotonic seconds.
    """

    policy: str = "sakura"
    floor_db: float = 40.0
    num_fetches: int = 3
    max_total_bytes: int | None = None
    deadline_s: float | None = None
    decoder: Literal["process", "thread"] = "thread"
    profile: CodecProfile | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if not 0 < self.floor_db <= 200:
            raise InputError(f"floor_db is {self.floor_db}, expected 0 to 200")
        if not 1 <= self.num_fetches <= 16:
            raise InputError(f"num_fetches is {self.num_fetches}, expected 1 to 16")
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise InputError(f"deadline_s is {self.deadline_s}, expected more than 0")
        if self.decoder not in ("process", "thread"):
            raise InputError(f"decoder is {self.decoder!r}, expected process or thread")


@dataclass(frozen=True, slots=True)
class Workers:
    """The threads and the store that edits share."""

    fetcher: Fetcher
    decoder: Decoder
    store: StateStore


class OptionNames(TypedDict, total=False):
    """The fields of PlayerOptions, as keywords."""

    policy: str
    floor_db: float
    num_fetches: int
    max_total_bytes: int | None
    deadline_s: float | None
    decoder: Literal["process", "thread"]
    profile: CodecProfile | None
    clock: Callable[[], float]


class Player:
    """Runs edits of one bundle; use it in a `with` block, from one thread.

    Args:
        model: an adapter, see `load_model`.
        bundle: an opened bundle; one player at a time uses its reader.
        options: how to play; single fields can be given as keywords instead.
        listener: called with every event, in the thread where it happens.

    Raises:
        FingerprintError: the bundle was captured from another model.
        CodecError: its codec or codec profile is not known here.
        SakuraError: see `Bundle.template`.
    """

    def __init__(
        self,
        model: Adapter,
        bundle: Bundle,
        options: PlayerOptions | None = None,
        *,
        listener: Listener | None = None,
        **changes: Unpack[OptionNames],
    ) -> None:
        self.options = replace(options or PlayerOptions(), **changes)
        self._model, self._bundle, self._listener = model, bundle, listener
        self._policy = create_policy(self.options.policy)
        manifest = bundle.manifest
        self._canary_distance = check_model(model, manifest)
        self._template = bundle.template()
        self._times = BlockTimes(manifest.geometry.num_blocks)
        self._prior_bps: float | None = None
        self._profile: CodecProfile | None = None
        self._workers: Workers | None = None
        if self._policy.is_streaming:
            self._profile = find_profile(model, manifest, self.options.profile)
            create_codec(manifest.codec.id, self._profile)  # complains now, not in the child

    def __enter__(self) -> Self:
        if self._profile is not None and self._workers is None:
            self._workers = self._make_workers(self._profile)
            self._workers.decoder.start()
            self._workers.fetcher.start(num_warm=self.options.num_fetches)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the threads. Raises PlayError where one does not end."""
        workers, self._workers = self._workers, None
        if workers is not None:
            try:
                workers.fetcher.close()
            finally:
                workers.decoder.close()

    def edit(
        self,
        reference: Array | Image.Image | str | Path,
        prompt: str | None = None,
        seed: int = 0,
        mask: TokenMask | None = None,
    ) -> EditResult:
        """Edit the template.

        Args:
            reference: the user's picture: (h, w, 3) uint8, a Pillow image or a path.
            prompt: text, or None for the task's own.
            seed: seed of the active tokens' noise.
            mask: tokens to change, at least the template's; None for the template's.

        Raises:
            InputError: a picture, prompt or mask that cannot be used.
            PlayError: outside a `with` block.
        """
        if self._policy.is_streaming and self._workers is None:
            raise PlayError("the player is closed", hint="use it in a `with` block")
        request = Request(pixels_of(reference), prompt, seed, mask)
        job = Job(self._model, self._template, request, self._listener, self.options.clock)
        job.begin(
            self._policy.name,
            floor_db=self.options.floor_db,
            head_bytes=self._bundle.head_bytes,
            canary_distance=self._canary_distance,
        )
        if self._workers is None:
            image = job.render(DeviceGuide(job.log))
            return job.end(image, job.log.now())
        return self._stream(job, self._workers)

    def _stream(self, job: Job, workers: Workers) -> EditResult:
        session = Session(self._setting(workers.store), self._times)
        exchange = Exchange(session, workers, job.log, self._bundle.prefix)
        exchange.start()
        try:
            image = job.render(exchange, self._bundle.manifest.importance_order)
            latency_s = job.log.now()
        finally:
            self._prior_bps = session.throughput.estimate_bps(job.log.now())
            exchange.finish()
        return job.end(image, latency_s)

    def _setting(self, store: StateStore) -> Setting:
        assert self._profile is not None
        options, manifest = self.options, self._bundle.manifest
        return Setting(
            head=self._bundle.head,
            model=error_model(manifest, self._profile.step_basis, options.floor_db),
            policy=self._policy,
            levels_BC=store.levels,
            limits=Limits(num_fetches=options.num_fetches, max_total_bytes=options.max_total_bytes),
            prior_bps=self._prior_bps,
            opened_bytes=len(self._bundle.prefix),
            deadline_s=options.deadline_s,
        )

    def _make_workers(self, profile: CodecProfile) -> Workers:
        bundle, manifest = self._bundle, self._bundle.manifest
        tokens = manifest.importance_order
        is_unrotated = manifest.rope is not None and manifest.rope.form == "pre"
        store = StateStore(
            profile,
            len(tokens),
            manifest.num_components,
            lambda keys: self._model.rotate_keys(keys, tokens) if is_unrotated else keys,
        )
        store.skip_empty(manifest.shards)
        make_engine = ProcessEngine if self.options.decoder == "process" else LocalEngine
        decoder = Decoder(make_engine(manifest, profile), store)
        return Workers(Fetcher(bundle.reader, bundle.info.etag), decoder, store)


def pixels_of(picture: Array | Image.Image | str | Path) -> Array:
    """(h, w, 3) uint8 of an array, a Pillow image or a file.

    Raises:
        InputError: it is no such picture.
    """
    if isinstance(picture, str | Path):
        return load_rgb(picture)
    if isinstance(picture, Image.Image):
        return np.array(picture.convert("RGB"))
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise InputError(
            f"the reference is {picture.shape} {picture.dtype}, expected (h, w, 3) uint8"
        )
    return picture
