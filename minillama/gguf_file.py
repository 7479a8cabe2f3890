"""What a GGUF file says about itself: fields, and where its tensors lie. No size is believed unseen.

The layout is that of the GGUF specification (versions 2 and 3, little-endian): magic, version, two counts,
the fields, an entry for each tensor, padding, the tensors' bytes. The reader in the library `gguf` makes
several objects for every word of a vocabulary and takes seconds; this one needs a tenth of a second.
"""

import mmap
import os
import struct
from dataclasses import dataclass
from math import prod

import numpy as np

MAGIC, VERSIONS = b"GGUF", (2, 3)
STRING, ARRAY = 8, 9
# Numbers by their type in the file, as struct and numpy call them.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
MOST_DIMENSIONS = 4


@dataclass(frozen=True)
class TensorEntry:
    """`shape` as torch has it, (out, in); `kind` as GGML numbers them; `start` in bytes from `data_start`."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int


class GGUFFile:
    """`fields` {name: value} and `tensors` {name: TensorEntry} of a file; its bytes stay on the disk.

    Raises:
        ValueError: the file ends early, or says something that cannot be. Nothing is allocated for a size
            that the file claims to have before the bytes are known to be there.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._size, self._at = size, 0
        if self._bytes[:4] != MAGIC:
            raise ValueError(f"it starts with {self._bytes[:4]!r}, not with {MAGIC!r}")
        self._at = 4
        version = self._number("I")
        if version not in VERSIONS:
            raise ValueError(f"its version is {version}; 2 and 3 are known, little-endian")
        n_tensors, n_fields = self._number("Q"), self._number("Q")
        self.fields = {}
        for _ in range(n_fields):  # too large a count ends where the bytes end
            name = self._string()
            if name in self.fields:
                raise ValueError(f"field {name!r} stands there twice")
            self.fields[name] = self._value(self._number("I"))
        self.tensors = {}
        for _ in range(n_tensors):
            entry = self._entry()
            if entry.name in self.tensors:
                raise ValueError(f"tensor {entry.name!r} stands there twice")
            self.tensors[entry.name] = entry
        alignment = self.fields.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"general.alignment = {alignment!r} is no power of two")
        self.data_start = -(-self._at // alignment) * alignment

    def read(self, entry: TensorEntry, block: int, block_bytes: int) -> np.ndarray:
        """A tensor's bytes as uint8, (rows, bytes per row); `block` values of a row take `block_bytes`."""
        *rows, columns = entry.shape
        if columns % block:
            raise ValueError(f"a row of {entry.name!r} has {columns} values, which is no multiple of {block}")
        shape = (*rows, columns // block * block_bytes)
        start, count = self.data_start + entry.start, prod(shape)
        if start + count > self._size:
            raise ValueError(f"{entry.name!r} ends at byte {start + count:,}, the file at {self._size:,}")
        return np.frombuffer(self._bytes, np.uint8, count, start).reshape(shape)

    def _take(self, count: int) -> int:
        """Go on by `count` bytes; the place where they start."""
        start = self._at
        if count > self._size - start:
            raise ValueError(
                f"at byte {start:,} it announces {count:,} bytes, {self._size - start:,} are left"
            )
        self._at = start + count
        return start

    def _number(self, code: str):
        return struct.unpack_from("<" + code, self._bytes, self._take(struct.calcsize("<" + code)))[0]

    def _string(self) -> str:
        length = self._number("Q")
        start = self._take(length)
        return self._bytes[start : start + length].decode("utf-8")

    def _value(self, kind: int):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            return self._array(self._number("I"), self._number("Q"))
        if kind not in _NUMBERS:
            raise ValueError(f"at byte {self._at:,} it announces a value of the unknown type {kind}")
        return self._number(_NUMBERS[kind])

    def _array(self, kind: int, count: int) -> list:
        if kind == STRING:
            return [self._string() for _ in range(count)]
        if kind not in _NUMBERS:
            raise ValueError(f"at byte {self._at:,} it announces an array of the unsupported type {kind}")
        code = np.dtype(f"<{_NUMBERS[kind]}" if _NUMBERS[kind] != "?" else "?")
        start = self._take(count * code.itemsize)
        return np.frombuffer(self._bytes, code, count, start).tolist()

    def _entry(self) -> TensorEntry:
        name, n_dims = self._string(), self._number("I")
        if not 1 <= n_dims <= MOST_DIMENSIONS:
            raise ValueError(f"tensor {name!r} has {n_dims} dimensions; 1 to {MOST_DIMENSIONS} are allowed")
        shape = tuple(self._number("Q") for _ in range(n_dims))[
            ::-1
        ]  # the fastest axis comes first in the file
        return TensorEntry(name, shape, self._number("I"), self._number("Q"))
