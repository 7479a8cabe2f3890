"""Checkers of chapter 14: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import json
import math
import struct

import gguf
import numpy as np
import pytest
import torch

from minillama import checks
from minillama.checks import weights

INPUTS = {weights.header: 6, weights.block: 6, weights.quantize: 6, weights.first_difference: 5}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


def entries(data):
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])


def header(data):
    return {name: tuple(e["shape"]) for name, e in entries(data).items() if name != "__metadata__"}


def block(raw):
    (scale,) = struct.unpack("<e", raw[:2])
    return [scale * ((byte >> shift & 15) - 8) for shift in (0, 4) for byte in raw[2:]]


def block_by_library(raw):
    return gguf.dequantize(np.frombuffer(raw, np.uint8), gguf.GGMLQuantizationType.Q4_0)


def quantize(values):
    low, high = min(values), max(values)
    scale = (high - low) / 15
    return scale, low, [round((v - low) / scale) if scale else 0 for v in values]


def first_difference(ours, theirs):
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if (a - b).abs().max() > 1e-3 * b.pow(2).mean().sqrt():
            return i
    return len(ours)


def by_torch(values):
    v = torch.tensor(values, dtype=torch.float64)
    scale = (v.max() - v.min()) / 15
    return scale, v.min(), torch.nan_to_num((v - v.min()) / scale).round().int()


RIGHT = [
    (weights.header, header),
    (weights.header, lambda d: {n: e["shape"] for n, e in entries(d).items() if n != "__metadata__"}),
    (weights.block, block),
    (weights.block, block_by_library),
    (weights.quantize, quantize),
    (weights.quantize, by_torch),
    (weights.first_difference, first_difference),
    (weights.first_difference, lambda a, b: torch.tensor(first_difference(a, b))),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert result.name == f"weights.{check.__name__}"


@pytest.mark.parametrize("check", INPUTS)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: not attempted yet.\n"


def cut(data, start, order="little"):
    return json.loads(data[start : start + int.from_bytes(data[:8], order)])


def nibbles(raw, first, second):
    (scale,) = struct.unpack("<e", raw[:2])
    return scale, [first(b) for b in raw[2:]], [second(b) for b in raw[2:]]


def paired(raw):
    scale, low, high = nibbles(raw, lambda b: b & 15, lambda b: b >> 4)
    return [scale * (code - 8) for pair in zip(low, high, strict=True) for code in pair]


def high_first(raw):
    return block(raw)[16:] + block(raw)[:16]


def codes_only(raw):
    return [code - 8 for part in nibbles(raw, lambda b: b & 15, lambda b: b >> 4)[1:] for code in part]


def big_endian(raw):
    return block(raw[1::-1] + raw[2:])


def sixteenths(values):
    scale = (max(values) - min(values)) / 16
    return scale, min(values), [round((v - min(values)) / scale) if scale else 0 for v in values]


def truncated(values):
    scale, low, _ = quantize(values)
    return scale, low, [int((v - low) / scale) if scale else 0 for v in values]


def symmetric(values):
    most = max(map(abs, values))
    return 2 * most / 15, -most, [round((v + most) / (2 * most / 15)) for v in values]


def unguarded(values):
    low, high = min(values), max(values)
    return (high - low) / 15, low, [round((v - low) / ((high - low) / 15)) for v in values]


def gaps(size, relative=True):
    def first(ours, theirs):
        found = [
            (size(a - b) / (b.pow(2).mean().sqrt() if relative else 1)).item()
            for a, b in zip(ours, theirs, strict=True)
        ]
        return next((i for i, gap in enumerate(found) if gap > 1e-3), len(found))

    return first


def largest(ours, theirs):
    if first_difference(ours, theirs) == len(ours):
        return len(ours)
    found = [((a - b).abs().max() / b.pow(2).mean().sqrt()).item() for a, b in zip(ours, theirs, strict=True)]
    return found.index(max(found))


WRONG = [
    (weights.header, lambda d: cut(d, 8), "'shape' only"),
    (weights.header, lambda d: {n: e.get("shape") for n, e in cut(d, 8).items()}, "'__metadata__'"),
    (weights.header, lambda d: {n: e for n, e in cut(d, 8).items() if n != "__metadata__"}, "'shape' only"),
    (
        weights.header,
        lambda d: {n: e["data_offsets"] for n, e in cut(d, 8).items() if n != "__metadata__"},
        "does not follow from the offsets",
    ),
    (weights.header, lambda d: {n: e["shape"] for n, e in cut(d, 8).items()}, "'__metadata__' is an entry"),
    (weights.header, lambda d: header(d[1:]), "starts at byte 8"),
    (weights.header, lambda d: cut(d, 0), "starts at byte 8"),
    (weights.header, lambda d: json.loads(d[8:]), "starts at byte 8"),
    (weights.header, lambda d: cut(d, 8, "big"), "starts at byte 8"),
    (weights.header, lambda d: list(header(d)), "Return a dict"),
    (weights.block, paired, "not neighbors"),
    (weights.block, high_first, "low half of each byte"),
    (weights.block, lambda r: [v + 8 * struct.unpack("<e", r[:2])[0] for v in block(r)], "8 is missing"),
    (weights.block, codes_only, "Multiply them by the scale"),
    (weights.block, big_endian, "little-endian half"),
    (
        weights.block,
        lambda r: [int.from_bytes(r[:2], "little") * c for c in codes_only(r)],
        "not an integer",
    ),
    (weights.block, lambda r: block(r)[:16], "taken apart into two"),
    (weights.block, lambda r: [block(r)[:16], block(r)[16:]], "Return the 32 values"),
    (weights.block, lambda r: [-v for v in block(r)], "Value i (0 to 15)"),
    (weights.quantize, sixteenths, "fifteen gaps"),
    (weights.quantize, truncated, "Round to the nearest"),
    (weights.quantize, symmetric, "own minimum"),
    (weights.quantize, unguarded, "the range is 0"),
    (weights.quantize, lambda v: quantize(v)[2], "three things"),
    (weights.quantize, lambda v: (*quantize(v)[:2], quantize(v)[2][:4]), "three things"),
    (weights.quantize, lambda v: (*quantize(v)[:2], [15 - c for c in quantize(v)[2]]), "Code 0 is"),
    (weights.quantize, lambda v: (*quantize(v)[:2], [c + 0.5 for c in quantize(v)[2]]), "whole numbers"),
    (weights.quantize, lambda v: (quantize(v)[0], max(v), quantize(v)[2]), "Code 0 is the minimum"),
    (weights.first_difference, gaps(lambda d: d.abs().max(), relative=False), "threshold is relative"),
    (weights.first_difference, gaps(lambda d: d.max()), "absolute value"),
    (weights.first_difference, gaps(lambda d: d.abs().mean()), "hides in a mean"),
    (weights.first_difference, largest, "Later layers inherit it"),
    (weights.first_difference, lambda a, b: first_difference(a, b) + 1, "Count from 0"),
    (weights.first_difference, lambda a, b: len(a) - 1, "Return the first index, not the last"),
    (
        weights.first_difference,
        lambda a, b: -1 if first_difference(a, b) == 3 else 2,
        "return the number of layers",
    ),
    (weights.first_difference, lambda a, b: [2], "one whole number"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG, result.message
    assert hint in " ".join(result.message.split()), result.message
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 62


def test_a_changed_input_is_seen():
    def sort(values):
        values.sort()
        return quantize(values)

    assert "Your function changed its input values" in " ".join(weights.quantize(sort).message.split())


def test_the_blocks_of_the_checker_are_the_librarys():
    generator = torch.Generator().manual_seed(1)
    for scale in (0.5, -2.0, 0.011):
        raw = struct.pack("<e", scale) + bytes(torch.randint(256, (16,), generator=generator).tolist())
        assert weights._q4_0(raw) == pytest.approx(block_by_library(raw).tolist())
    values = torch.randn(32, generator=generator)
    scale, low, codes = quantize(values.tolist())
    stored = gguf.quantize(values.numpy(), gguf.GGMLQuantizationType.Q4_1).tobytes()
    half = [struct.unpack("<e", stored[i : i + 2])[0] for i in (0, 2)]
    assert half == pytest.approx([scale, low], rel=1e-3)
    assert [b & 15 for b in stored[4:]] + [b >> 4 for b in stored[4:]] == codes
    assert math.isclose(len(stored) * 8 / 32, 5.0)
