"""MiniLLaMA: a LLaMA-style transformer to read, train and load real weights into.

The modules follow the chapters of the book: config, layers, rope, feed_forward, attention, cache, loss,
model, optim, tokenizer, data, generation, checkpoint, train, accounting; scratch is all of them in one file.
`python -m minillama` is the command line. `minillama.viz` and `minillama.checks` serve the notebooks.
"""

from . import accounting, checkpoint, data, optim, tokenizer
from .attention import Attention, causal_mask, repeat_kv, scaled_dot_product_attention, softmax
from .cache import KVCache
from .config import MiniLLaMAConfig, RopeScaling
from .feed_forward import SwiGLUFeedForward, silu, silu_derivative
from .generation import filter_logits, generate
from .layers import RMSNorm, rms_norm
from .loss import cross_entropy
from .model import MiniLLaMAForCausalLM, TransformerBlock
from .rope import (
    apply_rotary_emb,
    apply_rotary_emb_interleaved,
    half_to_interleaved,
    interleaved_to_half,
    precompute_freqs_cis,
    rotate_half,
)

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "KVCache",
    "MiniLLaMAConfig",
    "MiniLLaMAForCausalLM",
    "RMSNorm",
    "RopeScaling",
    "SwiGLUFeedForward",
    "TransformerBlock",
    "accounting",
    "apply_rotary_emb",
    "apply_rotary_emb_interleaved",
    "causal_mask",
    "checkpoint",
    "cross_entropy",
    "data",
    "filter_logits",
    "generate",
    "half_to_interleaved",
    "interleaved_to_half",
    "optim",
    "precompute_freqs_cis",
    "repeat_kv",
    "rms_norm",
    "rotate_half",
    "scaled_dot_product_attention",
    "silu",
    "silu_derivative",
    "softmax",
    "tokenizer",
]
