"""How a player plays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from sakura.codec import CodecProfile
from sakura.errors import InputError
from sakura.play.flash import FlashCache


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
        cache: flash cache, or its folder, to keep chunks in; by default the one that the bundle
            was opened with, if any.
        clock: monotonic seconds.
    """

    policy: str = "sakura"
    floor_db: float = 40.0
    num_fetches: int = 3
    max_total_bytes: int | None = None
    deadline_s: float | None = None
    decoder: Literal["process", "thread"] = "thread"
    profile: CodecProfile | None = None
    cache: FlashCache | str | Path | None = None
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


class OptionNames(TypedDict, total=False):
    """The fields of PlayerOptions, as keywords."""

    policy: str
    floor_db: float
    num_fetches: int
    max_total_bytes: int | None
    deadline_s: float | None
    decoder: Literal["process", "thread"]
    profile: CodecProfile | None
    cache: FlashCache | str | Path | None
    clock: Callable[[], float]
