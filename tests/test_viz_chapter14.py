"""The explorer of chapter 14 shows the recorded heads, and these are the model's."""

import pytest
import torch

from minillama import apply_rotary_emb, assets, causal_mask, viz
from minillama.viz import chapter14

WEIGHTS = assets.cache_directory() / "smollm2-135m-instruct-0.1.2"


@pytest.fixture(scope="module")
def heads():
    return viz.head_map()


@pytest.fixture(scope="module")
def study():
    return viz.recorded("smollm2_faults")["heads"]


def test_the_maps_and_the_triangles_are_complete(study):
    assert study["percent"].keys() == set(chapter14.LOOKS.values())
    for table in (*study["percent"].values(), study["text"]["percent"]):
        assert len(table) == 30 and {len(layer) for layer in table} == {9}
    tokens = study["text"]["tokens"]
    assert tokens[: len(tokens) // 2] == tokens[len(tokens) // 2 :]
    for layer in study["text"]["percent"]:
        for head in layer:
            assert len(head) == len(tokens) * (len(tokens) + 1) // 2
            assert abs(head[0] - 100) == 0


def test_it_starts_with_a_head_that_rests_and_then_copies(heads, study):
    assert heads.start == {"look": "the first token", "layer": 19, "head": 7}
    assert "86 of 270 heads put more than half there" in heads.alt(**heads.start)
    assert "puts 89.9 % there" in heads.alt(**heads.start)
    row = study["text"]["percent"][18][6]
    stripe = [row[i * (i + 1) // 2 + i - 5] for i in range(7, 11)]  # what followed six tokens ago
    assert min(stripe) > 80
    first = [row[i * (i + 1) // 2] for i in range(1, 7)]
    assert min(first) > 80


@pytest.mark.parametrize("look", chapter14.LOOKS)
def test_the_picture_stays_in_its_frame(heads, look):
    width, height = heads.view_box
    for layer, head in ((1, 1), (30, 9)):
        for mark in heads.marks(look, layer, head):
            if mark["kind"] == "rect":
                assert 0 <= mark["x"] and mark["x"] + mark["width"] <= width
                assert 0 <= mark["y"] and mark["y"] + mark["height"] <= height


@pytest.mark.skipif(not WEIGHTS.is_dir(), reason="needs the 93 MB of weights in the cache")
@torch.no_grad()
def test_the_first_layer_is_the_models(study):
    from minillama.checkpoint import from_gguf

    model, tokenizer = from_gguf(assets.fetch("smollm2-135m-instruct"))
    ids = torch.tensor([tokenizer.encode("".join(study["text"]["tokens"]))])
    t, block = ids.shape[1], model.layers[0]
    assert t == len(study["text"]["tokens"])
    x = block.attn_norm(model.token_embeddings(ids))
    q, k = (w(x).view(1, t, -1, 64) for w in (block.attn.wq, block.attn.wk))
    q, k = (apply_rotary_emb(z, model.cos[:t], model.sin[:t])[0].transpose(0, 1) for z in (q, k))
    scores = q @ k.repeat_interleave(3, 0).mT / 8
    p = scores.masked_fill(~causal_mask(t, t), -torch.inf).softmax(-1)
    for head, recorded in zip(p, study["text"]["percent"][0], strict=True):
        found = [100 * w for i in range(t) for w in head[i, : i + 1].tolist()]
        assert found == pytest.approx(recorded, abs=0.51)
