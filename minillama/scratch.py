"""A Llama in one file with nothing hidden: einsum and elementary tensor operations, top to bottom.

The same mathematics as the rest of the package, written a second time so that it can be read without a jump
and can serve as an independent check: it imports nothing of the package. Three habits differ on purpose:
a mask says True = hidden, rotary pairs are interleaved (0, 1), (2, 3), …, and AdamW decays after its update.

B batch, T queries, S keys, H heads, D head_dim, C d_model, F d_ff, V vocabulary.
"""

import math

import torch
from torch import Tensor, einsum, nn


def truncated_normal_(w: Tensor, std: float) -> None:
    """Fill `w` from a normal distribution, drawing again what lies beyond 3σ: the same in every torch."""
    w.data.normal_(0, std)
    while (beyond := w.data.abs() > 3 * std).any():
        w.data = torch.where(beyond, torch.randn_like(w.data) * std, w.data)


class Linear(nn.Module):
    """(..., in_features) -> (..., out_features), no bias; `w` is (out_features, in_features)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(out_features, in_features))
        truncated_normal_(self.w, std=math.sqrt(2 / (in_features + out_features)))  # Glorot and Bengio 2010

    def forward(self, x: Tensor) -> Tensor:
        return einsum("...i,oi->...o", x, self.w)


class Embedding(nn.Module):
    """Token ids (...) -> rows of `w` (num_embeddings, embedding_dim)."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        truncated_normal_(self.w, std=1 / math.sqrt(embedding_dim))

    def forward(self, token_ids: Tensor) -> Tensor:
        if token_ids.numel() and not 0 <= token_ids.min() <= token_ids.max() < len(self.w):
            raise ValueError(f"token_ids must be from 0 to {len(self.w) - 1}")  # -1 would read the last row
        return self.w[token_ids]


class RmsNorm(nn.Module):
    """x over its root mean square along the last axis, times the gain `g` (d_model,); in float32."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        mean_square = einsum("...c,...c->...", h, h)[..., None] / h.shape[-1]
        return (h * torch.rsqrt(mean_square + self.eps) * self.g.float()).to(x.dtype)


class SiLu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class SwiGlu(nn.Module):
    """w2(SiLu(w1 x) · w3 x), (..., C) -> (..., F) -> (..., C): w1 the gate, w3 the value, w2 the way back."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w1 = Linear(d_model, d_ff)
        self.w2 = Linear(d_ff, d_model)
        self.w3 = Linear(d_model, d_ff)
        self.silu = SiLu()

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(self.silu(self.w1(x)) * self.w3(x))


FFN = SwiGlu


class RoPE(nn.Module):
    """Turns the pairs (0, 1), (2, 3), … of a vector at position m by the angles m · theta^(-2i / d_k)."""

    def __init__(self, theta: float, d_k: int, max_seq_len: int) -> None:
        super().__init__()
        if d_k % 2:
            raise ValueError(f"d_k must be even, because RoPE turns pairs; got {d_k}")
        frequency = theta ** -(torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)  # (D/2,)
        angles = einsum("t,i->ti", torch.arange(max_seq_len, dtype=torch.float64), frequency)
        angles = angles.repeat_interleave(2, dim=-1)  # (max_seq_len, D): both of a pair turn alike
        self.register_buffer("cos_cached", angles.cos().float(), persistent=False)
        self.register_buffer("sin_cached", angles.sin().float(), persistent=False)

    def forward(self, x: Tensor, token_positions: Tensor) -> Tensor:
        """x (..., T, d_k) or (B, H, T, d_k); token_positions (T,) or (B, T) -> x's shape and dtype."""
        if token_positions.numel() and not 0 <= token_positions.min() <= token_positions.max() < len(
            self.cos_cached
        ):
            raise ValueError(f"token_positions must be from 0 to {len(self.cos_cached) - 1}")
        cos, sin = self.cos_cached[token_positions], self.sin_cached[token_positions]  # (..., T, D)
        if x.ndim == 4 and cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]  # (B, 1, T, D): the same for all heads
        h = x.float()
        a, b = h[..., 0::2], h[..., 1::2]
        turned = torch.stack((-b, a), dim=-1).flatten(-2)  # (a, b) a quarter turn on
        return (h * cos + turned * sin).to(x.dtype)


class Softmax(nn.Module):
    """exp over its sum along `dim`; the maximum is taken out first, so nothing overflows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        e = torch.exp(x - x.amax(self.dim, keepdim=True))
        return e / e.sum(self.dim, keepdim=True)


class ScaledDotProductAttention(nn.Module):
    """softmax(q kᵀ / √D) v; mask broadcastable to (..., T, S), True = hidden.

    Hidden scores become -1e9, so a row that is hidden throughout averages all values (the package's
    function gives 0 there).
    """

    def __init__(self) -> None:
        super().__init__()
        self.softmax = Softmax(dim=-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = einsum("...td,...sd->...ts", q, k).float() / math.sqrt(q.shape[-1])  # (..., T, S)
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        return einsum("...ts,...sd->...td", self.softmax(scores).to(v.dtype), v)


class MultiHeadAttention(nn.Module):
    """Causal self-attention, (B, T, C) -> (B, T, C); `w_qkv` holds the rows of q, then k, then v."""

    def __init__(self, d_model: int, num_heads: int, max_seq_len: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads must divide d_model = {d_model}, got {num_heads}")
        self.num_heads = num_heads
        self.w_qkv = Linear(d_model, 3 * d_model)
        self.w_out = Linear(d_model, d_model)
        self.attention = ScaledDotProductAttention()
        hidden = torch.ones(max_seq_len, max_seq_len, dtype=torch.bool).triu(1)  # keys after the query
        self.register_buffer("causal_mask", hidden, persistent=False)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, C) -> q, k, v, each (B, H, T, D)."""
        if x.shape[-2] > len(self.causal_mask):
            raise ValueError(f"T = {x.shape[-2]} exceeds max_seq_len = {len(self.causal_mask)}")
        qkv = self.w_qkv(x).unflatten(-1, (3, self.num_heads, -1))  # (B, T, 3, H, D)
        return einsum("btnhd->nbhtd", qkv).unbind(0)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, T, D) three times -> (B, T, C)."""
        t = q.shape[-2]
        mixed = self.attention(q, k, v, self.causal_mask[:t, :t])
        return self.w_out(einsum("bhtd->bthd", mixed).flatten(-2))

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(*self.heads(x))


class MultiHeadAttentionWithRoPE(MultiHeadAttention):
    """The same, with queries and keys rotated; token_positions (T,) or (B, T), by default 0 .. T - 1."""

    def __init__(self, d_model: int, num_heads: int, max_seq_len: int, theta: float) -> None:
        super().__init__(d_model, num_heads, max_seq_len)
        self.rope = RoPE(theta, d_model // num_heads, max_seq_len)

    def forward(self, x: Tensor, token_positions: Tensor | None = None) -> Tensor:
        q, k, v = self.heads(x)
        if token_positions is None:
            token_positions = torch.arange(x.shape[-2], device=x.device)
        return self.mix(self.rope(q, token_positions), self.rope(k, token_positions), v)


class TransformerBlock(nn.Module):
    """Pre-norm: x + attention(norm x), then x + feed-forward(norm x)."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, max_seq_len: int, theta: float) -> None:
        super().__init__()
        self.rms_norm1 = RmsNorm(d_model)
        self.mult_head_atten = MultiHeadAttentionWithRoPE(d_model, num_heads, max_seq_len, theta)
        self.rms_norm2 = RmsNorm(d_model)
        self.ffe = FFN(d_model, d_ff)

    def forward(self, x: Tensor, token_positions: Tensor | None = None) -> Tensor:
        x = x + self.mult_head_atten(self.rms_norm1(x), token_positions)
        return x + self.ffe(self.rms_norm2(x))


class Transformer(nn.Module):
    """Token ids (B, T) -> logits (B, T, V); T and all positions below context_length."""

    def __init__(
        self,
        vocab_size: int,
        context_length: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        rope_theta: float,
    ) -> None:
        super().__init__()
        sizes = (d_model, num_heads, d_ff, context_length, rope_theta)
        self.embedding = Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(TransformerBlock(*sizes) for _ in range(num_layers))
        self.rms_norm = RmsNorm(d_model)
        self.out_linear = Linear(d_model, vocab_size)

    def forward(self, token_ids: Tensor, token_positions: Tensor | None = None) -> Tensor:
        x = self.embedding(token_ids)  # (B, T, C)
        for block in self.blocks:
            x = block(x, token_positions)
        return self.out_linear(self.rms_norm(x))


class CrossEntropyLoss(nn.Module):
    """Mean of -log p(target): logits (..., V), targets (...) -> 0-d."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        logits, targets = logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1)
        if targets.numel() and not 0 <= targets.min() <= targets.max() < logits.shape[-1]:
            raise ValueError(f"targets must be from 0 to {logits.shape[-1] - 1}")
        shifted = logits - logits.amax(-1, keepdim=True)
        log_p = shifted - shifted.exp().sum(-1, keepdim=True).log()
        return -log_p[torch.arange(len(targets), device=targets.device), targets].mean()


class SGDDecay(torch.optim.Optimizer):
    """p -= lr / √(t + 1) · g at step t = 0, 1, …"""

    def __init__(self, params, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    t = self.state[p].get("t", 0)
                    p -= group["lr"] / math.sqrt(t + 1) * p.grad
                    self.state[p]["t"] = t + 1


class AdamW(torch.optim.Optimizer):
    """Adam; the weight decay comes after the update and shrinks the weight just updated."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = beta1 * state.get("m", torch.zeros_like(p)) + (1 - beta1) * p.grad
                sm = state["sm"] = beta2 * state.get("sm", torch.zeros_like(p)) + (1 - beta2) * p.grad**2
                m_hat, sm_hat = m / (1 - beta1**t), sm / (1 - beta2**t)
                p -= lr * m_hat / (sm_hat.sqrt() + group["eps"])
                p -= lr * group["weight_decay"] * p


def cos_lr_scheduler(it: int, lr_max: float, lr_min: float, warmup_iters: int, cos_cycle_iters: int) -> float:
    """A line from 0 to lr_max, half a cosine down to lr_min, then lr_min."""
    if it < warmup_iters:
        return lr_max * it / warmup_iters
    if it > cos_cycle_iters:
        return lr_min
    progress = (it - warmup_iters) / max(1, cos_cycle_iters - warmup_iters)
    return lr_min + (lr_max - lr_min) * (1 + math.cos(math.pi * progress)) / 2


@torch.no_grad()
def gradient_clip(params, max_norm: float) -> Tensor:
    """Scale all gradients by one factor if their global norm exceeds max_norm; returns the norm before."""
    grads = list({id(p): p.grad for p in params if p.grad is not None}.values())
    norm = torch.sqrt(sum((torch.sum(g.float() ** 2) for g in grads), torch.tensor(0.0)))
    if not torch.isfinite(norm):
        raise RuntimeError(f"the gradient norm is {norm}; nothing was changed")
    if norm > max_norm:
        for g in grads:
            g *= max_norm / norm
    return norm
