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

ALL = [rope.by_hand, rope.backward, rope.look_back, rope.new_base]
INPUTS = {"by_hand": 5, "backward": 4, "look_back": 4, "new_base": 5}


def turn(x, y, a):
    return x * math.cos(a) - y * math.sin(a), x * math.sin(a) + y * math.cos(a)


def by_complex(x, y, m, theta):
    z = complex(x, y) * cmath.exp(1j * m * theta)
    return [z.real, z.imag]


def spelled_out(grad_out, cos, sin):
    return grad_out * cos[:, None] - rotate_half(grad_out) * sin[:, None]


def pair_by_pair(grad_out, cos, sin):
    half = grad_out.shape[-1] // 2
    a, b = grad_out[..., :half], grad_out[..., half:]
    c, s = cos[:, None, :half], sin[:, None, :half]
    return torch.cat((a * c + b * s, b * c - a * s), dim=-1)


def rotated(k, positions, theta, function=apply_rotary_emb):
    cos, sin = precompute_freqs_cis(len(k), abs(positions) + 1, theta)
    return function(k.view(1, 1, 1, -1), cos[-1:], math.copysign(1, positions) * sin[-1:]).flatten()


def in_float32(k, distance, theta):
    half = len(k) // 2
    angle = -distance * theta ** (-torch.arange(half) / half)
    a, b = k[:half], k[half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()))


def base(theta, head_dim, factor):
    return theta * factor ** (head_dim / (head_dim - 2))


RIGHT = [
    (rope.by_hand, lambda x, y, m, theta: turn(x, y, m * theta)),
    (rope.by_hand, by_complex),
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


def overwritten(x, y, m, theta):
    x = x * math.cos(m * theta) - y * math.sin(m * theta)
    y = x * math.sin(m * theta) + y * math.cos(m * theta)
    return x, y


def by_autograd(grad_out, cos, sin):
    x = torch.zeros_like(grad_out, requires_grad=True)
    with torch.enable_grad():
        return torch.autograd.grad(apply_rotary_emb(x, cos, sin), x, grad_out)[0]


WRONG = [
    (rope.by_hand, lambda x, y, m, t: turn(x, y, -m * t), "This turns clockwise"),
    (rope.by_hand, overwritten, "computed from the new x"),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, m * t)[::-1], "swapped"),
    (
        rope.by_hand,
        lambda x, y, m, t: (turn(x, y, m * t)[0], y * math.cos(m * t) - x * math.sin(m * t)),
        "a sign too many",
    ),
    (
        rope.by_hand,
        lambda x, y, m, t: (x * math.cos(m * t) + y * math.sin(m * t), turn(x, y, m * t)[1]),
        "The first line needs a minus",
    ),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, t), "whatever the position"),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, math.radians(m * t)), "taken for degrees"),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, t**m), "not by θ to the power m"),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, (m + 1) * t), "Positions count from 0"),
    (rope.by_hand, lambda x, y, m, t: (x * math.cos(m * t), y * math.sin(m * t)), "needs both old ones"),
    (rope.by_hand, lambda x, y, m, t: complex(*turn(x, y, m * t)), "return the pair (z.real, z.imag)"),
    (rope.by_hand, lambda x, y, m, t: turn(x, y, m * t)[0], "Return a pair of two floats"),
    (rope.by_hand, lambda x, y, m, t: (x + m * t, y), "Let a = m·θ"),
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
    (rope.look_back, lambda k, d, t: rotated(k, d, t), "Turn k the other way"),
    (rope.look_back, lambda k, d, t: k, "This is k itself"),
    (rope.look_back, lambda k, d, t: -k, "This is −k"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, t, apply_rotary_emb_interleaved), "Right for pairs"),
    (rope.look_back, lambda k, d, t: rotated(k, 1 - d, t) if d > 1 else rotated(k, -d, t), "One token short"),
    (rope.look_back, lambda k, d, t: rotated(k, -1 - d, t), "One token too far"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, 10000.0), "do not take 10,000 for granted"),
    (rope.look_back, lambda k, d, t: 2 * rotated(k, -d, t), "Keep the length of k"),
    (rope.look_back, lambda k, d, t: k.flip(0), "which q as long as k points along that?"),
    (rope.look_back, lambda k, d, t: rotated(k, -d, t)[None], "one vector of the length of k"),
    (rope.look_back, lambda k, d, t: 1.0, "one vector of the length of k"),
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
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG
    printed = capsys.readouterr().out
    assert printed.startswith(f"Exercise {ALL.index(check) + 1}: wrong for")
    assert hint in " ".join(printed.partition("hint:")[2].split())
    assert max(map(len, printed.splitlines())) <= 60, "it would scroll on a phone"
    assert check(answer).message == result.message, "the report differs from run to run"


def test_backward_is_by_hand(capsys):
    assert rope.backward(by_autograd).status == checks.WRONG
    assert "this one is without autograd" in capsys.readouterr().out


def test_the_query_of_exercise_3_does_what_it_promises():
    """Its score, over all distances in a context, is largest at the one asked for."""
    k = torch.randn(64, generator=torch.Generator().manual_seed(1))
    q = rotated(k, -50, 10000.0)
    scores = torch.stack([rotated(q, m, 10000.0) for m in range(400)]) @ k
    assert scores.argmax() == 50
    torch.testing.assert_close(scores[50], k @ k)
