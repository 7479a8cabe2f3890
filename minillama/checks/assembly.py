"""Checkers of the exercises on the assembled model."""

import types

import torch
from torch.nn import functional as F

from minillama.accounting import count_parameters
from minillama.config import MiniLLaMAConfig
from minillama.layers import RMSNorm
from minillama.model import MiniLLaMAForCausalLM

from .machinery import Attempt, checker, close, show

HEAD_TWICE = "A tied head is the embedding: count that matrix once."
HEAD_MISSING = "This model's head is not tied: it has a matrix of its own, as large as the embedding."
FULL_KEYS = "wk and wv are narrower than wq: they serve n_kv_heads heads, not n_q_heads."
TWO_MATRICES = "A SwiGLU network has three matrices: gate, up and down."
ONE_NORM = "There are two norms in each layer."
NO_FINAL_NORM = "One norm is missing: the one above the last layer."
NO_NORMS = "The norms are missing: each has d_model gains."
ONE_LAYER = "Attention, feed-forward and two norms come once in every layer: multiply by n_layers."
NO_OUTPUT = "Attention has four matrices: wo, which leads back to d_model, is missing."
SQUARE = (
    "n_q_heads · head_dim need not equal d_model, and does not for this model: "
    "wq is (n_q_heads · head_dim, d_model)."
)
WITH_BIASES = "The projections have no biases."

OWN_NORMS = (
    "Each part was divided by its own root mean square. There is one norm, and it divides "
    "every part by the root mean square of their sum."
)
NO_GAIN = "The gain is missing: each channel is multiplied by it before the head."
NO_NORM = "The division by the root mean square is missing."
NO_EPS = "ε is missing: it joins the mean square before the root is taken."
SUMMED = "That is their sum, the logits. Return the parts one by one: (n, T, V)."
ONE_ROOT = "Each token has a root mean square of its own: keep T, and average over the last axis only."
OF_PARTS = (
    "The root mean square was taken over the squares of all parts, as if nothing canceled. "
    "Add the parts up first, then square."
)
MEAN_OF_PARTS = "The parts were averaged; the stream is their sum."
SUM_OF_SQUARES = "The norm divides by the root of the *mean* square over the C entries."

NOT_COPIED = (
    "Both makers build the same model, each with random weights of its own. "
    "Give the two the same weights before you compare them."
)
TOO_STRICT = (
    "This one adds in another order, or at other positions that are equally far apart: it differs by "
    "rounding only. Compare with a tolerance, such as 1e-4."
)
NOT_RUN = (
    "Names, shapes and number of parameters agree here, and so do the shapes of the logits. "
    "Compare the logits themselves, with the same weights in both."
)
FRESH_GAINS = (
    "A new norm's gains are all 1, and one such norm can stand in for another. "
    "Give every parameter random values first, the gains included."
)
ONE_TOKEN = (
    "A single token, or the same one throughout, does not show where it stands. "
    "Let the models read several different tokens, and keep the tolerance small."
)
TOO_LOOSE = (
    "This fault is small, and still far larger than rounding. Compare the logits themselves, "
    "with a tolerance that rounding needs and no more, such as 1e-4."
)
TWO_LAYERS = "Look at all logits, of all positions, and keep the tolerance small."


@checker("assembly.parameters", 1)
def parameters(attempt: Attempt) -> None:
    """`fn(vocab_size, d_model, n_layers, n_q_heads, n_kv_heads, head_dim, d_ffn, tied)`: how many."""
    names = ("vocab_size", "d_model", "n_layers", "n_q_heads", "n_kv_heads", "head_dim", "d_ffn", "tied")
    cases = [
        (101, 24, 5, 6, 2, 4, 37, True),
        (101, 24, 5, 6, 2, 4, 37, False),
        (4096, 512, 12, 8, 2, 64, 1408, True),
        (128_256, 4096, 32, 32, 8, 128, 14336, False),  # Llama 3 8B
        (103, 20, 3, 4, 2, 8, 41, True),  # H · D is not C
    ]
    for case in cases:
        got = attempt(**dict(zip(names, case, strict=True)))
        v, c, layers, h, g, d, wide, tied = case
        sizes = dict(
            vocab_size=v, d_model=c, n_layers=layers, n_q_heads=h, n_kv_heads=g, head_dim=d, d_ffn=wide
        )
        parts = count_parameters(MiniLLaMAConfig(**sizes, tie_word_embeddings=tied))
        expected, matrix = parts["total"], v * c
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float) or isinstance(got, bool):
            attempt.fail(show(expected), show(got), "Return one number.")
        each = 2 * c * d * (h + g) + 3 * c * wide + 2 * c  # a layer
        square = matrix * (1 if tied else 2) + c + layers * (2 * c * (c + g * d) + 3 * c * wide + 2 * c)
        half = 2 * c * c + 2 * c * g * c // h  # heads taken as C / H wide
        wrong = [
            (expected + matrix if tied else expected - matrix, HEAD_TWICE if tied else HEAD_MISSING),
            (expected + layers * 2 * c * d * (h - g), FULL_KEYS),
            (expected - layers * c * wide, TWO_MATRICES),
            (expected - layers * c, ONE_NORM),
            (expected - layers * c - c, ONE_NORM),
            (expected - c, NO_FINAL_NORM),
            (expected - parts["norms"], NO_NORMS),
            (expected - (layers - 1) * each, ONE_LAYER),
            (expected - layers * c * h * d, NO_OUTPUT),
            (square, SQUARE),
            (expected - parts["attention"] + layers * half, SQUARE),
            (expected + layers * ((2 * h + 2 * g) * d - h * d + c + 2 * wide + c), WITH_BIASES),
        ]
        hint = "List what one layer holds: four matrices, three matrices, two norms. Then the rest."
        attempt.match(got, expected, lambda a, b: a == b, wrong=wrong, hint=hint)


@checker("assembly.contributions", 2)
def contributions(attempt: Attempt) -> None:
    """`fn(parts, gain, eps, head)`: what each part (n, T, C) adds to the logits, (n, T, V)."""
    seeded = torch.Generator().manual_seed(0)
    for n, t, c, v, eps in [(3, 2, 4, 5, 0.5), (25, 3, 8, 6, 1e-6), (1, 1, 2, 3, 1e-5), (5, 4, 6, 6, 0.1)]:
        parts = torch.randn(n, t, c, generator=seeded)
        gain = 1 + 0.5 * torch.randn(c, generator=seeded)
        head = torch.randn(v, c, generator=seeded)
        got = attempt(parts=parts, gain=gain, eps=eps, head=head)
        x = parts.sum(0)

        def through(r, parts=parts, gain=gain, head=head):
            return parts / r * gain @ head.T

        def root(y, eps=eps):
            return (y.pow(2).mean(-1, keepdim=True) + eps).sqrt()

        expected = through(root(x))
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of shape (n, T, V).")
        wrong = [
            (through(root(parts)), OWN_NORMS),
            (parts / root(x) @ head.T, NO_GAIN),
            (parts * gain @ head.T, NO_NORM),
            (through(root(x, 0.0)), NO_EPS),
            (expected.sum(0), SUMMED),
            (through((x.pow(2).mean() + eps).sqrt()), ONE_ROOT),
            (through((parts.pow(2).sum(0).mean(-1, keepdim=True) + eps).sqrt()), OF_PARTS),
            (through(root(parts.mean(0))), MEAN_OF_PARTS),
            (through((x.pow(2).sum(-1, keepdim=True) + eps).sqrt()), SUM_OF_SQUARES),
        ]
        hint = (
            "The norm divides the whole stream, the sum of all parts, by one number per token. "
            "Divide each part by that number; gain and head are linear."
        )
        attempt.match(got, expected, lambda a, b: close(a, b, 1e-4), wrong=wrong, hint=hint)


SMALL = MiniLLaMAConfig(
    vocab_size=50,
    d_model=32,
    n_layers=2,
    n_q_heads=4,
    n_kv_heads=2,
    head_dim=8,
    d_ffn=48,
    max_seq_len=256,
)


def _block(arrange):
    def forward(self, x, cos, sin, kv_cache=None, layer=0):
        return arrange(self, x, lambda n: self.attn(n, cos, sin, kv_cache, layer))

    return forward


def _post_norm(b, x, attn):
    h = b.attn_norm(x + attn(x))
    return b.ffn_norm(h + b.ffn(h))


def _input_again(b, x, attn):
    return x + b.ffn(b.ffn_norm(x + attn(b.attn_norm(x))))


def _one_norm_twice(b, x, attn):
    h = x + attn(b.attn_norm(x))
    return h + b.ffn(b.attn_norm(h))


def _other_order(b, x, attn):
    added = attn(b.attn_norm(x))
    return x + (added + b.ffn(b.ffn_norm(x + added)))


def _maker(arrange=None, edit=None):
    """A function that builds a model, with new random weights each time, changed in one way."""

    def make():
        model = MiniLLaMAForCausalLM(SMALL).eval()
        with torch.no_grad():
            for p in model.parameters():
                if p.ndim == 2:  # larger than the package's, so that a fault shows in so small a model
                    p.normal_(std=0.2)
        if arrange is not None:
            for block in model.layers:
                block.forward = types.MethodType(_block(arrange), block)
        if edit is not None:
            edit(model)
        return model

    return make


def _unrotated(model):
    model.cos.fill_(1.0)
    model.sin.fill_(0.0)


def _larger_eps(model):
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.eps = 3e-4


def _shifted(model):
    model.cos, model.sin = model.cos[100:], model.sin[100:]


def _swapped(model):
    def forward(self, x):
        return self.w_down(F.silu(self.w_up(x)) * self.w_gate(x))

    for block in model.layers:
        block.ffn.forward = types.MethodType(forward, block.ffn)


@checker("assembly.same_model", 3)
def same_model(attempt: Attempt) -> None:
    """`fn(make_ours, make_theirs)`: whether both makers build the same model."""
    right = _maker()
    for make_ours, same, name, hint in [
        (_maker(), True, "the same model", NOT_COPIED),
        (_maker(_other_order), True, "the same model, added in another order", TOO_STRICT),
        (_maker(_post_norm), False, "post-norm", NOT_RUN),
        (_maker(_input_again), False, "the feed-forward output added to the block's input", NOT_RUN),
        (_maker(_one_norm_twice), False, "the first norm used twice", FRESH_GAINS),
        (_maker(edit=_swapped), False, "gate and up swapped", TWO_LAYERS),
        (_maker(edit=_unrotated), False, "nothing rotated", ONE_TOKEN),
        (_maker(edit=_larger_eps), False, "an ε of 3e-4 in the norms instead of 1e-6", TOO_LOOSE),
        (_maker(edit=_shifted), True, "all positions moved by 100", TOO_STRICT),
    ]:
        got = attempt(make_ours=make_ours, make_theirs=right)
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, bool):
            attempt.fail("True or False", show(got), "Return True when both build the same model, or False.")
        if got is not same:
            attempt.fail(f"{same} ({name})", str(got), hint)
