"""Edits: one template, one model, any number of requests.

A player owns a fetch thread, a decode thread and, with a flash cache, one that adds to it, between
`with` and its end. What it has decoded stays, so a further edit with the same template fetches only
what raises quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

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
from sakura.play.opened import Opened
from sakura.play.options import OptionNames, PlayerOptions
from sakura.play.plan import error_model
from sakura.play.policy import create_policy
from sakura.play.ranges import Place
from sakura.play.session import Session, Setting
from sakura.play.shelf import Shelf, shelf_for
from sakura.play.state import StateStore

Array = NDArray[Any]

__all__ = ["EditResult", "Player", "PlayerOptions", "edit_on_device"]


@dataclass(frozen=True, slots=True)
class Workers:
    """The threads and the store that edits share; `shelf` where there is a flash cache."""

    fetcher: Fetcher
    decoder: Decoder
    store: StateStore
    shelf: Shelf | None = None


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
        self._leftover: dict[Place, bytes] = {}
        if self._policy.is_streaming:
            self._profile = find_profile(model, manifest, self.options.profile)
            create_codec(manifest.codec.id, self._profile)  # complains now, not in the child

    def __enter__(self) -> Self:
        if self._profile is not None and self._workers is None:
            self._workers = self._make_workers(self._profile)
            if self._workers.shelf is not None:
                self._workers.shelf.start()
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
            with ExitStack() as ends:
                ends.callback(workers.decoder.close)
                ends.callback(workers.fetcher.close)
                if workers.shelf is not None:
                    ends.callback(workers.shelf.close)

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
        (result,) = self.edit_many(reference, prompt, (seed,), mask)
        return result

    def edit_many(
        self,
        reference: Array | Image.Image | str | Path,
        prompt: str | None = None,
        seeds: Sequence[int] = (0,),
        mask: TokenMask | None = None,
    ) -> list[EditResult]:
        """Edit the template once per seed, one after the other: what is fetched or decoded for one
        picture serves all later ones.

        Args:
            reference: see `edit`, as all others.
            prompt: text.
            seeds: one per picture.
            mask: tokens to change.

        Raises:
            InputError: see `edit`; or no seed.
            PlayError: see `edit`.
        """
        if not seeds:
            raise InputError("no seed", hint="give one seed per picture")
        pixels = pixels_of(reference)
        return [self._edit(Request(pixels, prompt, seed, mask)) for seed in seeds]

    def _edit(self, request: Request) -> EditResult:
        if self._policy.is_streaming and self._workers is None:
            raise PlayError("the player is closed", hint="use it in a `with` block")
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
        opened = self._opened(workers)
        session = Session(self._setting(workers.store, opened), self._times)
        exchange = Exchange(session, workers, job.log, opened)
        exchange.start()
        try:
            image = job.render(exchange, self._bundle.manifest.importance_order)
            latency_s = job.log.now()
        finally:
            self._prior_bps = session.throughput.estimate_bps(job.log.now())
            exchange.finish()
            self._leftover = exchange.leftover
        return job.end(image, latency_s)

    def _opened(self, workers: Workers) -> Opened:
        """What is here already; of leftovers, those that are not decoded by now."""
        levels = workers.store.levels
        leftover = {p: data for p, data in self._leftover.items() if p[2] > levels[p[:2]]}
        if workers.shelf is None:
            return Opened(self._bundle.prefix, leftover)
        workers.shelf.used()
        return Opened(self._bundle.prefix, leftover, workers.shelf.snapshot)

    def _setting(self, store: StateStore, opened: Opened) -> Setting:
        assert self._profile is not None
        options, manifest = self.options, self._bundle.manifest
        return Setting(
            head=self._bundle.head,
            model=error_model(manifest, self._profile.step_basis, options.floor_db),
            policy=self._policy,
            levels_BC=store.levels,
            limits=Limits(num_fetches=options.num_fetches, max_total_bytes=options.max_total_bytes),
            prior_bps=self._prior_bps,
            opened_bytes=len(opened.prefix),
            held=opened.places,
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
        shelf = shelf_for(bundle, self.options.cache or bundle.cache)
        return Workers(Fetcher(bundle.reader, bundle.info.etag), decoder, store, shelf)


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
