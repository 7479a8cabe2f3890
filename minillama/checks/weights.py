"""Checkers of the exercises on checkpoints."""

import json
import math
import struct

import torch

from .machinery import Attempt, checker, close, show

NOT_A_DICT = "Return a dict: {name: shape}, the shape as a tuple or list of whole numbers."
BIG_END = (
    "The length is little-endian: its first byte counts ones. int.from_bytes(data[:8], 'little') reads it."
)
NO_LENGTH = (
    "The JSON text starts at byte 8, behind the length, and ends with the header: cut out exactly that."
)
METADATA = "'__metadata__' is an entry of the header, and no tensor: leave it out."
WHOLE_ENTRY = "That is each tensor's whole entry. Return its 'shape' only."
FROM_OFFSETS = "A shape does not follow from the offsets; it stands in the entry, under 'shape'."

PAIRED = "A byte holds values i and i + 16, not neighbors: first the 16 low halves, then the 16 high ones."
HIGH_FIRST = "The low half of each byte (byte & 15) comes first, the high half (byte >> 4) is value i + 16."
NO_EIGHT = "8 is missing: a code from 0 to 15 stands for code − 8, so that zero lies on the ladder."
NO_SCALE = "These are the codes, less 8. Multiply them by the scale."
SCALE_BIG_END = "The scale is a little-endian half: struct.unpack('<e', raw[:2])."
SCALE_AS_INT = (
    "The scale's two bytes are a half-precision float, not an integer: struct.unpack('<e', raw[:2])."
)
HALF_A_BLOCK = "16 bytes hold 32 codes: each byte is taken apart into two."
TWO_SCALES = "The bias of a Q4_0 block is fixed. Only two bytes stand before the codes."

TRUNCATED = "Round to the nearest step; int() rounds towards zero and doubles the typical error."
SIXTEEN = "Sixteen steps of the ladder enclose fifteen gaps: divide the range by 15."
SYMMETRIC = "The ladder stands on the block's own minimum and ends at its maximum; it need not contain zero."
FLAT = "All values are equal, so the range is 0: divide by nothing, and let every code be 0."
THREE = "Return three things: scale, minimum, and the list of codes."
NOT_WHOLE = "Codes are whole numbers from 0 to 15."
UPSIDE_DOWN = "Code 0 is the minimum, and codes grow with the values."

ABSOLUTE = "The threshold is relative: 1e-3 times the root mean square of theirs in this layer."
SIGNED = "A difference may be negative: take its absolute value before the largest."
MEAN = "One wrong entry among thousands hides in a mean. Take the largest difference."
LARGEST = "That is where the difference is largest. Later layers inherit it: return where it begins."
FROM_ONE = "Count from 0: the first layer has the index 0."
LAST = "Return the first index, not the last."
AGREE = "Nowhere is the threshold passed: return the number of layers, L."


def _safetensors(shapes: dict, metadata: dict | None = None, padding: int = 0) -> bytes:
    entries, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    if metadata is not None:
        entries = {"__metadata__": metadata, **entries}
    text = json.dumps(entries).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + bytes(end)


@checker("weights.header", 1)
def header(attempt: Attempt) -> None:
    """`fn(data)` returns {name: shape} of the tensors in the bytes of a safetensors file."""
    cases = [
        _safetensors({"norm.weight": (4,)}),
        _safetensors({"embed": (3, 2), "norm": (2,)}, {"format": "pt"}),
        _safetensors({"scalar": (), "empty": (0, 5)}, padding=5),
        _safetensors({"größe": (2, 1, 3)}, {"note": "{}"}),
        _safetensors({}),
        _safetensors({f"layers.{i}.w": (i, 2) for i in range(9)}, padding=2),
    ]
    for data in cases:
        length = int.from_bytes(data[:8], "little")
        entries = json.loads(data[8 : 8 + length])
        tensors = {name: entry for name, entry in entries.items() if name != "__metadata__"}
        expected = {name: tuple(entry["shape"]) for name, entry in tensors.items()}
        errors = {
            json.JSONDecodeError: NO_LENGTH,
            UnicodeDecodeError: NO_LENGTH,
            MemoryError: BIG_END,
            OverflowError: BIG_END,
            KeyError: METADATA,
        }
        got = attempt(data=data, on_error=errors)
        if not isinstance(got, dict):
            attempt.fail(str(expected), show(got), NOT_A_DICT)
        if got == expected or {name: _as_tuple(shape) for name, shape in got.items()} == expected:
            continue
        hint = NOT_A_DICT
        if "__metadata__" in got:
            hint = METADATA
        elif got == tensors:
            hint = WHOLE_ENTRY
        elif {name: _as_tuple(shape) for name, shape in got.items()} == {
            name: tuple(entry["data_offsets"]) for name, entry in tensors.items()
        }:
            hint = FROM_OFFSETS
        attempt.fail(str(expected), _short(got), hint)


def _as_tuple(shape):
    return tuple(shape) if isinstance(shape, list | tuple | torch.Size) else shape


def _short(value) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}…"


def _q4_0(raw: bytes, *, bias=8, scaled=True, order="<e") -> list[float]:
    scale = struct.unpack(order, raw[:2])[0] if scaled else 1.0
    codes = [byte & 15 for byte in raw[2:]] + [byte >> 4 for byte in raw[2:]]
    return [scale * (code - bias) for code in codes]


@checker("weights.block", 2)
def block(attempt: Attempt) -> None:
    """`fn(raw)` returns the 32 values of the 18 bytes of a Q4_0 block."""
    seeded = torch.Generator().manual_seed(0)
    for scale in (0.5, -0.0625, 0.011, 1.0, 0.0, 3.25):
        codes = bytes(torch.randint(256, (16,), generator=seeded).tolist())
        raw = struct.pack("<e", scale) + codes
        got = attempt(raw=raw)
        expected = _q4_0(raw)
        if torch.is_tensor(got) or type(got).__module__ == "numpy":
            got = got.tolist()
        if isinstance(got, tuple):
            got = list(got)
        if not isinstance(got, list) or len(got) != 32:
            short = isinstance(got, list) and len(got) == 16
            attempt.fail(
                show(expected), show(got), HALF_A_BLOCK if short else "Return the 32 values as a list."
            )
        if isinstance(got[0], list | tuple):
            attempt.fail(show(expected), show(got), "Return one flat list of 32 numbers.")
        pairs = [scaled for i in range(16) for scaled in (expected[i], expected[i + 16])]
        swapped = [scaled for i in range(16) for scaled in (expected[i + 16], expected[i])]
        as_int = int.from_bytes(raw[:2], "little")
        plain = _q4_0(raw, scaled=False)
        wrong = [
            (pairs, PAIRED),
            (swapped, PAIRED),
            (expected[16:] + expected[:16], HIGH_FIRST),
            (_q4_0(raw, bias=0), NO_EIGHT),
            (plain, NO_SCALE),
            (_q4_0(raw, order=">e"), SCALE_BIG_END),
            ([as_int * value for value in plain], SCALE_AS_INT),
        ]
        hint = "Value i (0 to 15) is scale · (low half of byte i − 8), value i + 16 takes the high half."
        attempt.match([float(v) for v in got], expected, close, wrong=wrong, hint=hint)


def _steps(values: list[float], scale: float, low: float, rounded=round) -> list[int]:
    return [0 if scale == 0 else rounded((v - low) / scale) for v in values]


@checker("weights.quantize", 3)
def quantize(attempt: Attempt) -> None:
    """`fn(values)` returns (scale, minimum, codes) of a Q4_1 block, codes from 0 to 15."""
    seeded = torch.Generator().manual_seed(0)

    def random(offset, spread):
        return (offset + spread * torch.randn(32, generator=seeded, dtype=torch.float64)).tolist()

    ladder = [0.25 * (i % 16) - 2 for i in range(32)]
    for values in (ladder, random(0, 1), random(5, 0.1), random(-0.02, 0.01), [0.75] * 32, random(0, 100)):
        got = attempt(values=values, on_error={ZeroDivisionError: FLAT})
        low, high = min(values), max(values)
        scale = (high - low) / 15
        codes = _steps(values, scale, low)
        if not isinstance(got, tuple | list) or len(got) != 3:
            attempt.fail("(scale, minimum, codes)", show(got), THREE)
        found_scale, found_low, found_codes = (
            x.tolist() if hasattr(x, "tolist") else x for x in got
        )  # tensors, arrays
        if not isinstance(found_codes, list | tuple) or len(found_codes) != len(values):
            attempt.fail(f"codes {show(codes)}", f"codes {show(found_codes)}", THREE)
        found_codes = list(found_codes)
        if scale == 0 and any(not isinstance(c, int | float) or c != 0 for c in found_codes):
            attempt.fail(f"codes {show(codes)}", f"codes {show(found_codes)}", FLAT)
        most = max(abs(v) for v in values)
        for name, expected, came, wrong in (
            ("minimum", low, found_low, [(-most, SYMMETRIC), (0.0, SYMMETRIC), (high, UPSIDE_DOWN)]),
            (
                "scale",
                scale,
                found_scale,
                [((high - low) / 16, SIXTEEN), (2 * most / 15, SYMMETRIC), (most / 7, SYMMETRIC)],
            ),
        ):
            if scale == 0 and name == "scale" and isinstance(came, int | float) and math.isfinite(came):
                continue  # any scale will do where all codes are 0
            hint = "The ladder stands on the minimum; its scale is (maximum − minimum) / 15."
            attempt.match(came, expected, _near, wrong=wrong, hint=hint, what=name)
        if any(c != int(c) for c in found_codes if isinstance(c, float)):
            attempt.fail(f"codes {show(codes)}", f"codes {show(found_codes)}", NOT_WHOLE)
        wrong = [
            (_steps(values, scale, low, int), TRUNCATED),
            (_steps(values, scale, low, math.ceil), TRUNCATED),
            ([15 - c for c in codes], UPSIDE_DOWN),
        ]
        hint = "A code is (value − minimum) / scale, rounded to the nearest whole number."
        attempt.match([int(c) for c in found_codes], codes, _equal, wrong=wrong, hint=hint, what="codes")


def _near(a, b) -> bool:
    numbers = all(isinstance(x, int | float) for x in (a, b))
    return numbers and abs(a - b) <= 1e-9 + 1e-5 * abs(b)


def _equal(a, b) -> bool:
    return list(a) == list(b)


TOLERANCE = 1e-3


def _gaps(ours, theirs, size=None) -> list[float]:
    size = size or (lambda a, b: (a - b).abs().max())
    return [(size(a, b) / b.pow(2).mean().sqrt()).item() for a, b in zip(ours, theirs, strict=True)]


def _first(gaps) -> int:
    return next((i for i, gap in enumerate(gaps) if gap > TOLERANCE), len(gaps))


@checker("weights.first_difference", 4)
def first_difference(attempt: Attempt) -> None:
    """`fn(ours, theirs)`, both (L, T, C), returns the index of the first layer where they differ."""
    seeded = torch.Generator().manual_seed(0)

    def noise(*shape):
        return torch.randn(*shape, generator=seeded)

    def case(level, faults):
        """Levels of the stream, and {index: what is added to ours}."""
        theirs = torch.tensor(level)[:, None, None] * noise(len(level), 5, 8)
        size = theirs.pow(2).mean((1, 2), keepdim=True).sqrt()  # (L, 1, 1)
        ours = theirs + 1e-6 * size * noise(*theirs.shape)
        for i, change in faults.items():
            ours[i] += change * size[i]
        return ours, theirs

    spike = torch.zeros(5, 8)
    spike[3, 2] = 1.0
    fault = noise(5, 8)
    cases = [
        case([1.0] * 6, {2: 0.5 * fault, 3: fault, 4: 5 * fault, 5: fault}),
        case([1e3, 1e3, 1e3], {}),  # rounding of large numbers is no fault
        case([1e-4, 1e-4, 1e-4], {1: fault, 2: fault}),
        case([1.0, 1.0, 1.0], {0: -0.5 * spike, 1: 3 * spike, 2: 5 * spike}),  # a negative one
        case([0.1, 1.0, 40.0, 900.0], {1: 0.02 * spike, 3: 3 * spike}),  # a single entry
    ]
    for ours, theirs in cases:
        got = attempt(ours=ours, theirs=theirs)
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        gaps = _gaps(ours, theirs)
        expected, count = _first(gaps), len(gaps)
        if not isinstance(got, int) or isinstance(got, bool):
            attempt.fail(show(expected), show(got), "Return one whole number, an index.")
        absolute = [(a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)]
        beyond = [i for i, gap in enumerate(gaps) if gap > TOLERANCE]
        wrong = [
            (_first(absolute), ABSOLUTE),
            (_first(_gaps(ours, theirs, lambda a, b: (a - b).max())), SIGNED),
            (_first(_gaps(ours, theirs, lambda a, b: (a - b).abs().mean())), MEAN),
            (max(range(count), key=gaps.__getitem__), LARGEST),
            (expected + 1, FROM_ONE),
            (beyond[-1] if beyond else -2, LAST),
        ]
        hint = (
            "Go through the layers from the first; stop where the largest |difference| passes the threshold."
        )
        if expected == count:
            hint = AGREE
            wrong = [(_first(absolute), ABSOLUTE)]
        attempt.match(got, expected, _equal_numbers, wrong=wrong, hint=hint)


def _equal_numbers(a, b) -> bool:
    return a == b
