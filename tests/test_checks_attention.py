"""Checkers of the attention chapter: stubs wait, right answers pass, each wrong one meets its hint."""

import math

import pytest
import torch

from minillama import causal_mask, checks
from minillama.checks import attention

ALL = [attention.softmax_backward, attention.window_mask, attention.padded_mask, attention.merge]
INPUTS = {"softmax_backward": 5, "window_mask": 6, "padded_mask": 4, "merge": 4}


# -- right answers ---------------------------------------------------------------------------------------


def backward(p, u):
    return p * (u - (p * u).sum(-1, keepdim=True))


def by_jacobian(p, u):
    jacobian = torch.diag_embed(p) - p[..., :, None] * p[..., None, :]
    return (jacobian @ u[..., None])[..., 0]


def back(q_len, kv_len):
    return torch.arange(kv_len - q_len, kv_len)[:, None] - torch.arange(kv_len)


def window(q_len, kv_len, size):
    return (back(q_len, kv_len) >= 0) & (back(q_len, kv_len) < size)


def by_triangles(q_len, kv_len, size):
    seen = causal_mask(q_len, kv_len)
    return seen & ~torch.ones_like(seen).tril(kv_len - q_len - size)


def real(lengths, t):
    return torch.arange(t) >= t - lengths[:, None]


def padded(lengths, t):
    return causal_mask(t, t) & real(lengths, t)[:, None, None, :]


def by_loop(lengths, t):
    mask = torch.zeros(len(lengths), 1, t, t, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        for i in range(t):
            for j in range(t - length, i + 1):
                mask[b, 0, i, j] = True
    return mask


def merge(m1, l1, o1, m2, l2, o2):
    m = torch.maximum(m1, m2)
    a, b = l1 * (m1 - m).exp(), l2 * (m2 - m).exp()
    return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None]


def by_logsumexp(m1, l1, o1, m2, l2, o2):
    share = torch.sigmoid(m1 + l1.log() - m2 - l2.log())[:, None]
    return share * o1 + (1 - share) * o2


RIGHT = [
    (attention.softmax_backward, backward),
    (attention.softmax_backward, by_jacobian),
    (attention.window_mask, window),
    (attention.window_mask, by_triangles),
    (attention.padded_mask, padded),
    (attention.padded_mask, by_loop),
    (attention.padded_mask, lambda n, t: padded(n, t) & real(n, t)[:, None, :, None]),  # empty anyhow
    (attention.merge, merge),
    (attention.merge, by_logsumexp),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED
    number = ALL.index(check) + 1
    assert capsys.readouterr().out == f"Exercise {number}: right on all {INPUTS[check.__name__]} inputs.\n"
    assert result.name == f"attention.{check.__name__}"


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, is_not_attempted):
    is_not_attempted(check, ALL.index(check) + 1, stub)


def test_the_exercise_by_hand_refuses_autograd():
    def taught(p, u):
        s = p.log().requires_grad_()
        return torch.autograd.grad(s.softmax(-1), s, u)[0]

    assert "without autograd" in attention.softmax_backward(taught).message


# -- wrong answers ---------------------------------------------------------------------------------------


def distance_of(q_len, kv_len):  # as if the queries came first
    return torch.arange(q_len)[:, None] - torch.arange(kv_len)


def additive(mask):
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


def mixed(weights):
    """A wrong merge: the blocks weighed by `weights(m1, l1, m2, l2)`."""

    def answer(m1, l1, o1, m2, l2, o2):
        a, b = weights(m1, l1, m2, l2)
        return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None]

    return answer


BACKWARD, WINDOW, PADDED, MERGE = ALL
WRONG = [
    (BACKWARD, lambda p, u: p * u, "The mean of the gradient, weighted by p"),
    (BACKWARD, lambda p, u: p * (1 - p) * u, "Only the diagonal of the Jacobian"),
    (BACKWARD, lambda p, u: p * (u - u.mean(-1, keepdim=True)), "not the plain mean"),
    (BACKWARD, lambda p, u: p * (u - (p * u).mean(-1, keepdim=True)), "divided by the number of keys"),
    (BACKWARD, lambda p, u: p * (u - (p * u).sum()), "over the whole tensor"),
    (BACKWARD, lambda p, u: u - (p * u).sum(-1, keepdim=True), "The factor p in front is missing"),
    (BACKWARD, lambda p, u: p * (u + (p * u).sum(-1, keepdim=True)), "The sign is wrong"),
    (BACKWARD, lambda p, u: -backward(p, u), "The sign is wrong"),
    (BACKWARD, lambda p, u: backward(p.softmax(-1), u), "no softmax is taken here"),
    (BACKWARD, lambda p, u: p * (u - (p * u).sum(-1)), "Keep it: sum(-1, keepdim=True)"),
    (BACKWARD, lambda p, u: p * (u - u.sum(-1, keepdim=True)), "not the plain sum"),
    (BACKWARD, lambda p, u: u * (1 - p), "Row i of the Jacobian"),
    (BACKWARD, lambda p, u: backward(p, u).sum(-1), "The shape must be that of p"),
    (BACKWARD, lambda p, u: by_jacobian(p, u)[..., None], "The shape must be that of p"),
    (BACKWARD, lambda p, u: 1.0, "Return a tensor"),
    (WINDOW, lambda q, k, w: ~window(q, k, w), "True and False are swapped"),
    (
        WINDOW,
        lambda q, k, w: (distance_of(q, k) >= 0) & (distance_of(q, k) < w),
        "The queries are the last ones",
    ),
    (
        WINDOW,
        lambda q, k, w: ~((distance_of(q, k) >= 0) & (distance_of(q, k) < w)),
        "swapped. In this book True means: may attend. The queries are the last",
    ),
    (WINDOW, lambda q, k, w: causal_mask(q, k).triu(1 - w), "the window's other edge"),
    (WINDOW, lambda q, k, w: causal_mask(q, k), "the window is missing"),
    (WINDOW, lambda q, k, w: back(q, k) < w, "The window reaches into the future"),
    (WINDOW, lambda q, k, w: back(q, k).abs() < w, "The window reaches into the future"),
    (WINDOW, lambda q, k, w: window(q, k, w + 1), "One key too many"),
    (WINDOW, lambda q, k, w: window(q, k, w - 1), "One key too few"),
    (WINDOW, lambda q, k, w: (back(q, k) > 0) & (back(q, k) <= w), "The query must see itself"),
    (WINDOW, lambda q, k, w: window(q, k, w).T, "a row for each query"),
    (WINDOW, lambda q, k, w: window(q, k, w).float(), "Return a bool tensor"),
    (WINDOW, lambda q, k, w: additive(window(q, k, w)), "a mask to be added to the scores"),
    (WINDOW, lambda q, k, w: window(q, k, w).tolist(), "Return a tensor"),
    (PADDED, lambda n, t: ~padded(n, t), "True and False are swapped"),
    (PADDED, lambda n, t: causal_mask(t, t).expand(len(n), 1, t, t), "keys on padding must be hidden too"),
    (
        PADDED,
        lambda n, t: causal_mask(t, t) & (torch.arange(t) < n[:, None])[:, None, None, :],
        "Padding stands on the left",
    ),
    (PADDED, lambda n, t: padded(t - n, t), "counts the real tokens"),
    (PADDED, lambda n, t: real(n, t)[:, None, None, :].expand(-1, -1, t, -1), "the future is not"),
    (PADDED, lambda n, t: causal_mask(t, t) & real(n, t)[:, None, :, None], "Hide keys: the last axis"),
    (PADDED, lambda n, t: causal_mask(t, t) & ~real(n, t)[:, None, None, :], "the real ones hidden"),
    (PADDED, lambda n, t: causal_mask(t, t).T & real(n, t)[:, None, None, :], "upside down"),
    (PADDED, lambda n, t: padded(n, t)[:, 0], "The shape must be (B, 1, T, T)"),
    (PADDED, lambda n, t: causal_mask(t, t), "The shape must be (B, 1, T, T)"),
    (PADDED, lambda n, t: padded(n, t).int(), "Return a bool tensor"),
    (PADDED, lambda n, t: additive(padded(n, t)), "a mask to be added to the scores"),
    (MERGE, lambda m1, l1, o1, m2, l2, o2: (o1 + o2) / 2, "The two outputs were averaged"),
    (MERGE, lambda m1, l1, o1, m2, l2, o2: o1 + o2, "The two outputs were averaged"),
    (MERGE, mixed(lambda m1, l1, m2, l2: (l1, l2)), "belong to different maxima"),
    (MERGE, mixed(lambda m1, l1, m2, l2: (m1.exp(), m2.exp())), "The sums l1 and l2 are missing"),
    (MERGE, mixed(lambda m1, l1, m2, l2: (l2 * m2.exp(), l1 * m1.exp())), "are swapped"),
    (MERGE, mixed(lambda m1, l1, m2, l2: (l1 / m1.exp(), l2 / m2.exp())), "The exponent has the wrong sign"),
    (MERGE, mixed(lambda m1, l1, m2, l2: (l1 * m1.exp(), l2 * m2.exp())), "Subtract the larger"),
    (
        MERGE,
        lambda m1, l1, o1, m2, l2, o2: (
            (l1 * (m1 - torch.maximum(m1, m2)).exp())[:, None] * o1
            + (l2 * (m2 - torch.maximum(m1, m2)).exp())[:, None] * o2
        ),
        "Divide by the common sum",
    ),
    (
        MERGE,
        lambda m1, l1, o1, m2, l2, o2: torch.where((m1 > m2)[:, None], o1, o2),
        "The half with the smaller maximum",
    ),
    (MERGE, lambda *a: merge(*a).sum(-1), "of the shape of o1"),
    (MERGE, lambda *a: merge(*a) + 1, "block 1 holds l1"),
    (MERGE, lambda *a: (merge(*a), a[0]), "Return one tensor"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=ALL.index(check) + 1)
