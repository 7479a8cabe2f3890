"""What a configuration costs: parameters, cache bytes, FLOPs, training memory. Exact counts, no estimates."""

from .config import MiniLLaMAConfig, require_int


def count_parameters(config: MiniLLaMAConfig) -> dict[str, int]:
    """Parameters by component; a tied head counts once, as the embedding.

    Returns:
        {"token_embeddings", "attention", "feed_forward", "norms", "lm_head", "total"}; attention,
        feed_forward and norms summed over all layers, the final norm among the norms.
    """
    c, d, layers = config.d_model, config.head_dim, config.n_layers
    parts = {
        "token_embeddings": config.vocab_size * c,
        "attention": layers * 2 * c * d * (config.n_q_heads + config.n_kv_heads),  # wq, wo and wk, wv
        "feed_forward": layers * 3 * c * config.d_ffn,
        "norms": (2 * layers + 1) * c,
        "lm_head": 0 if config.tie_word_embeddings else config.vocab_size * c,
    }
    return parts | {"total": sum(parts.values())}


def kv_cache_bytes(
    config: MiniLLaMAConfig, batch_size: int = 1, seq_len: int | None = None, bytes_per_value: int = 4
) -> int:
    """Bytes of a KV cache: 2 (keys, values) · L · B · G · seq_len · D values.

    Raises:
        ValueError: a size that is no integer >= 0 (`bytes_per_value` >= 1).
    """
    seq_len = config.max_seq_len if seq_len is None else seq_len
    require_int("batch_size", batch_size, 0)
    require_int("seq_len", seq_len, 0)
    require_int("bytes_per_value", bytes_per_value)
    values = 2 * config.n_layers * batch_size * config.n_kv_heads * seq_len * config.head_dim
    return values * bytes_per_value


def flops_per_token(config: MiniLLaMAConfig, seq_len: int | None = None) -> float:
    """Forward FLOPs per token, a multiply-add being 2; training takes 3 times as many.

    Counts every projection, the head (tied or not), and the scores and the mixture of attention: in a causal
    sequence of `seq_len` a query sees (seq_len + 1) / 2 keys on average. Norms, activations and
    softmax are left out.

    Raises:
        ValueError: `seq_len` < 1.
    """
    seq_len = config.max_seq_len if seq_len is None else seq_len
    require_int("seq_len", seq_len)
    parts = count_parameters(config)
    matrices = parts["attention"] + parts["feed_forward"] + config.vocab_size * config.d_model
    mean_keys = (seq_len + 1) / 2
    per_key = 2 * config.n_q_heads * config.head_dim  # one multiply-add for the score, one for the mixture
    return 2 * (matrices + config.n_layers * mean_keys * per_key)


def training_bytes(
    config: MiniLLaMAConfig,
    *,
    weight_bytes: int = 4,
    gradient_bytes: int = 4,
    optimizer_bytes: int = 8,
    n_shards: int = 1,
) -> dict[str, float]:
    """Bytes each device holds to train, activations apart: weights, gradients and optimizer state.

    Args:
        weight_bytes, gradient_bytes: per parameter; 4 in float32.
        optimizer_bytes: per parameter; 8 for AdamW's two float32 moments, 12 with a float32 master copy.
        n_shards: devices that share all three evenly (fully sharded data parallel).

    Returns:
        {"weights", "gradients", "optimizer", "total"} per device.

    Raises:
        ValueError: a size that is no integer >= 0 (`n_shards` >= 1).
    """
    require_int("weight_bytes", weight_bytes)
    require_int("gradient_bytes", gradient_bytes, 0)
    require_int("optimizer_bytes", optimizer_bytes, 0)
    require_int("n_shards", n_shards)
    n = count_parameters(config)["total"]
    parts = {
        "weights": n * weight_bytes / n_shards,
        "gradients": n * gradient_bytes / n_shards,
        "optimizer": n * optimizer_bytes / n_shards,
    }
    return parts | {"total": sum(parts.values())}
