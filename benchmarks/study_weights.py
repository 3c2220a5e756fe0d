"""What attention does with errors of the state: per channel, and per token under several rules.

To first order an error e of value n moves an output by a[q, n] e, and one of key n by
a[q, n] (v[n] - o[q]) (q . e) / sqrt(D). Both then pass the output projection. Squares, summed over
the active queries and heads, give what an error costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from study_material import Material, projection, weights_of

Array = NDArray[Any]


def token_costs(one: Material, step_share: Array) -> Array:
    """(B, 2, N) cost of a unit error in a token's keys or values, mean over steps by share."""
    return _costs(one, step_share)[0]


def channel_costs(materials: Sequence[Material], step_share: Array, rope: str) -> Array:
    """(B, 2, H, D, D) cost of channel errors, with a ridge of 1 % of the (block, part)'s mean."""
    total = sum(_costs(one, step_share, rope)[1] for one in materials)
    ridge = 0.01 * _mean_eigenvalue(total) * np.eye(total.shape[-1])
    return np.asarray(total + ridge)


def channel_metric(materials: Sequence[Material], step_share: Array, rope: str) -> Array:
    """The same with a mean eigenvalue of 1 for each (block, part)."""
    costs = channel_costs(materials, step_share, rope)
    return costs / _mean_eigenvalue(costs)


def _mean_eigenvalue(costs: Array) -> Array:
    mean = np.trace(costs, axis1=-2, axis2=-1).mean(-1) / costs.shape[-1]
    return np.asarray(mean[:, :, None, None, None])


def _costs(one: Material, step_share: Array, rope: str = "") -> tuple[Array, Array]:
    num_blocks, _, _, num_tokens, num_heads, dim = one.state.shape
    tokens = np.zeros((num_blocks, 2, num_tokens))
    metric = np.zeros((num_blocks, 2, num_heads, dim, dim))
    turned = _rotations(one) if rope == "pre" else None
    for (step, block), call in one.calls.items():
        out = projection(one.adapter, block)
        gram = np.einsum("hdo,heo->hde", out, out)
        keys, values = one.rotated(one.state[block, 0, step]), one.state[block, 1, step]
        weights = weights_of(call, keys)
        every = np.concatenate([values, call.values])
        square = np.square(weights[..., :num_tokens])  # (H, A, N)
        moved = values[None] - np.einsum("hqk,khd->qhd", weights, every, optimize=True)[:, None]
        lever = np.einsum("qnhd,hde,qnhe->hqn", moved, gram, moved, optimize=True)
        lever = lever * square / dim
        share = step_share[step]
        size = np.square(call.query).sum(-1)  # (A, H)
        tokens[block, 0] += share * np.einsum("hqn,qh->n", lever, size)
        tokens[block, 1] += share * np.einsum("hqn,hdd->n", square, gram)
        metric[block, 1] += share * square.sum((1, 2))[:, None, None] * gram
        if turned is None:
            metric[block, 0] += share * np.einsum(
                "qhd,hq,qhe->hde", call.query, lever.sum(2), call.query, optimize=True
            )
        else:
            outer = np.einsum("hqn,qhd,qhe->nhde", lever, call.query, call.query, optimize=True)
            metric[block, 0] += share * np.einsum(
                "nfd,nhde,nge->hfg", turned, outer, turned, optimize=True
            )
    return tokens, metric


def _rotations(one: Material) -> Array:
    """(N, D, D): row f of token n is where RoPE takes channel f."""
    num_tokens, num_heads, dim = one.state.shape[3:]
    rows = []
    for channel in range(dim):
        unit = np.zeros((num_tokens, num_heads, dim), np.float32)
        unit[..., channel] = 1
        rows.append(one.rotated(unit)[:, 0])
    return np.stack(rows, 1)


def gains(name: str, one: Material, costs: Array, tile: int) -> Array:
    """(B, 2, N) precision of each token, quarter octaves, alike within tiles of the order.

    Args:
        name: "none", "mass" (what ships: attention mass, alike for K and V), "cost" (K and V by
            their costs), "both" (their mean), each with "-wide" for bounds of 1/16 .. 16.
        one: the template.
        costs: (B, 2, N) by `token_costs` of calibration edits, for the latter two.
        tile: tokens a tile.
    """
    kind, _, bounds = name.partition("-")
    limit = 16.0 if bounds else 3.0
    if kind == "none":
        return np.ones_like(costs)
    base = {"mass": np.stack([one.mass] * 2, 1), "cost": costs}.get(kind)
    if base is None:
        base = costs / costs.mean(2, keepdims=True)
        base = np.repeat(base.mean(1, keepdims=True), 2, 1)
    weight = np.clip(np.sqrt(base / base.mean(2, keepdims=True)), 1 / limit, limit)
    order = np.argsort(-weight.mean((0, 1)), kind="stable")
    out = np.empty_like(weight)
    for start in range(0, len(order), tile):
        rows = order[start : start + tile]
        mean = np.square(weight[:, :, rows]).mean(2, keepdims=True)
        out[:, :, rows] = 2.0 ** (np.rint(4 * np.log2(mean) / 2) / 4)
    return out
