"""Every size of the model, checked once."""

import math
from dataclasses import dataclass


def require_int(name: str, value, minimum: int = 1) -> None:
    """Raise a `ValueError` unless `value` is an integer >= `minimum`; True and False are no integers."""
    if type(value) is not int or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")


def _require_positive(name: str, value) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


@dataclass(frozen=True)
class RopeScaling:
    """The llama3 rule that stretches RoPE's slow planes to a longer context.

    A plane whose wavelength exceeds `original_max_position_embeddings / low_freq_factor` turns `factor`
    times slower; one below `original_max_position_embeddings / high_freq_factor` is left alone; in between,
    the two frequencies are blended (Llama 3.1 model card and reference code, 2024).

    Raises:
        ValueError: a value out of range, named.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        _require_positive("factor", self.factor)
        if self.factor < 1:
            raise ValueError(f"factor must be >= 1, got {self.factor!r}")
        _require_positive("low_freq_factor", self.low_freq_factor)
        _require_positive("high_freq_factor", self.high_freq_factor)
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"high_freq_factor must be > low_freq_factor ({self.low_freq_factor!r}), "
                f"got {self.high_freq_factor!r}"
            )
        require_int("original_max_position_embeddings", self.original_max_position_embeddings)


@dataclass(frozen=True, kw_only=True)
class MiniLLaMAConfig:
    """Sizes of a MiniLLaMA. The defaults make the book's model: 35,926,528 parameters.

    Args:
        vocab_size: V, number of token ids.
        d_model: C, width of the residual stream.
        n_layers: L, number of transformer blocks.
        n_q_heads: H, query heads.
        n_kv_heads: G, key/value heads; must divide `n_q_heads`.
        head_dim: D, width of a head; even, because RoPE turns pairs. H * D need not equal C.
        d_ffn: hidden width of the SwiGLU feed-forward network.
        max_seq_len: longest sequence, in tokens.
        rope_theta: base of RoPE's frequencies.
        norm_eps: the epsilon inside every RMSNorm.
        tie_word_embeddings: whether the output head is the embedding matrix.
        rope_scaling: None or a `RopeScaling`.

    Raises:
        ValueError: a value out of range; the message names the field, the value and what is allowed.
    """

    vocab_size: int = 4096
    d_model: int = 512
    n_layers: int = 12
    n_q_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 64
    d_ffn: int = 1408
    max_seq_len: int = 2048
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6
    tie_word_embeddings: bool = True
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_layers", "n_q_heads", "n_kv_heads", "d_ffn", "max_seq_len"):
            require_int(name, getattr(self, name))
        require_int("head_dim", self.head_dim, minimum=2)
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even (RoPE turns pairs of entries), got {self.head_dim!r}")
        if self.n_q_heads % self.n_kv_heads:
            raise ValueError(
                f"n_kv_heads must divide n_q_heads ({self.n_q_heads}): each key/value head serves "
                f"the same number of query heads; got {self.n_kv_heads!r}"
            )
        _require_positive("rope_theta", self.rope_theta)
        _require_positive("norm_eps", self.norm_eps)
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(f"tie_word_embeddings must be True or False, got {self.tie_word_embeddings!r}")
        if self.rope_scaling is not None and not isinstance(self.rope_scaling, RopeScaling):
            raise ValueError(f"rope_scaling must be None or a RopeScaling, got {self.rope_scaling!r}")
