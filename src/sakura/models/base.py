"""What every model family offers to packager and player: geometry, fingerprint, one edit run block
by block.

A run never waits and never fetches: its owner decides before each block whether cached tokens are
computed or injected. Once a block is given state, the cached tokens are dropped for the rest of
that step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of a model's key/value state. Blocks are counted double first, then single."""

    num_double: int
    num_single: int
    num_heads: int
    head_dim: int

    @property
    def num_blocks(self) -> int:
        return self.num_double + self.num_single

    def state_bytes(self, num_tokens: int, num_steps: int) -> int:
        """Bytes of the uncompressed state in bf16: K and V of every block and step."""
        return num_tokens * num_steps * self.num_blocks * 2 * self.num_heads * self.head_dim * 2


@dataclass(frozen=True, slots=True)
class Schedule:
    """Noise levels of an edit: `sigmas` has one entry more than there are steps and ends with 0."""

    name: str
    sigmas: tuple[float, ...]

    @property
    def num_steps(self) -> int:
        return len(self.sigmas) - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Which model this is: a hard key that must match and a canary that is compared by distance."""

    family: str
    class_name: str
    config_digest: str
    weights_digest: str
    canary: np.ndarray  # float16 sample of K/V on a fixed pseudo-input
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """The public part of an edit.

    Args:
        image: (H, W, 3) uint8 of the model's canvas size.
        mask: tokens that an edit may change.
        task: name of the editing task.
        conditioning: model-specific public settings, JSON values only.
        noise_seed: seed of the cached tokens' noise.
    """

    image: np.ndarray
    mask: TokenMask
    task: str
    conditioning: dict[str, Any] = field(default_factory=dict)
    noise_seed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """The private part of an edit; it never leaves the device.

    Args:
        reference: (h, w, 3) uint8 picture of the user, any size.
        prompt: text, or None for the task's own.
        seed: seed of the active tokens' noise.
        mask: the tokens the user wants changed, at least the template's; None for the template's.
    """

    reference: np.ndarray
    prompt: str | None = None
    seed: int = 0
    mask: TokenMask | None = None

    def active_mask(self, template: TemplateLike) -> TokenMask:
        """The tokens to compute.

        Raises:
            InputError: the user's mask leaves out a token of the template's mask.
        """
        if self.mask is None:
            return template.mask
        if not self.mask.contains(template.mask):
            raise InputError(
                "the user mask does not cover the template's mask",
                hint="paint at least the region that the template offers for editing",
            )
        return self.mask


def canary_distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square difference of two canaries, relative to the expected one's; infinite
    where they cannot be compared."""
    if found.shape != expected.shape or not (np.isfinite(found).all() and expected.any()):
        return float("inf")
    difference = found.astype(np.float64) - expected.astype(np.float64)
    scale = np.square(expected.astype(np.float64)).mean()
    return float(np.sqrt(np.square(difference).mean() / scale))


class TemplateLike(Protocol):
    """Anything with a token mask."""

    @property
    def mask(self) -> TokenMask: ...


@dataclass(frozen=True, slots=True)
class BlockState:
    """K and V of cached tokens for one block and step, each (N, H, Dh) float32.

    Keys are from before RoPE unless `rotated`. RoPE is linear, so components of a state can be
    rotated once instead of the keys of every step.
    """

    keys: np.ndarray
    values: np.ndarray
    rotated: bool = False


class Recorder(Protocol):
    """Collects state while a run computes all tokens."""

    def states(self) -> np.ndarray:
        """(blocks, 2, steps, tokens of the canvas, heads, head_dim) float32; axis 1 is K, V."""
        ...

    def attention_mass(self) -> np.ndarray:
        """(blocks, tokens) mean squared attention weight that active queries give each token."""
        ...


class Run(Protocol):
    """One edit, executed block by block: begin_step, run_block for every block, end_step."""

    def begin_step(self, step: int, *, active_only: bool) -> None:
        """Embed the tokens of a step; `active_only` leaves cached tokens out from the start."""
        ...

    def slot(self, block: int) -> BlockState:
        """Arrays of the run's own that may be filled with a block's state and given to
        `run_block`; a state that lies elsewhere is copied. Their content ends with the step."""
        ...

    def run_block(self, block: int, state: BlockState | None) -> None:
        """Compute all tokens (None), or the active ones with injected state of the cached ones."""
        ...

    def end_step(self) -> None:
        """Predict and move the active tokens to the next noise level."""
        ...

    def rotate_keys(self, keys: np.ndarray) -> np.ndarray:
        """Apply RoPE to keys (N, H, Dh) of the cached tokens that `prepare` was told about."""
        ...

    def image(self) -> np.ndarray:
        """The edited picture so far, (H, W, 3) uint8; outside the mask it is the template."""
        ...


class Adapter(Protocol):
    """A model family behind one interface."""

    @property
    def geometry(self) -> Geometry: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def token_grid(self) -> TokenGrid: ...

    def identity(self) -> Identity: ...

    def rotate_keys(self, keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Apply RoPE to keys (N, H, Dh) of the canvas tokens with indices `tokens` (N,)."""
        ...

    def prepare(
        self, template: Template, request: Request, cached_tokens: np.ndarray | None = None
    ) -> Run:
        """Start an edit.

        Args:
            template: public part.
            request: private part.
            cached_tokens: canvas index of every row that injected states will have; None when
                nothing will be injected.
        """
        ...

    def capture(self, run: Run) -> AbstractContextManager[Recorder]:
        """Record the state of `run` while the context is open; hooks are removed on exit."""
        ...


def full_compute(run: Run, schedule: Schedule, geometry: Geometry) -> Iterator[int]:
    """Execute a run on the device alone, all tokens in every block; yields after each step."""
    for step in range(schedule.num_steps):
        run.begin_step(step, active_only=False)
        for block in range(geometry.num_blocks):
            run.run_block(block, None)
        run.end_step()
        yield step
