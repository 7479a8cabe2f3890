"""Checkers of chapter 7: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import pytest
import torch

from minillama import MiniLLaMAConfig, accounting, checks
from minillama.checks import assembly

INPUTS = {assembly.parameters: 5, assembly.contributions: 4, assembly.same_model: 9}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


def parameters(v, c, layers, h, g, d, wide, tied):
    layer = 2 * c * d * (h + g) + 3 * c * wide + 2 * c
    return v * c * (1 if tied else 2) + layers * layer + c


def by_package(v, c, layers, h, g, d, wide, tied):
    sizes = dict(vocab_size=v, d_model=c, n_layers=layers, n_q_heads=h, n_kv_heads=g, head_dim=d, d_ffn=wide)
    return accounting.count_parameters(MiniLLaMAConfig(**sizes, tie_word_embeddings=tied))["total"]


def contributions(parts, gain, eps, head):
    x = parts.sum(0)
    return parts / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * gain @ head.T


def one_by_one(parts, gain, eps, head):
    r = torch.rsqrt(parts.sum(0).pow(2).mean(-1, keepdim=True) + eps)
    return torch.stack([(part * r * gain) @ head.T for part in parts])


def folded(parts, gain, eps, head):
    r = (parts.sum(0).pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return torch.einsum("ntc,vc->ntv", parts, head * gain) / r


def logits(model, ids):
    with torch.no_grad():
        return model(ids)[0]


def same(make_ours, make_theirs, *, copy=True, gains=True, ids=None, tolerance=1e-4):
    ours, theirs = make_ours(), make_theirs()
    with torch.no_grad():
        for p in theirs.parameters():
            if gains or p.ndim == 2:
                p += 0.1 * torch.randn_like(p)
    if copy:
        ours.load_state_dict(theirs.state_dict())
    if ids is None:
        ids = torch.randint(theirs.config.vocab_size, (2, 20))
    return torch.allclose(logits(ours, ids), logits(theirs, ids), atol=tolerance, rtol=0)


def into_theirs(make_ours, make_theirs):
    ours, theirs = make_ours(), make_theirs()
    for p in ours.parameters():
        torch.nn.init.normal_(p, std=0.3)
    theirs.load_state_dict(ours.state_dict())
    ids = torch.arange(30)[None]
    return (logits(ours, ids) - logits(theirs, ids)).abs().max() < 1e-3


RIGHT = [
    (assembly.parameters, parameters),
    (assembly.parameters, by_package),
    (assembly.parameters, lambda *a: float(parameters(*a))),
    (assembly.contributions, contributions),
    (assembly.contributions, one_by_one),
    (assembly.contributions, folded),
    (assembly.same_model, same),
    (assembly.same_model, into_theirs),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED
    said = f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert capsys.readouterr().out == said
    assert result.name == f"assembly.{check.__name__}"


def stub(*arguments):
    pass  # your code


@pytest.mark.parametrize("check", INPUTS)
def test_a_stub_is_not_an_error(check, is_not_attempted):
    is_not_attempted(check, NUMBER[check], stub)


def counted(*, matrices=None, keys=None, ffn=3, norms=2, final=True, output=True, layers=None, biases=False):
    """The sum with one thing counted otherwise."""

    def fn(v, c, n, h, g, d, wide, tied):
        heads = h * (2 if output else 1) + 2 * (keys(h, g) if keys else g)
        layer = c * d * heads + ffn * c * wide + norms * c
        if biases:
            layer += (h + 2 * g) * d + c + 2 * wide + c
        times = n if layers is None else layers
        words = (matrices(tied) if matrices else (1 if tied else 2)) * v * c
        return words + times * layer + (c if final else 0)

    return fn


def square(v, c, n, h, g, d, wide, tied):
    layer = 2 * c * c + 2 * c * g * d + 3 * c * wide + 2 * c
    return v * c * (1 if tied else 2) + n * layer + c


def from_c(v, c, n, h, g, d, wide, tied):
    return parameters(v, c, n, h, g, c // h, wide, tied)


def divided(root):
    return lambda p, gain, eps, head: p / root(p, eps) * gain @ head.T


def rms(x, eps):
    return (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


WRONG = [
    (assembly.parameters, counted(matrices=lambda tied: 2), "count that matrix once"),
    (assembly.parameters, counted(matrices=lambda tied: 1), "has a matrix of its own"),
    (assembly.parameters, counted(keys=lambda h, g: h), "wk and wv are narrower"),
    (assembly.parameters, counted(ffn=2), "three matrices"),
    (assembly.parameters, counted(norms=1), "two norms in each layer"),
    (assembly.parameters, counted(norms=1, final=False), "two norms in each layer"),
    (assembly.parameters, counted(final=False), "the one above the last layer"),
    (assembly.parameters, counted(norms=0, final=False), "each has d_model gains"),
    (assembly.parameters, counted(layers=1), "multiply by n_layers"),
    (assembly.parameters, counted(output=False), "wo, which leads back"),
    (assembly.parameters, counted(biases=True), "no biases"),
    (assembly.parameters, square, "need not equal d_model"),
    (assembly.parameters, from_c, "need not equal d_model"),
    (assembly.parameters, lambda *a: parameters(*a) + 1, "List what one layer holds"),
    (assembly.parameters, lambda *a: "many", "Return one number"),
    (assembly.contributions, divided(rms), "There is one norm"),
    (assembly.contributions, lambda p, g, e, w: p / rms(p.sum(0), e) @ w.T, "The gain is missing"),
    (assembly.contributions, lambda p, g, e, w: p * g @ w.T, "The division by the root mean square"),
    (assembly.contributions, divided(lambda p, e: rms(p.sum(0), 0.0)), "ε is missing"),
    (assembly.contributions, lambda *a: contributions(*a).sum(0), "Return the parts one by one"),
    (
        assembly.contributions,
        divided(lambda p, e: (p.sum(0).pow(2).mean() + e).sqrt()),
        "Each token has a root mean square",
    ),
    (
        assembly.contributions,
        divided(lambda p, e: (p.pow(2).sum(0).mean(-1, keepdim=True) + e).sqrt()),
        "as if nothing canceled",
    ),
    (assembly.contributions, divided(lambda p, e: rms(p.mean(0), e)), "the stream is their sum"),
    (
        assembly.contributions,
        divided(lambda p, e: (p.sum(0).pow(2).sum(-1, keepdim=True) + e).sqrt()),
        "root of the *mean* square",
    ),
    (assembly.contributions, lambda *a: contributions(*a) + 1, "gain and head are linear"),
    (assembly.contributions, lambda *a: 1.0, "Return a tensor of shape"),
    (assembly.same_model, lambda a, b: same(a, b, copy=False), "Give the two the same weights"),
    (assembly.same_model, lambda a, b: same(a, b, tolerance=0.0), "differs by rounding only"),
    (assembly.same_model, lambda a, b: same(a, b, tolerance=1e9), "Compare the logits themselves"),
    (assembly.same_model, lambda a, b: same(a, b, gains=False), "the gains included"),
    (
        assembly.same_model,
        lambda a, b: same(a, b, ids=torch.zeros(1, 20, dtype=torch.long)),
        "does not show where it stands",
    ),
    (
        assembly.same_model,
        lambda a, b: same(a, b, ids=torch.tensor([[7]])),
        "does not show where it stands",
    ),
    (assembly.same_model, lambda a, b: same(a, b, tolerance=0.1), "far larger than rounding"),
    (assembly.same_model, lambda a, b: "yes", "Return True when both"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=NUMBER[check])


def test_every_checker_knows_two_mistakes_at_least(knows_two_mistakes):
    for check in INPUTS:
        knows_two_mistakes(check, WRONG)


@torch.no_grad()
def test_what_shall_count_as_the_same_model_differs_by_rounding():
    """Not at all different, it would let a test for equal bits pass."""
    for edited in (dict(arrange=assembly._other_order), dict(edit=assembly._shifted)):
        torch.manual_seed(0)
        ours, theirs = assembly._maker(**edited)(), assembly._maker()()
        ours.load_state_dict(theirs.state_dict())
        ids = torch.arange(40)[None]
        assert 0 < (ours(ids)[0] - theirs(ids)[0]).abs().max() < 1e-4


def test_the_report_names_the_fault_that_slipped_through(capsys):
    assembly.same_model(lambda a, b: same(a, b, gains=False))
    said = " ".join(capsys.readouterr().out.split())
    assert "expected: False (the first norm used twice) came: True" in said
