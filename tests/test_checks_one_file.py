"""Checkers of chapter 9: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch

from minillama import checks, half_to_interleaved, interleaved_to_half, scratch
from minillama.checks import one_file

ALL = [one_file.grouped_scores, one_file.slide, one_file.to_core, one_file.other_order]


def scores(q, k):
    return torch.einsum("btgrd,bsgd->bgrts", q, k)


def scores_by_product(q, k):
    return q.permute(0, 2, 3, 1, 4) @ k.permute(0, 2, 3, 1)[:, :, None]


def scores_by_repeating(q, k):
    rows = q.flatten(2, 3).transpose(1, 2)
    keys = k.repeat_interleave(q.shape[3], 2).transpose(1, 2)
    return (rows @ keys.mT).unflatten(1, q.shape[2:4])


def slide(model, token_ids, n_new, context_length):
    for _ in range(n_new):
        logits = model(token_ids[:, -context_length:])
        token_ids = torch.cat((token_ids, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return token_ids


def slide_by_list(model, token_ids, n_new, context_length):
    text = token_ids[0].tolist()
    for _ in range(n_new):
        window = torch.tensor([text[-context_length:]])
        text.append(int(model(window, torch.arange(window.shape[1]))[0, -1].argmax()))
    return torch.tensor([text])


def sliding(window=None, place=None, row=-1, pick=torch.argmax, more=0):
    """`slide` with one thing done otherwise."""

    def fn(model, token_ids, n_new, context_length):
        for _ in range(n_new + more):
            part = (window or (lambda ids, c: ids[:, -c:]))(token_ids, context_length)
            begin = token_ids.shape[1] - part.shape[1]
            at = place(torch.arange(begin, begin + part.shape[1]), context_length) if place else None
            new = pick(model(part, at)[:, row], -1)
            token_ids = torch.cat((token_ids, new[:, None]), 1)
        return token_ids

    return fn


def to_core(block, num_heads, regroup=interleaved_to_half, order=(0, 1, 2), turn_v=None, gate="w1", up="w3"):
    rows = block["mult_head_atten.w_qkv.w"].chunk(3)
    q, k, v = (rows[i] for i in order)
    return {
        "attn_norm.weight": block["rms_norm1.g"],
        "attn.wq.weight": regroup(q, num_heads),
        "attn.wk.weight": regroup(k, num_heads),
        "attn.wv.weight": turn_v(v, num_heads) if turn_v else v,
        "attn.wo.weight": block["mult_head_atten.w_out.w"],
        "ffn_norm.weight": block["rms_norm2.g"],
        "ffn.w_gate.weight": block[f"ffe.{gate}.w"],
        "ffn.w_up.weight": block[f"ffe.{up}.w"],
        "ffn.w_down.weight": block["ffe.w2.w"],
    }


def by_rows(block, num_heads):
    """The permutation spelled out: even rows of a head first, then the odd ones."""
    size = block["rms_norm1.g"].numel() // num_heads
    head = [*range(0, size, 2), *range(1, size, 2)]
    at = [size * h + i for h in range(num_heads) for i in head]
    return to_core(block, num_heads, regroup=lambda w, _: w[at])


def but(name, make):
    """`to_core` with one tensor made otherwise."""

    def fn(block, num_heads):
        state = to_core(block, num_heads)
        return state | {name: make(block, state)}

    return fn


def without(name):
    def fn(block, num_heads):
        state = to_core(block, num_heads)
        del state[name]
        return state

    return fn


def exchanged(one, other):
    def fn(block, num_heads):
        state = to_core(block, num_heads)
        return state | {one: state[other], other: state[one]}

    return fn


def other_order(lr, wd):
    return lr * (1 - lr * wd), wd / (1 - lr * wd)


RIGHT = [
    (one_file.grouped_scores, scores),
    (one_file.grouped_scores, scores_by_product),
    (one_file.grouped_scores, scores_by_repeating),
    (one_file.slide, slide),
    (one_file.slide, slide_by_list),
    (one_file.slide, sliding(place=lambda at, c: at - at[0])),
    (one_file.to_core, to_core),
    (one_file.to_core, by_rows),
    (one_file.other_order, other_order),
    (one_file.other_order, lambda lr, wd: [lr - lr * lr * wd, lr * wd / (lr - lr * lr * wd)]),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    inputs = {"grouped_scores": 4, "slide": 5, "to_core": 3, "other_order": 5}[check.__name__]
    assert capsys.readouterr().out == f"Exercise {ALL.index(check) + 1}: right on all {inputs} inputs.\n"
    assert result.name == f"one_file.{check.__name__}"


def test_the_right_answers_serve_the_real_model():
    """The checkers' stand-ins agree with what they stand for."""
    torch.manual_seed(0)
    model = scratch.Transformer(37, 5, 8, 1, 2, 12, 1e4)
    text = slide(model, torch.tensor([[3, 1, 4]]), 6, 5)
    assert text.shape == (1, 9) and torch.equal(text, slide_by_list(model, text[:, :3], 6, 5))
    stand_in = one_file.ShortModel(5, 37)
    for bad in ((torch.zeros(1, 6).long(), None), (torch.zeros(1, 2).long(), torch.tensor([4, 5]))):
        said = []
        for each in (model, stand_in):
            with pytest.raises(ValueError) as error:
                each(*bad)
            said.append(str(error.value))
        assert said[0] == said[1]

    p, q = torch.nn.Parameter(torch.tensor([1.0])), torch.nn.Parameter(torch.tensor([1.0]))
    rate, decay = other_order(0.1, 0.1)
    ours = scratch.AdamW([p], lr=0.1, weight_decay=0.1)
    theirs = torch.optim.AdamW([q], lr=rate, weight_decay=decay)
    for grad in (0.5, -1.0, 0.25):
        p.grad, q.grad = torch.tensor([grad]), torch.tensor([grad])
        ours.step(), theirs.step()
        assert p.item() == pytest.approx(q.item(), abs=1e-7)


def stub(*arguments):
    pass  # your code


@pytest.mark.parametrize("check", ALL)
def test_a_stub_is_not_an_error(check, is_not_attempted):
    is_not_attempted(check, ALL.index(check) + 1, stub)


WRONG = [
    (one_file.grouped_scores, lambda q, k: scores(q, k) / math.sqrt(q.shape[-1]), "divided by √D"),
    (one_file.grouped_scores, lambda q, k: scores(q, k).softmax(-1), "A softmax was taken"),
    (one_file.grouped_scores, lambda q, k: scores(q, k).mT, "Queries and keys are exchanged"),
    (one_file.grouped_scores, lambda q, k: torch.einsum("btgrd,bsgd->btgrs", q, k), "kept in their order"),
    (one_file.grouped_scores, lambda q, k: scores(q, k).transpose(1, 2), "the group comes first"),
    (one_file.grouped_scores, lambda q, k: scores(q, k).flatten(1, 2), "merged into one axis"),
    (one_file.grouped_scores, lambda q, k: scores(q, k).sum(2), "r is missing on the right side"),
    (one_file.grouped_scores, lambda q, k: torch.einsum("btgrd,bshd->bgrts", q, k), "the *same* letter g"),
    (one_file.grouped_scores, lambda q, k: torch.einsum("btgrd,bgsd->bgrts", q, k), "two different sizes"),
    (one_file.grouped_scores, lambda q, k: scores(q, k) + 1, "d alone is summed"),
    (one_file.grouped_scores, lambda q, k: scores(q, k)[0], "The shape must be (B, G, R, T, S)"),
    (one_file.grouped_scores, lambda q, k: 1.0, "Return a tensor"),
    (one_file.slide, sliding(window=lambda ids, c: ids), "cut the text to its last"),
    (one_file.slide, sliding(place=lambda at, c: at), "A position lies beyond"),
    (one_file.slide, sliding(window=lambda ids, c: ids[:, :c]), "stood still at the oldest"),
    (one_file.slide, sliding(row=0), "The scores of the window's first token"),
    (one_file.slide, sliding(pick=torch.argmin), "The *lowest* score"),
    (one_file.slide, sliding(window=lambda ids, c: ids[:, -max(1, c - 1) :]), "one token too short"),
    (one_file.slide, sliding(place=lambda at, c: at.clamp(max=c - 1)), "different tokens share one"),
    (one_file.slide, sliding(place=lambda at, c: at % c), "went round the table"),
    (one_file.slide, sliding(more=1), "n_new are asked for"),
    (one_file.slide, lambda m, ids, n, c: slide(m, ids, n - 1, c), "n_new are asked for"),
    (one_file.slide, lambda m, ids, n, c: slide(m, ids, n, c)[:, ids.shape[1] :], "the text they continue"),
    (one_file.slide, lambda m, ids, n, c: slide(m, ids, n, c) + 1, "In turn: the last context_length"),
    (one_file.slide, lambda m, ids, n, c: slide(m, ids, n, c).tolist(), "Return a tensor of token ids"),
    (
        one_file.to_core,
        lambda b, h: to_core(b, h, regroup=lambda w, n: w),
        "still stand in interleaved pairs",
    ),
    (one_file.to_core, lambda b, h: to_core(b, h, regroup=half_to_interleaved), "the wrong way round"),
    (
        one_file.to_core,
        lambda b, h: to_core(b, h, regroup=lambda w, n: interleaved_to_half(w, 1)),
        "as if all rows were one head",
    ),
    (one_file.to_core, lambda b, h: to_core(b, h, turn_v=interleaved_to_half), "values are never rotated"),
    (one_file.to_core, lambda b, h: to_core(b, h, order=(1, 0, 2)), "the rows of q, then k, then v"),
    (one_file.to_core, lambda b, h: to_core(b, h, order=(0, 2, 1)), "the rows of q, then k, then v"),
    (one_file.to_core, lambda b, h: to_core(b, h, gate="w3", up="w1"), "w_gate and w_up are exchanged"),
    (one_file.to_core, but("attn.wo.weight", lambda b, s: s["attn.wo.weight"].T), "nothing is transposed"),
    (one_file.to_core, exchanged("attn_norm.weight", "ffn_norm.weight"), "rms_norm1 stands before attention"),
    (one_file.to_core, exchanged("ffn.w_up.weight", "ffn.w_down.weight"), "belongs to w_down"),
    (one_file.to_core, without("attn.wk.weight"), "The nine names are"),
    (one_file.to_core, but("lm_head.weight", lambda b, s: b["rms_norm1.g"]), "would refuse a name"),
    (one_file.to_core, but("attn.wv.weight", lambda b, s: "v"), "Each name holds a tensor"),
    (one_file.to_core, but("attn.wv.weight", lambda b, s: 2 * s["attn.wv.weight"]), "compare with the table"),
    (one_file.to_core, lambda b, h: list(b.values()), "Return a dict"),
    (one_file.other_order, lambda lr, wd: (lr, wd), "0.891 and at 0.89"),
    (one_file.other_order, lambda lr, wd: (lr * (1 - lr * wd), wd), "divide it by the same factor"),
    (one_file.other_order, lambda lr, wd: (lr, wd / (1 - lr * wd)), "the rate is not"),
    (one_file.other_order, lambda lr, wd: (lr / (1 - lr * wd), wd * (1 - lr * wd)), "upside down"),
    (one_file.other_order, lambda lr, wd: other_order(lr, wd)[::-1], "exchange them"),
    (one_file.other_order, lambda lr, wd: (lr * 2, wd), "make the a's and the b's equal"),
    (one_file.other_order, lambda lr, wd: lr, "Return two numbers"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=ALL.index(check) + 1)


def test_every_checker_knows_two_mistakes_at_least(knows_two_mistakes):
    for check in ALL:
        knows_two_mistakes(check, WRONG)
