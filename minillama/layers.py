"""The two layers every block is made of: a bias-free projection and RMSNorm."""

import torch
from torch import Tensor, nn

INIT_STD = 0.02  # of every weight matrix, as in GPT-2 and Llama


def _init(weight: Tensor) -> None:
    if not weight.is_meta:  # a meta tensor has no storage to fill; weights from a file will replace it
        nn.init.normal_(weight, std=INIT_STD)


class Linear(nn.Linear):
    """`nn.Linear` without a bias, (..., in_features) -> (..., out_features), weights from N(0, 0.02²)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def reset_parameters(self) -> None:
        _init(self.weight)


class Embedding(nn.Embedding):
    """`nn.Embedding`, (...) int -> (..., embedding_dim), rows from N(0, 0.02²)."""

    def reset_parameters(self) -> None:
        _init(self.weight)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide each vector by its root mean square, then apply a gain per channel.

        y_i = x_i / sqrt(mean_j(x_j²) + eps) · weight_i

    Computed in float32 whatever `x` is, gain included, and cast back to x's dtype at the end
    (Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4).

    Args:
        x: (..., C).
        weight: (C,), the gain.
        eps: added to the mean square; 0 is allowed.

    Returns:
        (..., C) in x's dtype.

    Raises:
        TypeError: `x` is not a floating-point tensor.
        ValueError: the last axis of `x` is not as long as `weight`.
    """
    if weight.ndim != 1 or x.ndim == 0 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"x must end in an axis as long as weight, and weight must be a vector: "
            f"got x {tuple(x.shape)}, weight {tuple(weight.shape)}"
        )
    if not x.is_floating_point():
        raise TypeError(f"x must be a floating-point tensor, got dtype {x.dtype}")
    h = x.float()  # fp16 overflows at 256², and loses 1e-4² to zero
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (h * weight.float()).to(x.dtype)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain `weight` of shape (dim,), which starts at 1.

    Raises:
        ValueError: `dim` < 1, or a negative or non-finite `eps`.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        if type(dim) is not int or dim < 1:
            raise ValueError(f"dim must be an integer >= 1, got {dim!r}")
        if not 0 <= eps < float("inf"):
            raise ValueError(f"eps must be a finite number >= 0, got {eps!r}")
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"
