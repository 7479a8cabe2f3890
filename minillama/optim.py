"""From gradients to new weights: two optimizers, the learning-rate schedule, clipping, decay groups."""

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def _require_number(name: str, value: float, low: float, high: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < high:
        limit = "finite" if high == math.inf else f"below {high}"
        raise ValueError(f"{name} must be a number >= {low} and {limit}, got {value!r}")


class SGDDecay(Optimizer):
    """Gradient descent whose rate falls with the square root of the step: p -= lr / √(t + 1) · g.

    t counts a parameter's steps from 0. The schedule is the classic one for stochastic gradients
    (Robbins and Monro 1951 ask for rates whose sum diverges; lr/√t is the usual choice).

    Raises:
        ValueError: a negative or non-finite `lr`.
    """

    def __init__(self, params, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})
        for group in self.param_groups:  # a group may bring its own
            _require_number("lr", group["lr"], 0)

    @torch.no_grad()
    def step(self, closure=None):
        """Update every parameter that has a gradient; returns what `closure` (which may be None) returns."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                t = self.state[p].get("t", 0)
                p.add_(p.grad, alpha=-group["lr"] / math.sqrt(t + 1))
                self.state[p]["t"] = t + 1
        return loss


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019,
    arXiv:1711.05101, algorithm 2), equal to `torch.optim.AdamW`.

    Per parameter, with the gradient g at step t = 1, 2, …:

        p -= lr · weight_decay · p                          decay, outside the moments
        m  = β1 m + (1 - β1) g                              mean of the gradient
        v  = β2 v + (1 - β2) g²                             mean of its square
        p -= lr · m / (1 - β1^t) / (√(v / (1 - β2^t)) + eps)

    State per parameter: `t`, an integer, and `m` and `v`, of the parameter's shape and dtype.

    Args:
        params: tensors, or groups {"params": tensors, "lr": …, "weight_decay": …} as from `decay_groups`.
        lr: learning rate; a schedule writes it into `param_groups`.
        betas: how much of the old means is kept.
        eps: keeps the quotient finite.
        weight_decay: share of the weight that is taken off per unit of lr.

    Raises:
        ValueError: a negative or non-finite setting, a beta outside [0, 1).
    """

    def __init__(
        self,
        params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        for group in self.param_groups:  # a group may bring its own
            for name in ("lr", "eps", "weight_decay"):
                _require_number(name, group[name], 0)
            if len(group["betas"]) != 2:
                raise ValueError(f"betas must be a pair, got {group['betas']!r}")
            for beta in group["betas"]:
                _require_number("betas", beta, 0, 1)

    @torch.no_grad()
    def step(self, closure=None):
        """Update every parameter that has a gradient; returns what `closure` (which may be None) returns."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["t"] += 1
                t, m, v = state["t"], state["m"], state["v"]
                p.mul_(1 - lr * group["weight_decay"])
                m.lerp_(p.grad, 1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                # Both means start at 0 and are too small by the factor 1 - β^t (section 3 of the paper).
                root = (v.sqrt() / math.sqrt(1 - beta2**t)).add_(group["eps"])
                p.addcdiv_(m, root, value=-lr / (1 - beta1**t))
        return loss


def _evaluate(closure):
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def cos_lr_scheduler(it: int, lr_max: float, lr_min: float, warmup_iters: int, cos_cycle_iters: int) -> float:
    """The learning rate at iteration `it`: a linear rise, half a cosine, a floor.

        it <  warmup_iters       lr_max · it / warmup_iters, so 0 at 0: train with it = step + 1
        it <= cos_cycle_iters    lr_min + (lr_max - lr_min) · (1 + cos(π · progress)) / 2
        beyond                   lr_min

    `progress` runs from 0 at warmup_iters to 1 at cos_cycle_iters (Loshchilov and Hutter 2017,
    arXiv:1608.03983, one cycle).

    Raises:
        ValueError: a negative or non-integer iteration, cos_cycle_iters < warmup_iters, a negative rate,
            lr_min > lr_max.
    """
    for name, value in (("it", it), ("warmup_iters", warmup_iters), ("cos_cycle_iters", cos_cycle_iters)):
        if type(value) is not int or value < 0:
            raise ValueError(f"{name} must be an integer >= 0, got {value!r}")
    if cos_cycle_iters < warmup_iters:
        raise ValueError(f"cos_cycle_iters must be >= warmup_iters = {warmup_iters}, got {cos_cycle_iters}")
    _require_number("lr_max", lr_max, 0)
    _require_number("lr_min", lr_min, 0)
    if lr_min > lr_max:
        raise ValueError(f"lr_min must be <= lr_max = {lr_max}, got {lr_min}")
    if it < warmup_iters:
        return lr_max * it / warmup_iters
    if it > cos_cycle_iters:
        return lr_min
    progress = (it - warmup_iters) / max(1, cos_cycle_iters - warmup_iters)
    return lr_min + (lr_max - lr_min) * (1 + math.cos(math.pi * progress)) / 2


class NonFiniteGradient(RuntimeError):
    """The norm of the gradients is infinite or NaN; `gradient_clip` raises it and changes nothing."""


@torch.no_grad()
def gradient_clip(params, max_norm: float) -> Tensor:
    """Scale all gradients by one factor so that their global norm is at most `max_norm`, in place.

    The norm is that of all gradients as one vector (Pascanu et al. 2013, arXiv:1211.5063); a parameter
    that occurs twice counts once, and gradients sharded over several devices count whole.

    Returns:
        The norm before scaling, a 0-d tensor; 0 when nothing has a gradient.

    Raises:
        ValueError: `max_norm` not > 0.
        NonFiniteGradient: the norm is not finite. Gradients and weights are left as they are: skip the step,
            or find out why.
    """
    if isinstance(max_norm, bool) or not isinstance(max_norm, int | float) or not max_norm > 0:
        raise ValueError(f"max_norm must be a number > 0, got {max_norm!r}")
    params = [params] if isinstance(params, Tensor) else params
    grads = list({id(p): p.grad for p in params if p.grad is not None}.values())
    if not grads:
        return torch.tensor(0.0)
    # In float32 at least: a square of 256 overflows float16.
    wide = [torch.promote_types(g.dtype, torch.float32) for g in grads]
    norms = [torch.linalg.vector_norm(g, dtype=d) for g, d in zip(grads, wide, strict=True)]
    # A sharded gradient's norm is known in parts; full_tensor adds up those of all ranks.
    norms = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    norm = torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]))
    if not torch.isfinite(norm):
        bad = [tuple(g.shape) for g, n in zip(grads, norms, strict=True) if not torch.isfinite(n)]
        where = f"in gradients of shape {', '.join(map(str, bad[:3]))}" if bad else "in their sum"
        raise NonFiniteGradient(f"the gradient norm is {norm.item()} ({where}); nothing was changed")
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm.item())
    return norm


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two parameter groups for `AdamW`: matrices decay; vectors (norm gains) and embeddings do not.

    A head tied to the embedding is the embedding: it does not decay, and stands in one group only.

    Raises:
        ValueError: a negative or non-finite `weight_decay`.
    """
    _require_number("weight_decay", weight_decay, 0)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    params = [p for p in model.parameters() if p.requires_grad]  # a shared parameter comes once
    decayed = [p for p in params if p.ndim >= 2 and id(p) not in embeddings]
    kept = [p for p in params if p.ndim < 2 or id(p) in embeddings]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
