"""Attention of the mini editor: tokens of a pass attend to keys and values that lie in one buffer.

A block's buffer holds K and V of [reference | cached | own] tokens as rows. Reference rows are
written once an edit, cached rows by whoever decodes a template's state, own rows here: attention
reads them where they lie and nothing is concatenated.

Shape legend: B batch (1), T tokens of a pass, L its text tokens, N rows of a buffer, H heads, D
head_dim, C channels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import Flux2Transformer2DModel
from torch.nn.functional import scaled_dot_product_attention, silu

Observer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Told Q, K (behind their norms, before RoPE) and V of the tokens of a pass, each (T, H, D)."""


@dataclass(frozen=True, slots=True, eq=False)
class KVPlace:
    """Rows of a block's buffer. Blocks hand it to their processor in the place of the RoPE.

    Args:
        rope: of the tokens of this pass, see `complex_rope`.
        own_keys, own_values: (T, H, D) of the tokens of this pass, to be written.
        keys, values: (N, H, D) all that they attend to, their own included.
    """

    rope: torch.Tensor
    own_keys: torch.Tensor
    own_values: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


class KVBuffer:
    """K and V that attention in one block sees, (num_rows, H, D) each; keys are after RoPE."""

    def __init__(self, num_rows: int, num_heads: int, head_dim: int) -> None:
        self.keys = torch.empty(num_rows, num_heads, head_dim)
        self.values = torch.empty(num_rows, num_heads, head_dim)

    def place(self, start: int, rope: torch.Tensor) -> KVPlace:
        """For the tokens of a RoPE, from row `start` on; they attend to all rows up to theirs."""
        own, seen = slice(start, start + len(rope)), slice(0, start + len(rope))
        return KVPlace(rope, self.keys[own], self.values[own], self.keys[seen], self.values[seen])


def complex_rope(cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    """RoPE with pairs of equal columns as complex factors, (T, 1, D/2)."""
    return torch.complex(cos_TD[:, None, 0::2].contiguous(), sin_TD[:, None, 0::2].contiguous())


def rotate(x_THD: torch.Tensor, rope: torch.Tensor, out: torch.Tensor) -> None:
    """Write RoPE of neighbouring channels, as FLUX has it, to `out`; it may be `x_THD` itself."""
    torch.mul(as_complex(x_THD), rope, out=as_complex(out))


def as_complex(x_THD: torch.Tensor) -> torch.Tensor:
    """Neighbouring channels as one number: a view (T, H, D/2)."""
    return torch.view_as_complex(x_THD.unflatten(-1, (-1, 2)))


def attend(query_THD: torch.Tensor, place: KVPlace) -> torch.Tensor:
    """Attention of rotated queries, (T, H*D)."""
    q, k, v = (x[None].transpose(1, 2) for x in (query_THD, place.keys, place.values))
    return scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)[0]


class HeadNorm:
    """RMS norm of queries and keys (Zhang and Sennrich, 2019) in one pass over both.

    Args:
        query, key: the block's own norms.
        num_heads: H.
    """

    def __init__(self, query: torch.nn.RMSNorm, key: torch.nn.RMSNorm, num_heads: int) -> None:
        weights = (query.weight.expand(num_heads, -1), key.weight.expand(num_heads, -1))
        self._weight = torch.cat(weights).detach()  # (2H, D)
        self._eps = query.eps
        self._num_heads = num_heads

    def __call__(self, qk_TC: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Q and K, (T, H, D) each, of their projections side by side, (T, 2*H*D)."""
        x = qk_TC.unflatten(-1, self._weight.shape)
        scale = x.square().mean(-1, keepdim=True).add_(self._eps).rsqrt_()
        x = (x * scale).mul_(self._weight)
        return x[:, : self._num_heads], x[:, self._num_heads :]


class SingleProcessor:
    """Attention processor of a single block."""

    def __init__(self, attn: Any) -> None:
        self.observer: Observer | None = None
        self._norm = HeadNorm(attn.norm_q, attn.norm_k, attn.heads)

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        attention_mask: None,
        place: KVPlace,
    ) -> torch.Tensor:
        """Attention and MLP of tokens (1, T, C), text first."""
        joint_TC, width = attn.to_qkv_mlp_proj(hidden_states)[0], attn.inner_dim
        query, key = self._norm(joint_TC[:, : 2 * width])
        value = joint_TC[:, 2 * width : 3 * width].unflatten(-1, key.shape[1:])
        if self.observer is not None:
            self.observer(query, key, value)
        rotate(key, place.rope, place.own_keys)
        place.own_values.copy_(value)
        rotate(query, place.rope, query)
        gate, linear = joint_TC[:, 3 * width :].chunk(2, -1)
        out_TC = joint_TC.new_empty(len(joint_TC), width + gate.shape[-1])
        out_TC[:, :width] = attend(query, place)
        torch.mul(silu(gate), linear, out=out_TC[:, width:])
        return attn.to_out(out_TC[None])


class DoubleProcessor:
    """Attention processor of a double block with fused projections; text and canvas have their
    own."""

    def __init__(self, attn: Any) -> None:
        self.observer: Observer | None = None
        self._canvas_norm = HeadNorm(attn.norm_q, attn.norm_k, attn.heads)
        self._text_norm = HeadNorm(attn.norm_added_q, attn.norm_added_k, attn.heads)

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: None,
        place: KVPlace,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention of canvas tokens (1, T - L, C) and text tokens (1, L, C); their rows have the
        text first."""
        num_text = encoder_hidden_states.shape[1]
        text_TC = attn.to_added_qkv(encoder_hidden_states)[0]
        canvas_TC = attn.to_qkv(hidden_states)[0]
        width = attn.inner_dim
        text_q, text_k = self._text_norm(text_TC[:, : 2 * width])
        canvas_q, canvas_k = self._canvas_norm(canvas_TC[:, : 2 * width])
        query, key = torch.cat([text_q, canvas_q]), torch.cat([text_k, canvas_k])
        place.own_values.view(-1, width)[:num_text] = text_TC[:, 2 * width :]
        place.own_values.view(-1, width)[num_text:] = canvas_TC[:, 2 * width :]
        if self.observer is not None:
            self.observer(query, key, place.own_values)
        rotate(key, place.rope, place.own_keys)
        rotate(query, place.rope, query)
        out_TC = attend(query, place)
        return attn.to_out[0](out_TC[None, num_text:]), attn.to_add_out(out_TC[None, :num_text])


def set_processors(transformer: Flux2Transformer2DModel) -> list[SingleProcessor | DoubleProcessor]:
    """Fuse the projections of double blocks and give every block its processor, in block order.

    The norms' weights are read here: load weights before.
    """
    processors: list[SingleProcessor | DoubleProcessor] = []
    for double in transformer.transformer_blocks:
        double.attn.fuse_projections()
        processors.append(DoubleProcessor(double.attn))
        double.attn.set_processor(processors[-1])
    for single in transformer.single_transformer_blocks:
        processors.append(SingleProcessor(single.attn))
        single.attn.set_processor(processors[-1])
    return processors


for _type in (SingleProcessor, DoubleProcessor):
    # diffusers asks for the signature in every call; at hand it costs a quarter.
    setattr(_type.__call__, "__signature__", inspect.signature(_type.__call__))  # noqa: B010
