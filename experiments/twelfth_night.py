"""What the small trainings share: the plays in bytes, windows of a text, the loss at the end."""

import functools
from pathlib import Path

import torch
from torch import Tensor

from minillama import assets


def plays() -> tuple[Path, list[Path]]:
    """The file of Twelfth Night, and those of all other plays in order."""
    files = sorted(assets.fetch("shakespeare").rglob("*.md"))
    (ours,) = [file for file in files if file.name == "twelfth-night.md"]
    return ours, [file for file in files if file != ours]


@functools.cache
def twelfth_night() -> tuple[Tensor, Tensor]:
    """The bytes of the play's first nine tenths, for training, and of its last, held out."""
    data = torch.tensor(list(plays()[0].read_bytes()))
    cut = len(data) * 9 // 10
    return data[:cut], data[cut:]


def windows(data: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """Random windows of the text: (batch, length)."""
    starts = torch.randint(len(data) - length + 1, (batch,), generator=generator)
    return torch.stack([data[s : s + length] for s in starts])


def in_rows(data: Tensor, length: int) -> Tensor:
    """The whole text, but for a rest, in rows: (n, length)."""
    return data[: len(data) // length * length].view(-1, length)


@torch.no_grad()
def held_out_loss(model, data: Tensor, length: int) -> float:
    """Mean loss over the whole text, read in rows: nats per byte."""
    x = in_rows(data, length)
    return model(x, labels=x)[1].item()
