"""The mini editor's network: diffusers' Flux2Transformer2DModel, small, in pixel space.

It knows patches, token ids and the input layout of one forward pass. It does not know steps, masks
of templates or key/value state; `mini.py` does.

Shape legend: B batch, N canvas tokens, R reference tokens, T text tokens, P values of a patch
(3*8*8).
"""

from __future__ import annotations

import torch
from diffusers import Flux2Transformer2DModel
from diffusers.models.transformers.transformer_flux2 import (
    Flux2KVAttnProcessor,
    Flux2KVParallelSelfAttnProcessor,
)
from torch import nn

PATCH_PX = 8
GRID = 16
REFERENCE_GRID = 8
PATCH_DIM = 3 * PATCH_PX * PATCH_PX
NUM_TEXT = 4
TEXT_DIM = 64
PROMPTS = ("face-swap", "try-on", "into-scene")
REFERENCE_SLOT = 10.0  # time coordinate of reference tokens, as in FLUX.2
POSITION_SCALE = 2.0  # sharper RoPE: neighbouring tokens are 2 rad apart at the top frequency
CONFIG = {
    "patch_size": 1,
    "in_channels": 2 * PATCH_DIM + 1,
    "out_channels": PATCH_DIM,
    "num_layers": 2,
    "num_single_layers": 4,
    "attention_head_dim": 48,
    "num_attention_heads": 4,
    "joint_attention_dim": TEXT_DIM,
    "timestep_guidance_channels": 128,
    "mlp_ratio": 3.0,
    "axes_dims_rope": (8, 16, 16, 8),
    "rope_theta": 200,
    "guidance_embeds": False,
}


def patchify(image_BCHW: torch.Tensor) -> torch.Tensor:
    """Cut an image into tokens.

    Args:
        image_BCHW: (B, 3, 8h, 8w) in [-1, 1].

    Returns:
        (B, h*w, 192), row-major tokens.
    """
    B, C, H, W = image_BCHW.shape
    h, w = H // PATCH_PX, W // PATCH_PX
    tokens = image_BCHW.reshape(B, C, h, PATCH_PX, w, PATCH_PX).permute(0, 2, 4, 1, 3, 5)
    return tokens.reshape(B, h * w, C * PATCH_PX * PATCH_PX)


def unpatchify(tokens_BNP: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Inverse of `patchify`; height and width count tokens."""
    B = tokens_BNP.shape[0]
    x = tokens_BNP.reshape(B, height, width, 3, PATCH_PX, PATCH_PX).permute(0, 3, 1, 4, 2, 5)
    return x.reshape(B, 3, height * PATCH_PX, width * PATCH_PX)


def canvas_ids() -> torch.Tensor:
    """RoPE coordinates (time, y, x, text) of the canvas: (256, 4)."""
    axis = torch.arange(GRID, dtype=torch.float32) * POSITION_SCALE
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    zero = torch.zeros(GRID * GRID)
    return torch.stack([zero, y.flatten(), x.flatten(), zero], -1)


def reference_ids(placement: tuple[int, int, int, int]) -> torch.Tensor:
    """RoPE coordinates of the reference, spread over the place where its content belongs.

    Args:
        placement: (top, left, height, width) in canvas tokens.

    Returns:
        (64, 4); reference token (i, j) lies at the centre of its share of the placement.
    """
    top, left, height, width = placement
    centre = (torch.arange(REFERENCE_GRID, dtype=torch.float32) + 0.5) / REFERENCE_GRID
    y, x = torch.meshgrid(
        (top + centre * height - 0.5) * POSITION_SCALE,
        (left + centre * width - 0.5) * POSITION_SCALE,
        indexing="ij",
    )
    y, x = y.flatten(), x.flatten()
    return torch.stack([torch.full_like(y, REFERENCE_SLOT), y, x, torch.zeros_like(y)], -1)


def text_ids() -> torch.Tensor:
    """RoPE coordinates of the prompt tokens: (4, 4)."""
    ids = torch.zeros(NUM_TEXT, 4)
    ids[:, 3] = torch.arange(NUM_TEXT)
    return ids


class MiniFlux2(nn.Module):
    """Flux2Transformer2DModel plus the prompt table that stands for a text encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = Flux2Transformer2DModel(**CONFIG)
        for double in self.transformer.transformer_blocks:
            double.attn.set_processor(Flux2KVAttnProcessor())
        for single in self.transformer.single_transformer_blocks:
            single.attn.set_processor(Flux2KVParallelSelfAttnProcessor())
        self.prompts = nn.Embedding(len(PROMPTS), NUM_TEXT * TEXT_DIM)

    def text(self, prompt_B: torch.Tensor) -> torch.Tensor:
        """Prompt indices (B,) to text tokens (B, 4, 64)."""
        return self.prompts(prompt_B).view(-1, NUM_TEXT, TEXT_DIM)

    def canvas_input(
        self, noisy_BNP: torch.Tensor, template_BNP: torch.Tensor, mask_BN1: torch.Tensor
    ) -> torch.Tensor:
        """Channels of canvas tokens: noisy patch, template patch, mask. (B, N, 385)."""
        return torch.cat([noisy_BNP, template_BNP, mask_BN1 * 2 - 1], -1)

    def reference_input(self, reference_BRP: torch.Tensor) -> torch.Tensor:
        """Channels of reference tokens: clean patch, nothing, nothing. (B, R, 385)."""
        return nn.functional.pad(reference_BRP, (0, PATCH_DIM + 1))

    def forward(
        self,
        canvas_BNI: torch.Tensor,
        reference_BRI: torch.Tensor,
        prompt_B: torch.Tensor,
        timestep_B: torch.Tensor,
        ids: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """One pass of the stock transformer with causal reference tokens.

        Args:
            canvas_BNI: output of `canvas_input` for the tokens to compute.
            reference_BRI: output of `reference_input`.
            prompt_B: prompt indices.
            timestep_B: noise level in [0, 1].
            ids: RoPE coordinates of these canvas tokens (N, 4) and of the reference (R, 4).

        Returns:
            (B, N, 192) predicted clean patch minus template patch.
        """
        return self.transformer(
            torch.cat([reference_BRI, canvas_BNI], 1),
            self.text(prompt_B),
            timestep_B,
            torch.cat([ids[1], ids[0]]),
            text_ids(),
            kv_cache_mode="extract",
            num_ref_tokens=reference_BRI.shape[1],
        ).sample
