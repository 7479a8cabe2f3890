"""Cross-entropy from the logits, in float32."""

import torch
from torch import Tensor
from torch.nn import functional as F


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """x - log(sum(exp(x))) along `dim`, the maximum taken out first; float32 whatever `x` is."""
    h = x.float()
    return h - torch.logsumexp(h, dim, keepdim=True)


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Mean of -log p(target) over the targets that are not `ignore_index`, in nats.

    Args:
        logits: (..., V).
        targets: (...) integers in 0 .. V - 1, or `ignore_index`.

    Returns:
        0-d float32 tensor; 0, with zero gradients, when every target is ignored.

    Raises:
        TypeError: targets that are not integers.
        ValueError: shapes that do not fit, or a target outside 0 .. V - 1 (on CUDA left to the kernel).
    """
    if targets.dtype.is_floating_point or targets.dtype.is_complex or targets.dtype == torch.bool:
        raise TypeError(f"targets must be integer class ids, got dtype {targets.dtype}")
    if logits.ndim == 0 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must be (..., V) and targets (...): got {tuple(logits.shape)} and {tuple(targets.shape)}"
        )
    valid = targets != ignore_index
    if not targets.is_cuda and not torch.compiler.is_compiling() and valid.any():
        low, high = (int(bound) for bound in targets[valid].aminmax())
        if low < 0 or high >= logits.shape[-1]:
            raise ValueError(
                f"targets must be from 0 to V - 1 = {logits.shape[-1] - 1} or ignore_index ({ignore_index}), "
                f"got {low if low < 0 else high}"
            )
    # torch's kernel: the same -log p, with fewer passes over the logits than elementary operations take.
    nll = F.cross_entropy(
        logits.float().reshape(-1, logits.shape[-1]),
        targets.long().reshape(-1),
        ignore_index=ignore_index,
        reduction="sum",
    )
    return nll / valid.sum().clamp_min(1)
