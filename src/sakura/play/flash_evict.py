"""What leaves the flash cache first. Pure.

Upper levels go before lower ones, base layers last, whatever their age: each refinement by three
removes a ninth of the error that the one below did, and takes more bytes for it; lower levels start
an edit at once and make it possible offline, while upper ones can still arrive during the steps.
Within a level, what was used longest ago goes first. A base takes the bundle's head and picture
along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BASE = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One level of a bundle in the cache; the base's includes head and picture.

    Args:
        entry: name of the bundle's folder.
        level: the level.
        stamp: number of the bundle's last use; larger is later.
        num_bytes: on disk.
    """

    entry: str
    level: int
    stamp: int
    num_bytes: int = 0

    @property
    def worth(self) -> tuple[int, int]:
        """Orders parts by what they are worth keeping."""
        return -self.level, self.stamp


def victims(parts: Iterable[Part], num_bytes: int, below: Part | None = None) -> list[Part] | None:
    """The parts that must go to free `num_bytes`, cheapest first.

    Args:
        parts: all there are.
        num_bytes: to free; nothing where it is not above zero.
        below: only parts that are worth less than this one may go.

    Returns:
        None where that does not free enough.
    """
    chosen: list[Part] = []
    for part in sorted(parts, key=lambda part: part.worth):
        if num_bytes <= 0 or (below is not None and part.worth >= below.worth):
            break
        chosen.append(part)
        num_bytes -= part.num_bytes
    return chosen if num_bytes <= 0 else None
