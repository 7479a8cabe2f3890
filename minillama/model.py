"""The block, and the causal language model made of twelve of them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import Attention
from .cache import KVCache
from .config import MiniLLaMAConfig
from .feed_forward import SwiGLUFeedForward
from .layers import Embedding, Linear, RMSNorm
from .loss import cross_entropy
from .rope import precompute_freqs_cis


class TransformerBlock(nn.Module):
    """Pre-norm block, (B, T, C) -> (B, T, C): attention, then feed-forward, each added to x."""

    def __init__(self, config: MiniLLaMAConfig) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(config.d_model, config.norm_eps)
        self.attn = Attention(config)
        self.ffn_norm = RMSNorm(config.d_model, config.norm_eps)
        self.ffn = SwiGLUFeedForward(config)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, kv_cache: KVCache | None = None, layer: int = 0
    ) -> Tensor:
        x = x + self.attn(self.attn_norm(x), cos, sin, kv_cache, layer)
        return x + self.ffn(self.ffn_norm(x))


class MiniLLaMAForCausalLM(nn.Module):
    """A decoder-only language model with the architecture of Llama (Touvron et al. 2023, arXiv:2302.13971).

    Token embedding, `n_layers` blocks, a final RMSNorm and a bias-free output head. The head *is* the
    embedding matrix when `config.tie_word_embeddings`.

    Attributes:
        config: the sizes it was built with.
        token_embeddings, layers, norm, lm_head: the parts, in the order of the forward pass.
        cos, sin: (max_seq_len, D) float32 buffers outside the state dict.
    """

    def __init__(self, config: MiniLLaMAConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embeddings = Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList(TransformerBlock(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.lm_head = Linear(config.d_model, config.vocab_size)
        self.tie_weights()
        self.build_rope_tables(self.token_embeddings.weight.device)
        # 2 L sublayers add to the residual stream; this keeps their sum from growing with depth (GPT-2).
        with torch.no_grad():
            for block in self.layers:
                block.attn.wo.weight *= (2 * config.n_layers) ** -0.5
                block.ffn.w_down.weight *= (2 * config.n_layers) ** -0.5

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        result = super().load_state_dict(state_dict, strict, assign)
        self.tie_weights()  # assign=True makes two parameters of one
        return result

    def tie_weights(self) -> None:
        """Make the head and the embedding one parameter, if the configuration says so."""
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.token_embeddings.weight

    def build_rope_tables(self, device: torch.device) -> None:
        """Compute the RoPE tables in float32 on `device`."""
        config = self.config
        if device.type == "meta":  # only the shape counts: leaving the device computes them
            tables = torch.empty(2, config.max_seq_len, config.head_dim, device=device)
        else:
            tables = precompute_freqs_cis(
                config.head_dim, config.max_seq_len, config.rope_theta, config.rope_scaling
            )
        for name, table in zip(("cos", "sin"), tables, strict=True):
            self.register_buffer(name, table.to(device), persistent=False)

    def _apply(self, fn, recurse=True):
        """Move or cast the model, yet keep the phases float32: bfloat16 cannot tell position 256 from 257."""
        super()._apply(fn, recurse)
        self.tie_weights()  # leaving the meta device makes two parameters of one
        self.build_rope_tables(self.cos.device)
        return self

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        past_key_values: KVCache | None = None,
        start_pos: int | None = None,
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        """Score every next token; with labels, the loss as well.

        Args:
            input_ids: (B, T) integers in 0 .. V - 1, not empty.
            labels: (B, T) *unshifted* targets, usually `input_ids` itself: position t is scored against
                labels[t + 1]. -100 is ignored.
            past_key_values: a cache of what came before; the T tokens are appended to it in place. Such a
                call is inference: nothing is recorded for a backward pass.
            start_pos: position of the first token. Defaults to the cache's length, or 0.

        Returns:
            (logits, loss, past_key_values): logits (B, T, V); loss, in nats, the 0-d mean over the labels
            that count (0, differentiable, when none does), or None; the cache that was passed in.

        Raises:
            TypeError: ids or labels that are no integer tensors.
            ValueError: wrong shapes or ranges, a `start_pos` that contradicts the cache, a sequence longer
                than `max_seq_len` or the cache, a cache made for another model, batch, dtype or device.
        """
        start_pos = self._check_inputs(input_ids, labels, past_key_values, start_pos)
        with torch.set_grad_enabled(torch.is_grad_enabled() and past_key_values is None):
            h = self._hidden(input_ids, past_key_values, start_pos)  # (B, T, C)
            logits = self.lm_head(h)  # (B, T, V)
            loss = None
            if labels is not None:
                # Position t is scored against token t + 1; the last has none. Slicing the logits instead
                # would copy them in the backward pass.
                loss = cross_entropy(logits, F.pad(labels[:, 1:], (0, 1), value=-100))
        return logits, loss, past_key_values

    def next_token_logits(
        self, input_ids: Tensor, past_key_values: KVCache | None = None, start_pos: int | None = None
    ) -> Tensor:
        """As `forward`, but only the scores of the token after the last: (B, V). For decoding."""
        start_pos = self._check_inputs(input_ids, None, past_key_values, start_pos)
        with torch.set_grad_enabled(torch.is_grad_enabled() and past_key_values is None):
            return self.lm_head(self._hidden(input_ids, past_key_values, start_pos)[:, -1])

    def _hidden(self, input_ids: Tensor, kv_cache: KVCache | None, start_pos: int) -> Tensor:
        """Everything below the head: (B, T) -> (B, T, C)."""
        t = input_ids.shape[1]
        cos, sin = self.cos[start_pos : start_pos + t], self.sin[start_pos : start_pos + t]  # (T, D)
        h = self.token_embeddings(input_ids)  # (B, T, C)
        for i, block in enumerate(self.layers):
            h = block(h, cos, sin, kv_cache, i)
        if kv_cache is not None:
            kv_cache.advance(t)
        return self.norm(h)

    def _check_inputs(
        self, input_ids: Tensor, labels: Tensor | None, cache: KVCache | None, start_pos: int | None
    ) -> int:
        config = self.config
        check_token_ids("input_ids", input_ids, config.vocab_size)
        batch, t = input_ids.shape
        if labels is not None:
            check_token_ids("labels", labels, config.vocab_size, ignored=-100)
            if labels.shape != input_ids.shape:
                raise ValueError(
                    f"labels must have the shape of input_ids {tuple(input_ids.shape)} (they are shifted "
                    f"inside), got {tuple(labels.shape)}"
                )
        if start_pos is not None and type(start_pos) is not int:
            raise TypeError(f"start_pos must be None or an integer, got {start_pos!r}")
        if cache is not None:
            self._check_cache(cache, batch)
            if start_pos not in (None, cache.length):
                raise ValueError(
                    f"start_pos must be the cache's length ({cache.length}) or None, got {start_pos}"
                )
            start_pos = cache.length
            if start_pos + t > cache.max_len:
                raise ValueError(
                    f"start_pos + T = {start_pos} + {t} = {start_pos + t} exceeds "
                    f"the cache's max_len = {cache.max_len}"
                )
        start_pos = start_pos or 0
        if start_pos < 0:
            raise ValueError(f"start_pos must be >= 0, got {start_pos}")
        if start_pos + t > config.max_seq_len:
            raise ValueError(
                f"start_pos + T = {start_pos} + {t} = {start_pos + t} exceeds "
                f"max_seq_len = {config.max_seq_len}"
            )
        return start_pos

    def _check_cache(self, cache: KVCache, batch: int) -> None:
        if not isinstance(cache, KVCache):
            raise TypeError(f"past_key_values must be None or a KVCache, got {type(cache).__name__}")
        config, weight = self.config, self.token_embeddings.weight
        keys = cache.k[0]  # (B, G, max_len, D)
        found = (len(cache.k), keys.shape[1], keys.shape[3])
        wanted = (config.n_layers, config.n_kv_heads, config.head_dim)
        if found != wanted:
            raise ValueError(
                f"past_key_values was made for (n_layers, n_kv_heads, head_dim) = {found}, "
                f"the model has {wanted}"
            )
        if cache.batch_size != batch:
            raise ValueError(f"past_key_values has batch_size {cache.batch_size}, input_ids has {batch} rows")
        if keys.dtype != weight.dtype or keys.device != weight.device:
            raise ValueError(
                f"past_key_values is {keys.dtype} on {keys.device}, "
                f"the model {weight.dtype} on {weight.device}: make the cache with the model's"
            )


def check_token_ids(name: str, ids: Tensor, vocab_size: int, ignored: int | None = None) -> None:
    """Raise unless `ids` is a non-empty (B, T) tensor of integers in 0 .. vocab_size - 1 (or `ignored`)."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of token ids (B, T), got {type(ids).__name__}")
    if ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be an integer tensor (int32 or int64), got dtype {ids.dtype}")
    if ids.ndim != 2 or ids.numel() == 0:
        raise ValueError(f"{name} must be (B, T) and not empty, got shape {tuple(ids.shape)}")
    if ids.is_cuda or ids.is_meta or torch.compiler.is_compiling():
        return  # reading the values would stall the device; the embedding kernel checks them
    counted = ids if ignored is None else ids[ids != ignored]
    if counted.numel() == 0:
        return
    low, high = (int(bound) for bound in counted.aminmax())
    if low < 0 or high >= vocab_size:
        also = "" if ignored is None else f", or {ignored}"
        raise ValueError(
            f"{name} must be from 0 to vocab_size - 1 = {vocab_size - 1}{also}; "
            f"got {low if low < 0 else high}"
        )
