"""Checkers of chapter 13: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch

import minillama
from minillama import checks
from minillama.checks import generation

ALL = [generation.probabilities, generation.min_p, generation.greedy, generation.stop_at]
NAMES = [each.__name__ for each in ALL]


def probabilities(scores, temperature):
    top = max(scores)
    if temperature == 0:
        return [float(i == scores.index(top)) for i in range(len(scores))]
    e = [math.exp((s - top) / temperature) for s in scores]
    return [v / sum(e) for v in e]


def by_package(scores, temperature):
    return minillama.filter_logits(torch.tensor(scores).double(), temperature).softmax(-1).tolist()


def with_temperature(late):
    """Wrong only where the temperature is not 0."""
    return lambda s, t: late(s, t) if t else probabilities(s, t)


def plain(scores, temperature):
    e = [math.exp(s / temperature) for s in scores]
    return [v / sum(e) for v in e]


def min_p(logits, m):
    return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(m), -math.inf)


def min_p_by_softmax(logits, m):
    p = logits.softmax(-1)
    return torch.where(p >= m * p.max(-1, keepdim=True).values, logits, -math.inf)


def min_p_of(compare, **changes):
    def answer(logits, m):
        p = logits.softmax(-1)
        return logits.masked_fill(compare(logits, p, m), changes.get("value", -math.inf))

    return answer


@torch.no_grad()
def greedy(model, ids, n):
    cache, new = minillama.KVCache(model.config, len(ids)), ids
    for _ in range(n):
        new = model(new, past_key_values=cache)[0][:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
    return ids


@torch.no_grad()
def greedy_in_two_parts(model, ids, n):
    """Prefill first, and the last token is read as well."""
    cache = minillama.KVCache(model.config, len(ids))
    logits = model.next_token_logits(ids, cache)
    for _ in range(n):
        new = logits.argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
        if ids.shape[1] <= model.config.max_seq_len and cache.length < cache.max_len:
            logits = model.next_token_logits(new, cache)
    return ids


@torch.no_grad()
def without_cache(model, ids, n, place=-1):
    for _ in range(n):
        ids = torch.cat([ids, model(ids)[0][:, place].argmax(-1, keepdim=True)], 1)
    return ids


@torch.no_grad()
def everything_again(model, ids, n):
    cache = minillama.KVCache(model.config, len(ids))
    for _ in range(n):
        ids = torch.cat([ids, model(ids, past_key_values=cache)[0][:, -1].argmax(-1, keepdim=True)], 1)
    return ids


@torch.no_grad()
def one_row_of_cache(model, ids, n):
    cache, new = minillama.KVCache(model.config), ids
    for _ in range(n):
        new = model(new, past_key_values=cache)[0][:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
    return ids


@torch.no_grad()
def without_a_column(model, ids, n):
    cache, new = minillama.KVCache(model.config, len(ids)), ids
    for _ in range(n):
        new = model(new, past_key_values=cache)[0][:, -1].argmax(-1)
        ids = torch.cat([ids, new], 1)
    return ids


def always_held(pieces, stop):
    """As many characters as a beginning of the stop word may have, whatever they are."""
    held, out = "", []
    for piece in pieces:
        held += piece
        if stop in held:
            return [text for text in [*out, held[: held.index(stop)]] if text]
        end = max(0, len(held) - len(stop) + 1)
        out.append(held[:end])
        held = held[end:]
    return [text for text in [*out, held] if text]


def stop_at(pieces, stop):
    held, out = "", []
    for piece in pieces:
        held += piece
        before, found, _ = held.partition(stop)
        if found:
            return [*out, before] if before else out
        keep = max(k for k in range(len(stop)) if held.endswith(stop[:k]))
        if len(held) > keep:
            out.append(held[: len(held) - keep])
        held = held[len(held) - keep :]
    return [*out, held] if held else out


def stop_at_by_hand(pieces, stop):
    """From the whole text: what is sure after each piece."""
    whole, done, out = "", 0, []
    for n, piece in enumerate(pieces):
        whole += piece
        end = whole.find(stop)
        if end >= 0:
            return [text for text in [*out, whole[done:end]] if text]
        end = len(whole)
        if n < len(pieces) - 1:
            end = next(e for e in range(max(0, len(whole) - len(stop) + 1), len(whole) + 1)
                       if stop.startswith(whole[e:]))  # fmt: skip
        out.append(whole[done:end])
        done = end
    return [text for text in out if text]


def joined(answer):
    """All at once."""
    return lambda pieces, stop: [text] if (text := "".join(answer(pieces, stop))) else []


RIGHT = [
    (generation.probabilities, probabilities),
    (generation.probabilities, by_package),
    (generation.min_p, min_p),
    (generation.min_p, min_p_by_softmax),
    (generation.greedy, greedy),
    (generation.greedy, greedy_in_two_parts),
    (generation.greedy, lambda model, ids, n: minillama.generate(model, ids, n, temperature=0)),
    (generation.stop_at, stop_at),
    (generation.stop_at, stop_at_by_hand),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    inputs = {"probabilities": 7, "min_p": 5, "greedy": 5, "stop_at": 8}[check.__name__]
    assert capsys.readouterr().out == f"Exercise {ALL.index(check) + 1}: right on all {inputs} inputs.\n"
    assert result.name == f"generation.{check.__name__}"


def stub(*arguments):
    pass  # your code


@pytest.mark.parametrize("check", ALL, ids=NAMES)
def test_a_stub_is_not_an_error(check, is_not_attempted):
    is_not_attempted(check, ALL.index(check) + 1, stub)


WRONG = [
    (
        generation.probabilities,
        with_temperature(lambda s, t: probabilities(s, 1 / t)),
        "were multiplied by the",
    ),
    (
        generation.probabilities,
        with_temperature(lambda s, t: [p / t for p in probabilities(s, 1)]),
        "The probabilities were divided",
    ),
    (generation.probabilities, lambda s, t: probabilities(s, 1), "has had no effect"),
    (
        generation.probabilities,
        with_temperature(lambda s, t: [math.exp(v / t) for v in s]),
        "do not add up to 1",
    ),
    (generation.probabilities, lambda s, t: [v / t for v in s], "the softmax is missing"),
    (
        generation.probabilities,
        with_temperature(lambda s, t: [v / sum(s) for v in s]),
        "Take exponentials first",
    ),
    (
        generation.probabilities,
        with_temperature(lambda s, t: [2 ** (v / t) / sum(2 ** (w / t) for w in s) for v in s]),
        "The base is e",
    ),
    (generation.probabilities, plain, "At temperature 0 the largest score gets 1"),
    (generation.probabilities, with_temperature(plain), "math.exp overflows"),
    (generation.probabilities, lambda s, t: sorted(probabilities(s, t), reverse=True), "another order"),
    (
        generation.probabilities,
        lambda s, t: probabilities(s, t) if t else [float(v == max(s)) for v in s],
        "takes the first",
    ),
    (
        generation.probabilities,
        lambda s, t: probabilities(s, t) if t else probabilities(s, 1e-9),
        "takes the first",
    ),
    (generation.probabilities, lambda s, t: probabilities(s, t)[:-1], "one number for each score"),
    (generation.probabilities, lambda s, t: torch.tensor(probabilities(s, t)), "use Python only"),
    (generation.probabilities, lambda s, t: 1.0, "Return a plain list"),
    (generation.min_p, min_p_of(lambda z, p, m: p < m), "It is relative"),
    (generation.min_p, min_p_of(lambda z, p, m: z < m * z.amax(-1, keepdim=True)), "times the largest logit"),
    (generation.min_p, min_p_of(lambda z, p, m: p < m * p.max()), "for the whole tensor"),
    (generation.min_p, min_p_of(lambda z, p, m: z < z.max() + math.log(m)), "for the whole tensor"),
    (
        generation.min_p,
        min_p_of(lambda z, p, m: z <= z.amax(-1, keepdim=True) + math.log(m)),
        "exactly at the threshold",
    ),
    (generation.min_p, lambda z, m: z.masked_fill(z < z.amax(-1) + math.log(m), -math.inf), "Keep it"),
    (
        generation.min_p,
        min_p_of(lambda z, p, m: z >= z.amax(-1, keepdim=True) + math.log(m)),
        "The wrong half was kept",
    ),
    (
        generation.min_p,
        min_p_of(lambda z, p, m: z < z.amax(-1, keepdim=True) + math.log(m), value=0.0),
        "set to 0",
    ),
    (generation.min_p, lambda z, m: min_p(z, m).softmax(-1), "return logits, not probabilities"),
    (generation.min_p, lambda z, m: min_p(z, m).isfinite(), "rather than a mask"),
    (generation.min_p, lambda z, m: z, "Nothing was dropped"),
    (generation.min_p, lambda z, m: min_p(z, m / 3), "A token stays if"),
    (generation.min_p, lambda z, m: z.tolist(), "Return a tensor"),
    (
        generation.greedy,
        lambda model, ids, n: greedy(model, ids, n)[:, ids.shape[1] :],
        "the new tokens alone",
    ),
    (generation.greedy, lambda model, ids, n: greedy(model, ids, n - 1), "The last token is missing"),
    (generation.greedy, lambda model, ids, n: greedy(model, ids, n + 1), "One token too many"),
    (
        generation.greedy,
        lambda model, ids, n: without_cache(model, ids, n, 0),
        "The scores of the first position",
    ),
    (generation.greedy, without_cache, "use a KVCache"),
    (generation.greedy, everything_again, "went into the cache a second time"),
    (generation.greedy, one_row_of_cache, "room for every row"),
    (generation.greedy, without_a_column, "a column (B, 1)"),
    (generation.greedy, lambda model, ids, n: ids, "came back unchanged"),
    (generation.greedy, lambda model, ids, n: greedy(model, ids, n)[0], "The shape must be"),
    (generation.greedy, lambda model, ids, n: greedy(model, ids, n) % 7, "Take the argmax of the last"),
    (generation.greedy, lambda model, ids, n: greedy(model, ids, n).tolist(), "Return a tensor of token ids"),
    (generation.stop_at, lambda ps, s: [p for p in ps if s not in p], "came in two pieces"),
    (generation.stop_at, always_held, "it came later than it could"),
    (generation.stop_at, lambda ps, s: ["".join(ps).partition(s)[0] + s], "itself is not put out"),
    (generation.stop_at, lambda ps, s: ["".join(ps).replace(s, "")], "from behind the stop word"),
    (generation.stop_at, joined(stop_at), "came later than it could"),
    (generation.stop_at, lambda ps, s: list("".join(stop_at(ps, s))), "cut finer"),
    (generation.stop_at, lambda ps, s: [*stop_at(ps, s), ""], "An empty string was put out"),
    (generation.stop_at, lambda ps, s: [*stop_at(ps, s), s[0]], "beginning of the stop word was put out"),
    (
        generation.stop_at,
        lambda ps, s: stop_at(ps, s) if s in "".join(ps) else stop_at([*ps, s], s)[:-1] or ["x"],
        "ended while something was held back",
    ),
    (generation.stop_at, lambda ps, s: stop_at(ps, s)[:1], "ended while something was held back"),
    (generation.stop_at, lambda ps, s: ["?"] * len(ps), "Hold back the longest end"),
    (generation.stop_at, lambda ps, s: "".join(stop_at(ps, s)), "Return a list of strings"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=ALL.index(check) + 1)


def test_a_solution_that_needs_no_gradient_guard_passes():
    """A reader may leave no_grad out: a call with a cache records nothing."""

    def unguarded(model, ids, n):
        cache, new = minillama.KVCache(model.config, len(ids)), ids
        for _ in range(n):
            new = model(new, past_key_values=cache)[0][:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, new], 1)
        return ids

    assert generation.greedy(unguarded)


def test_every_checker_knows_two_mistakes_at_least(knows_two_mistakes):
    for check in ALL:
        knows_two_mistakes(check, WRONG)
