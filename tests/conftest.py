"""Shared by several tests: tiny models of all-different sizes, and what every exercise checker owes."""

import sys

import pytest


@pytest.fixture(autouse=True)
def same_random_numbers():
    """What a test draws does not depend on the tests before it."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def make_config():
    """A tiny configuration in which no two sizes agree, so that a swapped pair of axes cannot go unseen."""
    import torch

    from minillama import MiniLLaMAConfig

    torch.set_num_threads(1)  # for models this small a second thread costs more than it gains

    def make(**overrides):
        sizes = dict(vocab_size=61, d_model=24, n_layers=3, n_q_heads=6, n_kv_heads=2, head_dim=10)
        sizes |= dict(d_ffn=44, max_seq_len=32)
        return MiniLLaMAConfig(**(sizes | overrides))

    return make


@pytest.fixture
def make_model(make_config):
    """A seeded model with weights large enough for attention to be sharp and gains that are not all one."""
    import torch

    from minillama import MiniLLaMAForCausalLM

    def make(seed=0, **overrides):
        model = MiniLLaMAForCausalLM(make_config(**overrides))
        randomize(model, seed)
        return model

    def randomize(model, seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.uniform_(0.5, 1.5, generator=generator)
                else:
                    parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)

    return make


@pytest.fixture
def make_ids():
    import torch

    def make(batch, length, vocab_size=61, seed=0):
        return torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))

    return make


@pytest.fixture
def meets_its_hint(capsys):
    """meets_its_hint(check, answer, hint, number): the answer gets that hint, on a phone, every time."""
    from minillama import checks

    def meets(check, answer, hint, number):
        result = check(answer)
        assert result.status == checks.WRONG and not result
        printed = capsys.readouterr().out
        lines = printed.splitlines()
        assert lines[0].startswith(f"Exercise {number}: wrong for")
        assert hint in " ".join(printed.partition("hint:")[2].split()), printed
        assert max(map(len, lines)) <= 60, "it would scroll on a phone"
        assert check(answer).message == result.message, "the report differs from run to run"

    return meets


@pytest.fixture
def knows_two_mistakes():
    """knows_two_mistakes(check, wrong): a checker says what it takes, and has two hints at least."""

    def knows(check, wrong):
        assert len({hint for each, _, hint in wrong if each is check}) >= 2, check.__name__
        assert check.__doc__.startswith("`fn("), check.__name__

    return knows


@pytest.fixture
def is_not_attempted(capsys):
    """is_not_attempted(check, number, stub): a stub is no error, and no success."""
    from minillama import checks

    def stays(check, number, stub):
        result = check(stub)
        assert not result and result.status == checks.NOT_ATTEMPTED
        assert capsys.readouterr().out == f"Exercise {number}: not attempted yet.\n"

    return stays
