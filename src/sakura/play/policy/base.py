"""What a policy sees before a block and before a shard, and what it answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sakura.play.plan import Decision, Haste, Wait


@dataclass(frozen=True, slots=True)
class View:
    """The state of a run before one block.

    Args:
        step: the step under way.
        block: the block to execute next.
        num_blocks: blocks of a step.
        is_dropped: an earlier block of this step was injected, so cached tokens are gone.
        has_state: the main component of this block and of each later one of the step is decoded.
        is_complete: all that this block needs is decoded at least at its base layer.
        can_arrive: bytes are still on their way.
        cost: predicted error of injecting this step from this block on; infinite without state.
        later_costs: the same for each later step, with what will have arrived by then.
        budget: predicted error that is left to spend.
        wait: what waiting would take; None where it cannot be told.
        wait_left_s: seconds until a wait that has begun must end; None where none has.
        is_ready: all that this block needs is decoded at the level that was chosen for it.
        now_s: seconds since the edit began.
        haste: what a deadline asks for; None where there is none.
    """

    step: int
    block: int
    num_blocks: int
    is_dropped: bool
    has_state: bool
    is_complete: bool
    can_arrive: bool
    cost: float
    later_costs: tuple[float, ...]
    budget: float
    wait: Wait | None = None
    wait_left_s: float | None = None
    is_ready: bool = True
    now_s: float = 0.0
    haste: Haste | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A shard of which no byte was asked for yet, to a policy that chooses levels.

    Args:
        level_bytes: bytes of this shard up to each level.
        rest_bytes: the same of this shard and all after it together.
        floor_level: lowest level that keeps the floor where it is injected everywhere; the highest
            if none does.
        rate_bps: measured throughput; None where nothing is known.
        buffer_s: execution ahead of the play head whose state is decoded.
        play_s: execution that is left if all is computed; None where nothing is known.
    """

    level_bytes: tuple[int, ...]
    rest_bytes: tuple[int, ...]
    floor_level: int
    rate_bps: float | None
    buffer_s: float
    play_s: float | None

    @property
    def top_level(self) -> int:
        return len(self.level_bytes) - 1


class Policy(Protocol):
    """Decides before every block; knows no clock, no bytes and no model."""

    name: str
    is_streaming: bool
    """Whether anything is fetched at all."""
    is_patient: bool
    """Whether it may wait for bytes however long they take: then none is too late to ask for."""
    chooses_levels: bool
    """False: all base layers are fetched, then all refinements, until the edit ends. True: shard
    after shard, each up to the level that `choose_level` picks."""

    def decide(self, view: View) -> Decision:
        """Inject this block, compute it with all tokens, or wait.

        Where `view.is_dropped`, compute means: do the whole step again on the device.
        """
        ...

    def choose_level(self, offer: Offer) -> int:
        """Up to which level to fetch a shard; asked once a shard, if `chooses_levels`."""
        ...
