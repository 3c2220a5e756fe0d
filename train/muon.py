"""Muon in float32. torch.optim.Muon orthogonalises in bfloat16, which CPUs without bf16 units
emulate, so that the optimiser takes longer than forward and backward passes together.

Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: torch.Tensor, num_iterations: int = 4) -> torch.Tensor:
    """Push the singular values of a 2-D matrix towards 1 by Newton-Schulz iterations."""
    a, b, c = _COEFFICIENTS
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(num_iterations):
        gram = x @ x.T
        x = a * x + torch.addmm(b * gram, gram, gram, alpha=c) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalised per matrix; the update's RMS is matched to AdamW's (factor 0.2)."""

    def __init__(
        self, params: Iterable[torch.nn.Parameter], lr: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Apply one update to every matrix that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonalise(p.grad.lerp(buffer, group["momentum"]))
                p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)
