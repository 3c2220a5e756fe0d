"""What a user of the packager chooses, and what it reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sakura.codec import CodecProfile, RawCodec, SakuraCodec
from sakura.codec.base import MAX_LAYERS
from sakura.errors import InputError
from sakura.pack.neutral import KINDS


@dataclass(frozen=True, slots=True, eq=False)
class PackOptions:
    """How to pack.

    Args:
        codec: `sakura-klt-rans/1`, or `raw-bf16/1` for uncompressed state.
        seed: of the active tokens' noise during capture and calibration.
        num_calibration: edits that tune the steps and measure the levels.
        profile: codec profile; None for the one that ships for the model.
        ring: tokens around the mask that are computed as well.
        neutral: which neutral reference to capture with.
        target_db: PSNR that level `target_level` reaches against uncompressed state.
        target_level: see above.
        top_db: PSNR that the last level reaches at least.
        num_levels: layers of a shard.
    """

    codec: str = SakuraCodec.id
    seed: int = 0
    num_calibration: int = 3
    profile: CodecProfile | None = None
    ring: int = 0
    neutral: str = "mean"
    target_db: float = 41.0
    target_level: int = 2
    top_db: float = 50.0
    num_levels: int = MAX_LAYERS

    def __post_init__(self) -> None:
        """Refuse what no packager can do."""
        if self.neutral not in KINDS:
            raise InputError(
                f"unknown neutral reference {self.neutral!r}", hint=f"known: {', '.join(KINDS)}"
            )
        if not 0 <= self.target_level < self.num_levels <= MAX_LAYERS:
            raise InputError(
                f"target level {self.target_level} of {self.num_levels}, "
                f"expected below the number of levels, which is at most {MAX_LAYERS}"
            )
        if not 0 <= self.seed < 1 << 53:
            raise InputError(f"seed {self.seed}, expected 0 to 2^53 - 1")
        if not 10 <= min(self.target_db, self.top_db) <= max(self.target_db, self.top_db) <= 60:
            raise InputError(f"targets of {self.target_db} and {self.top_db} dB, expected 10 to 60")

    @property
    def targets(self) -> dict[int, float]:
        """PSNR in dB that levels must reach, by level."""
        last = self.num_levels - 1
        is_last = self.target_level == last
        return {
            self.target_level: self.target_db,
            last: max(self.top_db, self.target_db) if is_last else self.top_db,
        }

    @property
    def is_raw(self) -> bool:
        """Whether state is stored uncompressed."""
        return self.codec == RawCodec.id


@dataclass(frozen=True, slots=True)
class Missed:
    """A level that stays below its target on the calibration edits, in dB."""

    level: int
    target_db: float
    found_db: float

    def __str__(self) -> str:
        return f"level {self.level} reaches {self.found_db} dB, expected {self.target_db} dB"


def missed_targets(options: PackOptions, levels_db: Sequence[float]) -> tuple[Missed, ...]:
    """The targets that no scale of the steps meets; uncompressed state has none.

    Args:
        options: as packed.
        levels_db: measured PSNR of each level.
    """
    targets = {} if options.is_raw else options.targets
    return tuple(
        Missed(level, target_db, levels_db[level])
        for level, target_db in sorted(targets.items())
        if levels_db[level] < target_db
    )


@dataclass(frozen=True, slots=True)
class PackReport:
    """What was packed.

    Args:
        output: where the bundle is.
        num_bytes: of the bundle.
        raw_state_bytes: of the same state in bf16.
        level_bytes: of all layers of each level.
        predicted_db: PSNR of each level against uncompressed state, on the calibration edits.
        num_cached: tokens whose state is in the bundle.
        num_reused: parts taken from a killed run's work.
        missed: levels that stay below their targets.
    """

    output: str
    num_bytes: int
    raw_state_bytes: int
    level_bytes: tuple[int, ...]
    predicted_db: tuple[float, ...]
    num_cached: int
    num_reused: int
    missed: tuple[Missed, ...] = ()

    @property
    def bits_per_element(self) -> float:
        """Bits of all layers per number of the state."""
        return 16 * sum(self.level_bytes) / self.raw_state_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "bits_per_element": round(self.bits_per_element, 4)}
