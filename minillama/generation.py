"""From scores to text: the sampling filters, and decoding with the cache."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from .cache import KVCache
from .model import MiniLLaMAForCausalLM, check_token_ids

_ROUNDING = 1e-6  # a sum of float32 probabilities this close to top_p has reached it


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be a finite number >= 0, got {temperature!r}")
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise ValueError(f"top_k must be None or an integer >= 1, got {top_k!r}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be None or in (0, 1], got {top_p!r}")


def filter_logits(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Logits of the tokens that may be drawn, -inf for the rest: temperature, then top_k, then top_p.

    Args:
        logits: (..., V).
        temperature: divides the logits; 0 keeps only the largest (the first of equals).
        top_k: keep the k largest; a k above V keeps all.
        top_p: keep the smallest set of largest probabilities whose sum reaches p (Holtzman et al. 2019,
            arXiv:1904.09751), never fewer than one.

    Returns:
        (..., V) float32.

    Raises:
        ValueError: `temperature` < 0, `top_k` < 1 or `top_p` outside (0, 1].
    """
    _check_sampling(temperature, top_k, top_p)
    h = logits.float()
    if temperature == 0:
        best = h.argmax(-1, keepdim=True)
        return torch.full_like(h, -math.inf).scatter(-1, best, h.gather(-1, best))
    h = (h.double() / temperature).float()  # a temperature below 1e-45 is 0 in float32
    if top_k is not None and top_k < h.shape[-1]:
        values, index = h.topk(top_k, dim=-1)
        h = torch.full_like(h, -math.inf).scatter(-1, index, values)
    if top_p is not None and top_p < 1:
        p, index = torch.softmax(h, dim=-1).sort(dim=-1, descending=True, stable=True)
        before = p.cumsum(-1) - p  # mass of the likelier tokens
        drop = before >= top_p - _ROUNDING
        drop[..., 0] = False
        h = h.masked_fill(torch.empty_like(drop).scatter(-1, index, drop), -math.inf)
    return h


def stream(
    model: MiniLLaMAForCausalLM,
    input_ids: Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_id: int | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[Tensor]:
    """`generate` step by step: yields the new tokens (B,) of each step as soon as they are drawn.

    The model is in eval mode until the last step, or until the iterator is closed.
    """
    _check_sampling(temperature, top_k, top_p)
    if type(max_new_tokens) is not int or max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be an integer >= 0, got {max_new_tokens!r}")
    vocab_size, max_seq_len = model.config.vocab_size, model.config.max_seq_len
    if eos_id is not None and (type(eos_id) is not int or not 0 <= eos_id < vocab_size):
        raise ValueError(f"eos_id must be None or an integer from 0 to {vocab_size - 1}, got {eos_id!r}")
    check_token_ids("input_ids", input_ids, vocab_size)
    batch, t = input_ids.shape
    total = t + max_new_tokens
    if total > max_seq_len:
        raise ValueError(
            f"T + max_new_tokens = {t} + {max_new_tokens} = {total} exceeds max_seq_len = {max_seq_len}"
        )

    def steps() -> Iterator[Tensor]:
        weight = model.token_embeddings.weight
        cache = KVCache(model.config, batch, total, weight.dtype, weight.device) if use_cache else None
        tokens = input_ids.new_empty(batch, total)  # one buffer: nothing grows with each step
        tokens[:, :t] = input_ids
        ended = torch.zeros(batch, dtype=torch.bool, device=input_ids.device)
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            for end in range(t, total):
                with torch.inference_mode():  # as no_grad, with less work around each operation
                    start = cache.length if cache is not None else 0
                    logits = model.next_token_logits(tokens[:, start:end], cache)  # (B, V)
                    if temperature == 0:
                        new = logits.argmax(-1)  # (B,)
                    else:
                        # The shift changes no probability and keeps a tiny temperature from overflowing.
                        logits = logits.float()
                        logits = logits - logits.amax(-1, keepdim=True)
                        p = torch.softmax(filter_logits(logits, temperature, top_k, top_p), dim=-1)
                        new = torch.multinomial(p, 1, generator=generator).squeeze(-1)  # (B,)
                    if eos_id is not None:
                        new = new.masked_fill(ended, eos_id)
                        ended |= new == eos_id
                    tokens[:, end] = new
                yield tokens[:, end]
                if eos_id is not None and ended.all():
                    return
        finally:
            for module, training in modes:
                module.training = training

    return steps()


def generate(
    model: MiniLLaMAForCausalLM,
    input_ids: Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_id: int | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Tensor:
    """Extend each row of `input_ids` by up to `max_new_tokens` tokens, each drawn from the model.

    Rows must have equal length: there is no padding, so no position can be shifted by it. For long texts,
    compile the step beforehand (half a minute):
    `model.next_token_logits = torch.compile(model.next_token_logits, dynamic=True)`.

    Args:
        model: its train/eval mode is put back at the end, even after an error.
        input_ids: (B, T) prompt.
        max_new_tokens: >= 0.
        temperature, top_k, top_p: see `filter_logits`; temperature 0 takes the most likely token.
        eos_id: token that ends a row; the row is then filled with it, and decoding stops when every row
            has ended.
        generator: source of randomness, on the model's device; None means torch's own.
        use_cache: False recomputes the whole prefix at each step: same tokens, for comparison.

    Returns:
        (B, T + new), the prompt included.

    Raises:
        ValueError: T + max_new_tokens > max_seq_len, or a sampling argument out of range.
    """
    new = stream(
        model,
        input_ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        eos_id=eos_id,
        generator=generator,
        use_cache=use_cache,
    )
    return torch.cat((input_ids, *(token.unsqueeze(1) for token in new)), dim=1)
