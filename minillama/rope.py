"""Rotary position embeddings: a position becomes an angle, a distance a difference of angles.

Su et al. 2021, arXiv:2104.09864. Coordinates are paired in one of two ways: half-split pairs (i, i + D/2),
used here and by Hugging Face; interleaved pairs (2i, 2i + 1), used by the paper, Meta's code and GGUF files.
The two differ by one permutation of the projection rows.
"""

import math

import torch
from torch import Tensor


def inverse_frequencies(head_dim: int, rope_theta: float = 10000.0, rope_scaling=None) -> Tensor:
    """Angle in radians that each plane turns per token: (D/2,), float64.

    Plane i turns by theta^(-2i/D), i = 0 .. D/2 - 1. With `rope_scaling`, a `RopeScaling`, the llama3 rule
    slows the planes whose wavelength is long against the original context.

    Raises:
        ValueError: `head_dim` odd or < 2, `rope_theta` not a finite number > 0.
    """
    if type(head_dim) is not int or head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be an even integer >= 2, got {head_dim!r}")
    if not 0 < rope_theta < math.inf:
        raise ValueError(f"rope_theta must be a finite number > 0, got {rope_theta!r}")
    # On the CPU whatever the default device is: not every device has float64.
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu") / head_dim
    freq = rope_theta**-exponent
    if rope_scaling is None:
        return freq
    # How often each plane turned within the context the model was first trained on.
    turns = rope_scaling.original_max_position_embeddings * freq / (2 * math.pi)
    low, high = rope_scaling.low_freq_factor, rope_scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)  # 0: slow down fully, 1: leave alone
    return keep * freq + (1 - keep) * freq / rope_scaling.factor


def precompute_freqs_cis(
    head_dim: int,
    max_seq_len: int,
    rope_theta: float = 10000.0,
    rope_scaling=None,
) -> tuple[Tensor, Tensor]:
    """Tables of cos(m·θ_i) and sin(m·θ_i) for positions m = 0 .. T - 1.

    Returns:
        (cos, sin), each (T, D) float32 on the CPU, half-split: columns i and i + D/2 hold the same angle.
        The angles are computed in float64: a float32 product m·θ is off by 1e-4 radians after 2,000 tokens.

    Raises:
        ValueError: as `inverse_frequencies`; `max_seq_len` < 1.
    """
    freq = inverse_frequencies(head_dim, rope_theta, rope_scaling)  # (D/2,)
    if type(max_seq_len) is not int or max_seq_len < 1:
        raise ValueError(f"max_seq_len must be an integer >= 1, got {max_seq_len!r}")
    positions = torch.arange(max_seq_len, dtype=torch.float64, device="cpu")
    angles = torch.outer(positions, freq)  # (T, D/2)
    angles = torch.cat((angles, angles), dim=-1)  # (T, D)
    return angles.cos().float(), angles.sin().float()


def rotate_half(x: Tensor) -> Tensor:
    """(..., D) -> (..., D): [a, b] -> [-b, a] for the halves a, b; a quarter turn of every pair."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def _check_tables(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    fits = x.ndim == 4 and cos.shape == sin.shape and cos.ndim in (2, 3)
    if not fits or cos.shape[-2:] != (x.shape[1], x.shape[3]) or cos.shape[:-2] not in ((), x.shape[:1]):
        raise ValueError(
            f"x must be (B, T, heads, D) and cos, sin (T, D) or (B, T, D): "
            f"got x {tuple(x.shape)}, cos {tuple(cos.shape)}, sin {tuple(sin.shape)}"
        )
    if x.shape[3] % 2:
        raise ValueError(f"x must have an even last axis (RoPE turns pairs), got {x.shape[3]}")


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate half-split pairs (i, i + D/2) of every head by the angles of its position.

    Args:
        x: (B, T, heads, D).
        cos, sin: (T, D), or (B, T, D) where rows have positions of their own; float32.

    Returns:
        (B, T, heads, D) in x's dtype; the product is taken in float32.

    Raises:
        ValueError: shapes that do not fit.
    """
    _check_tables(x, cos, sin)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)  # (T, 1, D): one angle for all heads
    h = x.float()
    return (h * cos + rotate_half(h) * sin).to(x.dtype)


def apply_rotary_emb_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`apply_rotary_emb` for interleaved pairs (0, 1), (2, 3), …; takes the same half-split tables."""
    _check_tables(x, cos, sin)
    half = x.shape[-1] // 2
    cos, sin = cos[..., :half].unsqueeze(-2), sin[..., :half].unsqueeze(-2)  # (T, 1, D/2)
    a, b = x.float().unflatten(-1, (half, 2)).unbind(-1)  # each (B, T, heads, D/2)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


def _regroup_rows(w: Tensor, n_heads: int, inner: tuple[int, int]) -> Tensor:
    if type(n_heads) is not int or n_heads < 1:
        raise ValueError(f"n_heads must be an integer >= 1, got {n_heads!r}")
    if w.ndim == 0 or w.shape[0] % (2 * n_heads):
        raise ValueError(
            f"w must have n_heads * head_dim rows with an even head_dim: "
            f"got w {tuple(w.shape)} for n_heads {n_heads}"
        )
    return w.unflatten(0, (n_heads, *inner)).transpose(1, 2).flatten(0, 2)


def interleaved_to_half(w: Tensor, n_heads: int) -> Tensor:
    """Reorder projection rows (n_heads·D, C) from interleaved to half-split pairs, head by head.

    For a query or key projection: `n_heads` is the number of *its* heads, H for wq and G for wk.
    """
    return _regroup_rows(w, n_heads, (-1, 2))


def half_to_interleaved(w: Tensor, n_heads: int) -> Tensor:
    """The inverse of `interleaved_to_half`."""
    return _regroup_rows(w, n_heads, (2, -1))
