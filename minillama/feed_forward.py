"""The gated feed-forward network: SiLU as the valve, a second projection as the content."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layers import Linear


def silu(x: Tensor) -> Tensor:
    """x · σ(x), elementwise (Hendrycks and Gimpel 2016; Ramachandran et al. 2017 call it Swish)."""
    return x * torch.sigmoid(x)


def silu_derivative(x: Tensor) -> Tensor:
    """σ(x) · (1 + x · (1 - σ(x))), elementwise; between -0.0998 and 1.0998."""
    gate = torch.sigmoid(x)
    return gate * (1 + x * torch.sigmoid(-x))  # σ(-x) = 1 - σ(x), without the cancellation


class SwiGLUFeedForward(nn.Module):
    """down(SiLU(gate(x)) · up(x)), (B, T, C) -> (B, T, C) (Shazeer 2020, arXiv:2002.05202).

    `w_gate`, `w_up`, `w_down` are the names elsewhere written w1, w3, w2.
    """

    def __init__(self, config) -> None:
        super().__init__()
        self.w_gate = Linear(config.d_model, config.d_ffn)
        self.w_up = Linear(config.d_model, config.d_ffn)
        self.w_down = Linear(config.d_ffn, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.w_gate(x)) * self.w_up(x)  # (B, T, d_ffn)
        return self.w_down(h)  # (B, T, C)
