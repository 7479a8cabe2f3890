"""The explorers of chapter 10 step as the package's optimizers do, and show the package's schedule."""

import pytest
import torch

from minillama import viz
from minillama.optim import AdamW, cos_lr_scheduler
from minillama.viz import chapter10


def words(explorer, **changes) -> list[str]:
    marks = explorer.marks(**(explorer.start | changes))
    return [mark["content"] for mark in marks if mark["kind"] == "text"]


@pytest.mark.parametrize("turn", [0, 45])
@pytest.mark.parametrize("rate", [0.005, 0.1])
@pytest.mark.parametrize("method", ["AdamW", "gradient descent"])
def test_a_descent_is_the_optimizers(method, rate, turn):
    factor = 1 / 1024
    c, s = chapter10.TURNS[turn]
    turned = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)  # along, across
    p = (turned.T @ torch.tensor(chapter10.START, dtype=torch.float64)).requires_grad_()
    cls = AdamW if method == "AdamW" else torch.optim.SGD
    optimizer = cls([p], lr=rate, weight_decay=0.0)
    curvature = torch.tensor([1.0, chapter10.STEEP], dtype=torch.float64)
    seen = [p.tolist()]
    for _ in range(chapter10.STEPS):
        optimizer.zero_grad()
        (factor * (curvature * (turned @ p).square()).sum() / 2).backward()
        optimizer.step()
        seen.append(p.tolist())
    run = chapter10.descend(method, rate, turn, factor)
    assert not run["left"]
    torch.testing.assert_close(
        torch.tensor(run["points"], dtype=torch.float64), torch.tensor(seen, dtype=torch.float64)
    )


def test_only_gradient_descent_notices_the_size_of_the_loss():
    explorer = viz.valley()
    for method, notices in (("AdamW", False), ("gradient descent", True)):
        told = [words(explorer, method=method, factor=factor) for factor in chapter10.FACTORS]
        gradients, others = [
            {tuple(w for w in each if ("gradient" in w) == which) for each in told} for which in (True, False)
        ]
        assert len(gradients) == 3 and (len(others) > 1) == notices


def test_a_path_stays_inside_the_frame():
    explorer = viz.valley()
    for state in explorer.states():
        path = [mark for mark in explorer.marks(**state) if mark["kind"] == "polyline"][-1]
        assert all(0 <= x <= 380 and 0 <= y <= 262 for x, y in path["points"]), state


def test_the_schedule_is_the_packages():
    explorer = viz.schedule()
    for step in (0, 50, 450, 999):
        for asks, extra in chapter10.ASKS.items():
            rate = cos_lr_scheduler(step + extra, 1.0, 0.1, 100, 800)
            told = words(explorer, step=step, asks=asks)
            assert any(f"it = {step + extra}: {100 * rate:.1f} %" in line for line in told), told
    assert any("moves nothing" in line for line in words(explorer, asks="step"))
    assert not any("moves nothing" in line for line in words(explorer, asks="step", warmup=0))
    assert any("100.0 % of the peak" in line for line in words(explorer, warmup=0, step=0, asks="step"))
    for state in explorer.states():
        if state["step"] in (0, 999):
            assert explorer.marks(**state)
