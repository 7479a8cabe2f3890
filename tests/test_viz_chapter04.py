"""The explorers of chapter 4 show the numbers of torch and of the recorded studies."""

import itertools

import pytest
import torch

from minillama import viz
from minillama.viz import chapter04


@pytest.fixture(scope="module")
def hill():
    return viz.softmax_hill()


@pytest.fixture(scope="module")
def rows():
    return viz.softmax_rows()


@pytest.fixture(scope="module")
def heads():
    return viz.trained_heads()


@pytest.mark.parametrize("scores", [(2, 1, 0), (0, 0, 0), (-4, 4, 4), (0.5, -1.5, 3)])
@pytest.mark.parametrize("factor", [0, 0.125, 1, 8])
def test_the_hill_computes_the_softmax_and_its_jacobian(scores, factor):
    row = chapter04.row_of_three(*scores, factor)
    s = factor * torch.tensor(scores, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), s)
    assert row["p"] == pytest.approx(s.softmax(-1).tolist(), abs=1e-8)
    assert torch.allclose(torch.tensor(row["jacobian"]).double(), jacobian, atol=1e-7)
    assert row["size"] == pytest.approx(jacobian.norm().item(), abs=1e-7)
    assert row["size"] <= (row["a"] * (1 - row["a"])) ** 0.5 + 1e-9


def test_two_equal_keys_stand_on_the_top_of_the_hill(hill):
    row = chapter04.row_of_three(4, 4, -4, 8)
    assert row["size"] == pytest.approx(0.5) and row["a"] == pytest.approx(0.5)
    assert "size 0.500" in hill.alt(s1=4, s2=4, s3=-4, factor=8)


def test_the_hill_stays_in_its_frame(hill):
    width, height = hill.view_box
    for values in itertools.product(*((c.values[0], c.default, c.values[-1]) for c in hill.controls)):
        for mark in hill.marks(*values):
            for x, y in (("x", "y"), ("cx", "cy")):
                if x in mark:
                    assert 0 <= mark[x] <= width and 0 <= mark[y] <= height, (values, mark)


def test_the_rows_are_those_of_the_study(rows):
    study = viz.recorded("softmax_saturation")
    assert len(list(rows.states())) == len(study["cells"]) == 88
    for cell in study["cells"]:
        scores = chapter04.DIVIDED if cell["divided"] else chapter04.BARE
        alt = rows.alt(head_dim=cell["head_dim"], keys=cell["keys"], scores=scores)
        assert f"its Jacobian {cell['jacobian_mean']:.3f}" in alt
        assert 990 <= sum(cell["p_max_per_mille"]) <= 1010
        assert 990 <= sum(cell["jacobian_per_mille"]) <= 1010


def test_at_64_the_bare_rows_have_the_larger_jacobian_with_64_keys_but_not_with_4(rows):
    alt = rows.alt(head_dim=64, keys=64, scores=chapter04.BARE)
    assert alt.endswith("With the division: mean 0.183. Ratio 1.16.")
    alt = rows.alt(head_dim=64, keys=4, scores=chapter04.BARE)
    assert float(alt.rsplit("Ratio ", 1)[1].rstrip(".")) < 0.5


def test_every_head_has_a_full_triangle(heads):
    study = viz.recorded("smollm2_attention")["line"]
    count = len(study["tokens"])
    assert "".join(study["tokens"]) == "If music be the food of love, play on"
    assert len(study["percent"]) == 30 and {len(layer) for layer in study["percent"]} == {9}
    for layer in study["percent"]:
        for head in layer:
            assert len(head) == count * (count + 1) // 2
            at = 0
            for i in range(count):
                assert abs(sum(head[at : at + i + 1]) - 100) <= 3  # rounded
                at += i + 1


def test_the_heads_that_the_chapter_points_at(heads):
    assert heads.start == {"layer": 12, "head": 2}
    for layer, head, words in (
        (12, 2, "one before 77 %"),
        (12, 7, "itself 82 %"),
        (18, 4, "first token 100 %"),
    ):
        assert words in heads.alt(layer=layer, head=head)
