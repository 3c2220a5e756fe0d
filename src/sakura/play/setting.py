"""What a session starts from."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from sakura.format import Head
from sakura.play.downloads import Limits
from sakura.play.plan import ErrorModel
from sakura.play.policy import Policy
from sakura.play.ranges import Place

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a session starts from.

    Args:
        head: manifest and data start.
        model: what injecting costs.
        policy: who decides.
        levels_BC: level of each shard that is decoded already, -1 for none.
        limits: how much to ask for.
        prior_bps: throughput of an earlier edit.
        opened_bytes: how many first bytes of the object came with its head.
        held: further chunks that are here already, for instance in the flash cache.
        deadline_s: when the edit should be done, in seconds since it began; None for soon.
    """

    head: Head
    model: ErrorModel
    policy: Policy
    levels_BC: Array
    limits: Limits = field(default_factory=Limits)
    prior_bps: float | None = None
    opened_bytes: int = 0
    held: Set[Place] = frozenset()
    deadline_s: float | None = None
