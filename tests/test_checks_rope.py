"""The checkers of chapter 2: the stub waits, right answers pass, each wrong one meets its hint."""

import cmath
import math

import pytest
import torch

from minillama import (
    apply_rotary_emb,
    apply_rotary_emb_interleaved,
    checks,
    precompute_freqs_cis,
    rotate_half,
)
from minillama.checks import rope

ALL = [rope.score, rope.backward, rope.look_back, rope.new_base]
INPUTS = {"score": 4, "backward": 4, "look_back": 4, "new_base": 5}


def by_complex(q, k, m, n, theta, rate=lambda i, d: -2 * i / d, conjugate=1):
    half, total = len(q) // 2, 0
    for i in range(half):
        z, w = complex(q[i], q[i + half]), complex(k[i], k[i + half])
        turn = conjugate * 1j * theta ** rate(i, len(q))
        total += (z * cmath.exp(m * turn) * (w * cmath.exp(n * turn)).conjugate()).real
    return total


def by_package(q, k, m, n, theta, function=apply_rotary_emb):
    cos, sin = precompute_freqs_cis(len(q), max(m, n) + 1, theta)
    q, k = torch.tensor(q).view(1, 1, 1, -1), torch.tensor(k).view(1, 1, 1, -1)
    q, k = function(q, cos[m : m + 1], sin[m : m + 1]), function(k, cos[n : n + 1], sin[n : n + 1])
    return (q * k).sum()


def without_sine(q, k, m, n, theta):
    return (by_complex(q, k, m, n, theta) + by_complex(q, k, n, m, theta)) / 2


def spelled_out(grad_out, cos, sin):
    return grad_out * cos[:, None] - rotate_half(grad_out) * sin[:, None]


def pair_by_pair(grad_out, cos, sin):
    half = grad_out.shape[-1] // 2
    a, b = grad_out[..., :half], grad_out[..., half:]
    c, s = cos[:, None, :half], sin[:, None, :half]
    return torch.cat((a * c + b * s, b * c - a * s), dim=-1)


def rotated(w, positions, theta, function=apply_rotary_emb):
    cos, sin = precompute_freqs_cis(len(w), abs(positions) + 1, theta)
    return function(w.T[:, None, None], cos[-1:], math.copysign(1, positions) * sin[-1:]).flatten(1).T


def in_float32(wk, distance, theta):
    half = len(wk) // 2
    angle = (-distance * theta ** (-torch.arange(half) / half))[:, None]
    a, b = wk[:half], wk[half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()))


def base(theta, head_dim, factor):
    return theta * factor ** (head_dim / (head_dim - 2))


RIGHT = [
    (rope.score, by_complex),
    (rope.score, by_package),
    (rope.score, lambda q, k, m, n, theta: by_complex(q, k, m - n, 0, theta)),
    (rope.backward, spelled_out),
    (rope.backward, pair_by_pair),
    (rope.backward, lambda g, c, s: apply_rotary_emb(g, c, -s)),
    (rope.look_back, lambda k, d, theta: rotated(k, -d, theta)),
    (rope.look_back, in_float32),
    (rope.look_back, lambda k, d, theta: rotated(k, -d, theta).double()),
    (rope.new_base, base),
    (rope.new_base, lambda *a: torch.tensor(base(*a))),
    (rope.new_base, lambda theta, d, f: (theta ** ((d - 2) / d) * f) ** (d / (d - 2))),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result.status == checks.PASSED, result.message
    number, name = ALL.index(check) + 1, check.__name__
    assert capsys.readouterr().out == f"Exercise {number}: right on all {INPUTS[name]} inputs.\n"
    assert result.name == f"rope.{name}"


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_waits(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {ALL.index(check) + 1}: not attempted yet.\n"


def by_autograd(grad_out, cos, sin):
    x = torch.zeros_like(grad_out, requires_grad=True)
    with torch.enable_grad():
        return torch.autograd.grad(apply_rotary_emb(x, cos, sin), x, grad_out)[0]


WRONG = [
    (rope.score, lambda q, k, m, n, t: by_complex(q, k, m, n, t, conjugate=-1), "turned around"),
    (rope.score, lambda q, k, m, n, t: sum(x * y for x, y in zip(q, k, strict=True)), "without any rotation"),
    (rope.score, lambda q, k, m, n, t: by_complex(q, k, m, 0, t), "Only q was turned"),
    (rope.score, lambda q, k, m, n, t: by_complex(q, k, 0, n, t), "Only k was turned"),
    (rope.score, lambda q, k, m, n, t: by_complex(q, k, m, -n, t), "The two turns were added"),
    (rope.score, lambda *a: by_package(*a, apply_rotary_emb_interleaved), "Right for pairs (0, 1)"),
    (rope.score, lambda *a: by_complex(*a, rate=lambda i, d: -i / d), "with a 2"),
    (rope.score, lambda *a: by_complex(*a, rate=lambda i, d: -2 * (i + 1) / d), "Planes count from 0"),
    (rope.score, lambda *a: by_complex(*a, rate=lambda i, d: 2 * i / d), "lost its minus"),
    (rope.score, lambda *a: by_complex(*a, rate=lambda i, d: 0), "Every plane turned by 1"),
    (
        rope.score,
        lambda q, k, m, n, t: by_complex(q, k, math.radians(m), math.radians(n), t),
        "taken for degrees",
    ),
    (rope.score, lambda q, *a: by_complex(q, *a) / math.sqrt(len(q)), "divided by √D"),
    (rope.score, lambda q, k, m, n, t: by_complex(q, k, m, n, 10000.0), "do not take 10,000 for granted"),
    (rope.score, without_sine, "The part with the sine is missing"),
    (rope.score, lambda q, k, m, n, t: m - n, "multiply, add up"),
    (rope.score, lambda q, k, m, n, t: q, "Return one number"),
    (rope.backward, lambda g, c, s: apply_rotary_emb(g, c, s), "The gradient of a rotation turns back"),
    (rope.backward, lambda g, c, s: g * c - rotate_half(g) * s, "Give them a head axis"),
    (rope.backward, lambda g, c, s: g, "came back as it was"),
    (rope.backward, lambda g, c, s: apply_rotary_emb(g, -c, s), "Change it at sin"),
    (rope.backward, lambda g, c, s: apply_rotary_emb_interleaved(g, c, -s), "This turns neighbors"),
    (rope.backward, lambda g, c, s: apply_rotary_emb(g, s, -c), "changed places"),
    (rope.backward, lambda g, c, s: g * c[:, None], "the part with sin"),
    (rope.backward, lambda g, c, s: g * s[:, None], "the gradient by x is Rᵀ grad_out"),
    (rope.backward, lambda g, c, s: spelled_out(g, c, s).sum(2), "has the shape of x"),
    (rope.backward, lambda g, c, s: (g, g), "Return one tensor"),
    (rope.look_back, lambda k, d, t: rotated(k, d, t), "Turn the other way"),
    (rope.look_back, lambda k, d, t: k, "This is wk itself"),
    (rope.look_back, lambda k, d, t: -k, "This is −wk"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, t, apply_rotary_emb_interleaved), "Right for pairs"),
    (rope.look_back, lambda k, d, t: rotated(k, 1 - d, t) if d > 1 else rotated(k, -d, t), "One token short"),
    (rope.look_back, lambda k, d, t: rotated(k, -1 - d, t), "One token too far"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, 10000.0), "do not take 10,000 for granted"),
    (
        rope.look_back,
        lambda k, d, t: rotated(k.T, -d, t).T if len(k) == k.shape[1] else rotated(k, -d, t),
        "The rows were turned",
    ),
    (rope.look_back, lambda k, d, t: 2 * rotated(k, -d, t), "which q as long as k points along that?"),
    (rope.look_back, lambda k, d, t: k.flip(0), "which q as long as k points along that?"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, t)[None], "of the shape of wk, (D, C)"),
    (rope.look_back, lambda k, d, t: 1.0, "of the shape of wk, (D, C)"),
    (rope.new_base, lambda t, d, f: t * f, "Not enough"),
    (rope.new_base, lambda t, d, f: t * f ** ((d - 2) / d), "upside down"),
    (rope.new_base, lambda t, d, f: t * f ** (d / 2), "Planes count in pairs"),
    (rope.new_base, lambda t, d, f: t * f ** (d / (d - 1)), "The slowest plane has i = D/2 − 1"),
    (rope.new_base, lambda t, d, f: t / f ** (d / (d - 2)), "A larger base turns them slower"),
    (rope.new_base, lambda t, d, f: t / f, "A larger base turns them slower"),
    (rope.new_base, lambda t, d, f: f ** (d / (d - 2)), "multiply by the old one"),
    (rope.new_base, lambda t, d, f: t, "This is the old base"),
    (rope.new_base, lambda t, d, f: t + f, "Solve θ'^"),
    (rope.new_base, lambda t, d, f: [t], "Return one number"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=ALL.index(check) + 1)


def test_backward_is_by_hand(capsys):
    assert rope.backward(by_autograd).status == checks.WRONG
    assert "this one is without autograd" in capsys.readouterr().out


def test_the_matrix_of_exercise_3_does_what_it_promises():
    """Of all distances, the score of a token with itself is largest at the one asked for."""
    wk = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    wq, x = rotated(wk, -50, 10000.0), torch.randn(16, generator=torch.Generator().manual_seed(2))
    q, k = wq @ x, wk @ x
    scores = torch.stack([rotated(q[:, None], m, 10000.0)[:, 0] for m in range(400)]) @ k
    assert scores.argmax() == 50
    torch.testing.assert_close(scores[50], k @ k)
