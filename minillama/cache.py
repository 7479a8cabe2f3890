"""Keys and values of the tokens so far, kept so that each is computed once."""

import torch
from torch import Tensor

from .config import MiniLLaMAConfig, require_int


class KVCache:
    """Room for the keys and values of `max_len` tokens in every layer, allocated once.

    Only the G key/value heads are stored; the H / G query heads of a group read the same rows.

    Args:
        config: the model's sizes.
        batch_size: B, rows decoded side by side.
        max_len: tokens it can hold; None means `config.max_seq_len`.
        dtype: must be the model's.
        device: where it lives; must be the model's.

    Attributes:
        k, v: one (B, G, max_len, D) per layer.
        length: tokens held.

    Raises:
        ValueError: `batch_size` < 1, `max_len` outside 1 .. max_seq_len, or a dtype without fractions.
    """

    def __init__(
        self,
        config: MiniLLaMAConfig,
        batch_size: int = 1,
        max_len: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        max_len = config.max_seq_len if max_len is None else max_len
        require_int("batch_size", batch_size)
        if type(max_len) is not int or not 1 <= max_len <= config.max_seq_len:
            raise ValueError(
                f"max_len must be an integer from 1 to max_seq_len ({config.max_seq_len}), got {max_len!r}"
            )
        if not dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point type, got {dtype}")
        shape = (batch_size, config.n_kv_heads, max_len, config.head_dim)
        # A tensor per layer: in one tensor for all, a compiled step would copy every layer to write one.
        self.k = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self.v = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self.length = 0

    @property
    def batch_size(self) -> int:
        return self.k[0].shape[0]

    @property
    def max_len(self) -> int:
        return self.k[0].shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of storage, filled or not."""
        return sum(tensor.nbytes for tensor in self.k + self.v)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values (B, G, T, D) of T new tokens behind those held.

        `length` does not move: every layer writes at the same place, then the model calls `advance(T)`.

        Returns:
            Views (B, G, length + T, D) of all keys and values of this layer.

        Raises:
            ValueError: no room for T more, or another shape than the cache was made for.
        """
        batch, heads, _, dim = self.k[0].shape
        t = k.shape[2]
        if k.shape != v.shape or k.shape != (batch, heads, t, dim):
            raise ValueError(
                f"k and v must both be (B, G, T, D) = ({batch}, {heads}, T, {dim}): "
                f"got {tuple(k.shape)} and {tuple(v.shape)}"
            )
        if not 0 <= layer < len(self.k):
            raise ValueError(f"layer must be from 0 to {len(self.k) - 1}, got {layer!r}")
        end = self.length + t
        self._check_room(end)
        keys, values = self.k[layer], self.v[layer]  # (B, G, max_len, D)
        keys.narrow(2, self.length, t).copy_(k)
        values.narrow(2, self.length, t).copy_(v)
        return keys.narrow(2, 0, end), values.narrow(2, 0, end)

    def advance(self, n_tokens: int) -> None:
        """Count `n_tokens` as held, once every layer has appended them."""
        self._check_room(self.length + n_tokens)
        self.length += n_tokens

    def reset(self) -> None:
        """Forget everything; the storage stays."""
        self.length = 0

    def truncate(self, length: int) -> None:
        """Keep only the first `length` tokens.

        Raises:
            ValueError: `length` outside 0 .. the present length.
        """
        if type(length) is not int or not 0 <= length <= self.length:
            raise ValueError(f"length must be an integer from 0 to the present {self.length}, got {length!r}")
        self.length = length

    def _check_room(self, end: int) -> None:
        if end > self.max_len:
            raise ValueError(f"the cache would hold {end} tokens, but its max_len is {self.max_len}")
