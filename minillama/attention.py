"""Attention: explicit, as the reference; then grouped-query attention on torch's fused kernel."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layers import Linear
from .rope import apply_rotary_emb


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) over its sum along `dim`, computed in float32 and cast back.

    The maximum is subtracted first, so nothing overflows. A row that is -inf throughout gives zeros
    (torch gives NaN): there is nothing to attend to.
    """
    h = x.float()
    top = h.amax(dim, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)  # -inf - -inf is NaN
    e = (h - top).exp()
    # The largest entry became exp(0) = 1, so the clamp touches only rows that are hidden throughout.
    return (e / e.sum(dim, keepdim=True).clamp_min(1.0)).to(x.dtype)


def causal_mask(q_len: int, kv_len: int, device: torch.device | str | None = None) -> Tensor:
    """Which keys a query may attend to: bool (q_len, kv_len), True = may attend.

    The queries are the *last* `q_len` of `kv_len` positions (bottom-right alignment): query i stands at
    position kv_len - q_len + i and sees the keys up to there. A query before position 0 sees nothing.

    Raises:
        ValueError: a length that is negative or no integer.
    """
    for name, value in (("q_len", q_len), ("kv_len", kv_len)):
        if type(value) is not int or value < 0:
            raise ValueError(f"{name} must be an integer >= 0, got {value!r}")
    return torch.ones(q_len, kv_len, dtype=torch.bool, device=device).tril(kv_len - q_len)


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """softmax(q kᵀ / √D) v, every step in the open (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    Args:
        q: (..., T, D).
        k: (..., S, D).
        v: (..., S, Dv).
        mask: bool, broadcastable to (..., T, S), True = may attend. None hides nothing.

    Returns:
        (..., T, Dv). A query that may attend to nothing gets zeros.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: a mask that is not bool.
    """
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"q, k, v must be (..., T, D), (..., S, D), (..., S, Dv): "
            f"got {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask must be a bool tensor, True = may attend; got dtype {mask.dtype}")
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., T, S)
    if mask is not None:
        sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
        if mask.ndim > scores.ndim or any(m not in (1, s) for m, s in sizes):
            raise ValueError(
                f"mask must broadcast to the scores {tuple(scores.shape)}, got {tuple(mask.shape)}"
            )
        scores = scores.masked_fill(~mask, -math.inf)
    return softmax(scores) @ v  # (..., T, Dv)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """(B, T, G, D) -> (B, T, G·n_rep, D), each head repeated in place: [10, 20] -> [10, 10, 20, 20].

    Raises:
        ValueError: `x` is not 4-D or `n_rep` is not an integer >= 1.
    """
    if x.ndim != 4:
        raise ValueError(f"x must be (B, T, G, D), got shape {tuple(x.shape)}")
    if type(n_rep) is not int or n_rep < 1:
        raise ValueError(f"n_rep must be an integer >= 1, got {n_rep!r}")
    return x.repeat_interleave(n_rep, dim=2)


class Attention(nn.Module):
    """Causal grouped-query attention with RoPE, (B, T, C) -> (B, T, C).

    H query heads share G key/value heads, H / G to each (Ainslie et al. 2023, arXiv:2305.13245). Equal to
    `scaled_dot_product_attention` over `repeat_kv` heads with a `causal_mask`, but the fused kernel never
    stores the (T, S) scores nor the repeated heads.
    """

    def __init__(self, config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.wq = Linear(config.d_model, config.n_q_heads * config.head_dim)
        self.wk = Linear(config.d_model, config.n_kv_heads * config.head_dim)
        self.wv = Linear(config.d_model, config.n_kv_heads * config.head_dim)
        self.wo = Linear(config.n_q_heads * config.head_dim, config.d_model)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, kv_cache=None, layer: int = 0) -> Tensor:
        """Attend from the T tokens of `x` to themselves and to what `kv_cache` holds of `layer`.

        Args:
            x: (B, T, C).
            cos, sin: (T, D), the angles of the positions of `x`.
            kv_cache: None or a `KVCache`; receives the T new keys and values, the caller advances its length.
            layer: which of the cache's layers.
        """
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, -1, self.head_dim)  # (B, T, H, D)
        k = self.wk(x).view(b, t, -1, self.head_dim)  # (B, T, G, D)
        v = self.wv(x).view(b, t, -1, self.head_dim)  # (B, T, G, D)
        q = apply_rotary_emb(q, cos, sin).transpose(1, 2)  # (B, H, T, D)
        k = apply_rotary_emb(k, cos, sin).transpose(1, 2)  # (B, G, T, D)
        v = v.transpose(1, 2)  # (B, G, T, D)
        if kv_cache is not None:
            k, v = kv_cache.append(layer, k, v)  # (B, G, S, D), S = past + T
        # What may be seen follows from the lengths alone. torch's is_causal aligns top-left, so it is right
        # only when T = S; a single query is the last position and sees everything.
        s = k.shape[2]
        if t == 1:  # the query heads of a group become its rows, so that no key is repeated for them
            q = q.view(b, k.shape[1], -1, self.head_dim)  # (B, H, 1, D) -> (B, G, H / G, D)
            h = F.scaled_dot_product_attention(q, k, v).view(b, -1, 1, self.head_dim)  # (B, H, 1, D)
        else:
            mask = None if t == s else causal_mask(t, s, device=x.device)
            h = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
            )
        return self.wo(h.transpose(1, 2).flatten(2))  # (B, H, T, D) -> (B, T, H·D) -> (B, T, C)
