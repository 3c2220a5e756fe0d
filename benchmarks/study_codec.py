"""Transform codings to compare: linear transforms, a uniform quantiser, ideal class entropy.

A `Coding` is fitted to training states and rates the state of another template at a scale: bits by
the entropy of the indices given their class, as the codec's classes have it, and the state that is
left. It makes no stream.

Shape legend: B blocks, P parts (K, V, or both as one), S steps, C components, N tokens, G groups of
E channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

THRESHOLD = 0.36
MAX_INDEX = 400
NUM_CLASSES = 40
LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to code.

    Args:
        groups: which channels are transformed together: "head", "heads" (of K, of V), "joint", or
            "input": the block's input, from which the device projects K and V.
        step_basis: "block", "shared" or "none".
        has_channel_basis: whether channels are decorrelated.
        has_metric: whether channels are weighted by what attention does with their errors.
        step_power: steps are weighted by their share to this power before the step KLT.
        rope: keys "pre" or "post" RoPE.
        gains: name of the token weights, see `study_gains`.
        tile: tokens that share a gain.
        dead_zone: how much is taken off |x| / step before rounding, for any non-zero index.
        bands: 0, or number of frequency bands of a graph transform over the token grid.
        is_adaptive: sigmas of each template's own tiles, four bits each.
    """

    groups: str = "head"
    step_basis: str = "block"
    has_channel_basis: bool = True
    has_metric: bool = False
    step_power: float = 0.0
    rope: str = "pre"
    gains: str = "mass"
    tile: int = 64
    dead_zone: float = 0.0
    bands: int = 0
    is_adaptive: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A state to code.

    Args:
        state: (B, 2, S, N, H, D), keys in the form the choice asks for.
        precision: (B, 2, N) of each token.
        bands: (N, N) orthonormal token transform and (N,) band of each row; None without one.
    """

    state: Array
    precision: Array
    bands: tuple[Array, Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What errors cost.

    Args:
        blocks: (B, 2).
        steps: (S,) sum 1.
        metric: (B, 2, H, D, D) of a head's channels, mean eigenvalue of a (block, part) 1.
    """

    blocks: Array
    steps: Array
    metric: Array
    inputs: BlockInput | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BlockInput:
    """How K and V come from the input of a block's attention.

    Args:
        project: (B, 2, W, W); rows of the input times it give K before its norm, and V.
        gain: (B, D) of the key norm.
    """

    project: Array
    gain: Array

    def of(self, state: Array) -> Array:
        """(B, S, N, W) of a state, by its values."""
        values = state[:, 1].reshape(*state.shape[:1], -1, self.project.shape[-1])
        solved = np.linalg.solve(
            np.swapaxes(self.project[:, 1], -1, -2).astype(np.float64), np.swapaxes(values, -1, -2)
        )
        shape = (*state.shape[:1], *state.shape[2:4], -1)
        return np.swapaxes(solved, -1, -2).reshape(shape).astype(np.float32)

    def state(self, rows: Array, shape: tuple[int, ...]) -> Array:
        """The state (B, 2, S, N, H, D) that inputs (B, S, N, W) give."""
        flat = rows.reshape(rows.shape[0], 1, -1, rows.shape[-1]) @ self.project
        out = flat.reshape(shape)
        keys = out[:, 0]
        rms = np.sqrt(np.square(keys).mean(-1, keepdims=True) + 1e-6)
        out[:, 0] = keys / rms * self.gain[:, None, None, None]
        return out

    def root(self, roots: Array, state: Array) -> Array:
        """(B, W, W) root of what an error of the input costs, the norm taken as constant."""
        raw = (
            self.of(state)[:, None].reshape(len(state), -1, self.project.shape[-1])
        ) @ self.project[:, 0]
        heads = raw.reshape(len(state), -1, *state.shape[4:])
        scale = self.gain[:, None] / np.sqrt(np.square(heads).mean((1, 3)))[..., None]  # (B, H, D)
        total: Any = 0.0
        for part in range(2):
            square = roots[:, part] @ np.swapaxes(roots[:, part], -1, -2)  # (B, H, D, D)
            to = self.project[:, part].reshape(*self.project.shape[::2][:1], -1, *state.shape[4:])
            to = to * scale[:, None] if part == 0 else to
            total = total + np.einsum("bwhd,bhde,bvhe->bwv", to, square, to, optimize=True)
        value, vector = np.linalg.eigh(
            total
            + 1e-3
            * np.trace(total, axis1=1, axis2=2)[:, None, None]
            / total.shape[-1]
            * np.eye(total.shape[-1])
        )
        return (vector * np.sqrt(value)[:, None]) @ np.swapaxes(vector, -1, -2)


@dataclass(slots=True)
class Tally:
    """Indices by class; bits are their entropy."""

    counts: Array = field(default_factory=lambda: np.zeros(NUM_CLASSES * (2 * MAX_INDEX + 1)))
    num_values: int = 0
    side_bits: float = 0.0

    def add(self, class_: Array, index: Array) -> None:
        live = class_ >= 0
        cell = np.clip(index[live], -MAX_INDEX, MAX_INDEX) + MAX_INDEX
        cell += class_[live] * (2 * MAX_INDEX + 1)
        self.counts += np.bincount(cell, minlength=self.counts.size)

    @property
    def bits(self) -> float:
        """Bits per number of the state."""
        counts = self.counts.reshape(NUM_CLASSES, -1)
        total = counts.sum(1, keepdims=True)
        share = np.divide(counts, total, out=np.ones_like(counts), where=counts > 0)
        return float((-(counts * np.log2(share)).sum() + self.side_bits) / max(self.num_values, 1))


class Coding:
    """A choice, fitted."""

    def __init__(self, choice: Choice, weights: Weights, items: Sequence[Item]) -> None:
        self.choice, self._weights = choice, weights
        self._root, self._unroot = self._metric_roots()
        self._fit(items)

    def _metric_roots(self) -> tuple[Array, Array]:
        """(B, 2, H, D, D) symmetric root of what a channel error costs, and its inverse."""
        metric = self._weights.metric
        if not self.choice.has_metric:
            metric = np.broadcast_to(np.eye(metric.shape[-1]), metric.shape)
        metric = metric * self._weights.blocks[:, :, None, None, None]
        value, vector = np.linalg.eigh(metric)
        root = np.sqrt(value)[..., None, :]
        back = np.swapaxes(vector, -1, -2)
        return (vector * root @ back).astype(np.float32), (vector / root @ back).astype(np.float32)

    def _fit(self, items: Sequence[Item]) -> None:
        choice, steps = self.choice, self._weights.steps
        if choice.groups == "input":
            assert self._weights.inputs is not None
            root = self._weights.inputs.root(self._root, items[0].state)
            self._input_root = root.astype(np.float32)
            self._input_unroot = np.linalg.inv(root).astype(np.float32)
        count = sum(item.state.shape[3] for item in items)
        self._mean = sum(item.state.sum(3, dtype=np.float64) for item in items) / count
        self._mean = self._mean.astype(np.float32)
        self._step_weight = np.power(steps, choice.step_power / 2).astype(np.float32)
        step_cov: Any = 0.0
        channel_cov: Any = 0.0
        for item in items:
            grouped = self._grouped(item)
            flat = grouped.reshape(*grouped.shape[:3], -1)
            step_cov = step_cov + flat @ np.swapaxes(flat, -1, -2)
            parts = grouped.transpose(0, 1, 4, 5, 2, 3).reshape(
                *grouped.shape[:2], *grouped.shape[4:], -1
            )
            channel_cov = channel_cov + parts @ np.swapaxes(parts, -1, -2)
        if choice.step_basis == "shared":
            norm = np.trace(step_cov, axis1=-2, axis2=-1)[..., None, None]
            step_cov = np.broadcast_to((step_cov / norm).mean((0, 1)), step_cov.shape)
        self._step = _axes(step_cov, choice.step_basis != "none")
        self._channel = _axes(channel_cov, choice.has_channel_basis)
        left = steps / np.square(self._step_weight, dtype=np.float64)
        worth = np.einsum("s,bpsc->bpc", left, np.square(self._step, dtype=np.float64))
        self._worth = np.maximum(worth, worth.max() / 1e5)
        self._fit_sigma(items)

    def _fit_sigma(self, items: Sequence[Item]) -> None:
        """(bands, B, P, C, G, E); bands is 1 without a token transform."""
        num_bands = max(self.choice.bands, 1)
        total: list[Any] = [0.0] * num_bands
        count = np.zeros(num_bands)
        for item in items:
            coef, band = self._coefficients(item), self._bands(item)
            if item.bands is None:
                coef = coef / self._precision(item)
            for b in range(num_bands):
                rows = coef[:, :, :, band == b]
                total[b] = total[b] + np.square(rows, dtype=np.float64).sum(3)
                count[b] += rows.shape[3]
        self._sigma = np.sqrt(np.stack([t / c for t, c in zip(total, count, strict=True)]))

    def _bands(self, item: Item) -> Array:
        return item.bands[1] if item.bands is not None else np.zeros(item.state.shape[3], int)

    def _grouped(self, item: Item) -> Array:
        """(B, P, S, N, G, E) centred and weighted."""
        if self.choice.groups == "input":
            assert self._weights.inputs is not None
            rows = self._weights.inputs.of(item.state) - self._weights.inputs.of(
                self._mean[:, :, :, None]
            )
            x = rows.reshape(len(rows), -1, rows.shape[-1]) @ self._input_root
            x = x.reshape(rows.shape)[:, None, :, :, None]
            return x * self._step_weight[:, None, None, None]
        x = (item.state - self._mean[:, :, :, None]).transpose(0, 1, 4, 2, 3, 5)
        num_blocks, _, num_heads, num_steps, num_tokens, dim = x.shape
        x = x.reshape(num_blocks, 2, num_heads, -1, dim) @ self._root
        x = x.reshape(num_blocks, 2, num_heads, num_steps, num_tokens, dim)
        x = x.transpose(0, 1, 3, 4, 2, 5) * self._step_weight[:, None, None, None]
        if self.choice.groups == "head":
            return x
        x = x.reshape(num_blocks, 2, num_steps, num_tokens, 1, -1)
        return np.concatenate([x[:, :1], x[:, 1:]], -1) if self.choice.groups == "joint" else x

    def _ungrouped(self, y: Array, item: Item) -> Array:
        num_blocks, _, num_steps, num_tokens, num_heads, dim = item.state.shape
        if self.choice.groups == "input":
            assert self._weights.inputs is not None
            y = (y / self._step_weight[:, None, None, None])[:, 0, :, :, 0]
            rows = (y.reshape(num_blocks, -1, y.shape[-1]) @ self._input_unroot).reshape(y.shape)
            rows = rows + self._weights.inputs.of(self._mean[:, :, :, None])
            return self._weights.inputs.state(rows, item.state.shape)
        if self.choice.groups == "joint":
            y = np.concatenate(np.split(y, 2, -1), 1)
        x = y.reshape(item.state.shape) / self._step_weight[:, None, None, None]
        x = x.transpose(0, 1, 4, 2, 3, 5).reshape(num_blocks, 2, num_heads, -1, dim) @ self._unroot
        x = x.reshape(num_blocks, 2, num_heads, num_steps, num_tokens, dim)
        return x.transpose(0, 1, 3, 4, 2, 5) + self._mean[:, :, :, None]

    def _coefficients(self, item: Item) -> Array:
        """(B, P, C, N, G, E), tokens weighted by their precision."""
        x = self._grouped(item)
        shape = x.shape
        y = np.swapaxes(self._step, -1, -2) @ x.reshape(*shape[:3], -1)
        y = y.reshape(shape).transpose(0, 1, 4, 2, 3, 5).reshape(*shape[:2], shape[4], -1, shape[5])
        z = (y @ self._channel).reshape(*shape[:2], shape[4], *shape[2:4], shape[5])
        z = z.transpose(0, 1, 3, 4, 2, 5) * self._precision(item)
        if item.bands is not None:
            z = np.einsum("mn,bpcnge->bpcmge", item.bands[0], z, optimize=True)
        return z

    def _state(self, z: Array, item: Item) -> Array:
        if item.bands is not None:
            z = np.einsum("mn,bpcmge->bpcnge", item.bands[0], z, optimize=True)
        z = z / self._precision(item)
        shape = z.shape
        y = z.transpose(0, 1, 4, 2, 3, 5).reshape(*shape[:2], shape[4], -1, shape[5])
        y = y @ np.swapaxes(self._channel, -1, -2)
        y = y.reshape(*shape[:2], shape[4], *shape[2:4], shape[5]).transpose(0, 1, 3, 4, 2, 5)
        x = (self._step @ y.reshape(*shape[:3], -1)).reshape(shape)
        return self._ungrouped(x, item).astype(np.float32)

    def _precision(self, item: Item) -> Array:
        precision = item.precision
        if self.choice.groups in ("joint", "input"):
            precision = precision.mean(1, keepdims=True)
        return precision[:, :, None, :, None, None].astype(np.float32)

    def rate(self, item: Item, scale: float, tally: Tally) -> Array:
        """Add a template's indices at a scale to the tally; the state that is left."""
        coef = self._coefficients(item)
        step = (scale / np.sqrt(self._worth)).astype(np.float32)[:, :, :, None, None, None]
        ratio = self._ratios(item, coef, tally) / step
        class_ = np.floor(3 * np.log(np.maximum(ratio, LEAST) / THRESHOLD) / np.log(3))
        class_ = np.minimum(class_, NUM_CLASSES - 1).astype(np.int16)
        class_ = np.broadcast_to(class_, coef.shape)
        size = np.abs(coef) / step
        size = np.floor(size + 0.5 - self.choice.dead_zone * (size >= 0.5)).clip(0)
        index = np.where(class_ >= 0, np.sign(coef) * size, 0).astype(np.int16)
        tally.add(class_, index)
        tally.num_values += item.state.size
        return self._state(_centroids(coef / step, index, class_) * step, item)

    def _ratios(self, item: Item, coef: Array, tally: Tally) -> Array:
        """Sigma of every value, broadcastable to the coefficients."""
        if self.choice.is_adaptive:
            rows = []
            for start in range(0, coef.shape[3], self.choice.tile):
                part = coef[:, :, :, start : start + self.choice.tile]
                own = np.sqrt(np.square(part, dtype=np.float64).mean(3, keepdims=True))
                rows.append(np.repeat(own, part.shape[3], axis=3))
                tally.side_bits += 2.0 * own.size
            return np.concatenate(rows, 3)
        if item.bands is not None:
            return np.moveaxis(self._sigma[self._bands(item)], 0, 3)
        return self._sigma[0][:, :, :, None] * self._precision(item)


def _centroids(exact: Array, index: Array, class_: Array) -> Array:
    """Indices pulled to the centroid of their bin, by class, for |q| = 1 and |q| >= 2."""
    size = np.abs(index)
    cell = np.clip(class_, 0, NUM_CLASSES - 1) * 2 + (size >= 2)
    live = size > 0
    pull = size[live] - np.abs(exact[live])
    count = np.bincount(cell[live], minlength=2 * NUM_CLASSES)
    mean = np.bincount(cell[live], pull, 2 * NUM_CLASSES) / np.maximum(count, 1)
    return np.where(live, np.sign(index) * (size - mean[cell]), 0).astype(np.float32)


def _axes(covariance: Array, is_on: bool) -> Array:
    if not is_on:
        return np.broadcast_to(np.eye(covariance.shape[-1], dtype=np.float32), covariance.shape)
    return np.linalg.eigh(covariance)[1][..., ::-1].astype(np.float32)
