"""Text as token ids on disk, and batches drawn from them.

A token file is a header, one line of JSON padded with spaces to 512 bytes, then the ids as little-endian
unsigned integers of 2 bytes, or of 4 where the vocabulary needs them. It is mapped into memory, not read:
opening a large file is as quick as opening a small one, and a batch touches only its own pages.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .tokenizer import Tokenizer

_FORMAT, _VERSION = "minillama-tokens", 1
_HEADER_BYTES = 512
_STORED = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


# --- the plays ------------------------------------------------------------------------------------

_MARKUP = re.compile(r"[#*_\\]")  # no play uses one of these characters as text
_WITHOUT_TITLE = {"measure-for-measure": "Measure for Measure"}


def shakespeare_plays(folder: str | os.PathLike) -> list[tuple[str, str]]:
    """The plays in the folder that `minillama.assets.fetch("shakespeare")` returns, as plain text.

    The Markdown loses its markup (`#`, `*`, `_`, backslashes, `&amp;`) and the white space at the ends of
    lines; several empty lines become one. Words and punctuation stay as they are: a speaker's name is a
    line of its own above the speech, stage directions stand between the speeches. Each text starts with the
    title, also where the file leaves it out, and ends with one line feed.

    Returns:
        (title, text) of each play, sorted by title.

    Raises:
        ValueError: no play in the folder, or a file without a title.
    """
    plays = []
    for path in sorted(Path(folder).rglob("*.md")):
        text = path.read_text(encoding="utf-8").strip()
        if not text.startswith("# "):
            if path.stem not in _WITHOUT_TITLE:
                raise ValueError(f"{path} must start with the play's title, '# ...'")
            text = f"# {_WITHOUT_TITLE[path.stem]}\n\n{text}"
        lines = [_MARKUP.sub("", line).strip() for line in text.replace("&amp;", "&").split("\n")]
        plays.append((lines[0], re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"))
    if not plays:
        raise ValueError(f"there is no play (*.md) in {folder}")
    return sorted(plays)


def split_by_play(plays: list, held_out: int = 4) -> tuple[list, list]:
    """(training, validation): whole plays are held out, so that no scene is in both.

    The held-out ones are spread evenly over the list, each in the middle of its share: of the 38 sorted by
    title, these are As You Like It, Henry VI Part 3, Othello and Timon of Athens.

    Raises:
        ValueError: `held_out` < 1, or none would be left to train on.
    """
    n = len(plays)
    if type(held_out) is not int or not 1 <= held_out < n:
        raise ValueError(f"held_out must be an integer from 1 to {n - 1} for {n} plays, got {held_out!r}")
    chosen = {(2 * i + 1) * n // (2 * held_out) for i in range(held_out)}
    training = [play for i, play in enumerate(plays) if i not in chosen]
    return training, [plays[i] for i in sorted(chosen)]


# --- token files ----------------------------------------------------------------------------------


def encode_documents(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The ids of each text, ended by `eos_id`: what `write_tokens` takes."""
    for text in texts:
        yield [*tokenizer.encode(text), tokenizer.eos_id]


def write_tokens(path: str | os.PathLike, documents: Iterable, tokenizer: Tokenizer) -> int:
    """Write the ids of all documents, one after the other, into a token file.

    One document at a time is in memory. The file is written beside its final name and renamed when
    complete, so an interrupted run leaves the old one.

    Args:
        path: the file.
        documents: lists, arrays or tensors of ids, each one-dimensional.
        tokenizer: whose ids they are; its `vocab_size` sets the type, its `sha256` goes into the header.

    Returns:
        The number of tokens.

    Raises:
        TypeError: ids that are no integers.
        ValueError: an id outside 0 .. V - 1, or no token at all. No file is written then.
    """
    path, vocab_size = Path(path), tokenizer.vocab_size
    name = _type_for(vocab_size)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as scratch:
        unfinished = Path(scratch, path.name)
        with unfinished.open("wb") as file:
            file.seek(_HEADER_BYTES)
            count = 0
            for document in documents:
                ids = _ids(document, vocab_size)
                file.write(ids.astype(_STORED[name]).tobytes())
                count += len(ids)
            if count == 0:
                raise ValueError(f"{path} was not written: the documents hold no token")
            header = {
                "format": _FORMAT,
                "version": _VERSION,
                "dtype": name,
                "count": count,
                "vocab_size": vocab_size,
                "tokenizer_sha256": tokenizer.sha256,
            }
            file.seek(0)
            file.write(json.dumps(header).encode().ljust(_HEADER_BYTES - 1) + b"\n")
        os.replace(unfinished, path)
    return count


def read_header(path: str | os.PathLike) -> dict:
    """The header of a token file: format, version, dtype, count, vocab_size, tokenizer_sha256.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no token file, or one whose header contradicts itself or the file's length; named.
    """
    with Path(path).open("rb") as file:
        text = file.read(_HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
    try:
        header = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        header = None
    if len(text) < _HEADER_BYTES or not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a token file: it does not start with the header of {_FORMAT}")
    if header.get("version") != _VERSION:
        raise ValueError(f"{path} has version {header.get('version')!r} of {_FORMAT}, not {_VERSION}")
    for field, most in (("count", 2**62), ("vocab_size", 2**32)):
        value = header.get(field)
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(f"{path}: {field} must be an integer from 1 to {most}, got {value!r}")
    if not isinstance(header.get("tokenizer_sha256"), str):
        raise ValueError(f"{path}: tokenizer_sha256 must be a string, got {header.get('tokenizer_sha256')!r}")
    wanted = _type_for(header["vocab_size"])
    if header.get("dtype") != wanted:
        raise ValueError(
            f"{path}: dtype must be {wanted!r} for {header['vocab_size']} ids, got {header.get('dtype')!r}"
        )
    expected = _HEADER_BYTES + header["count"] * _STORED[wanted].itemsize
    if size != expected:
        fault = "it is cut off" if size < expected else "something was appended"
        raise ValueError(
            f"{path} is {size} bytes long, but {header['count']} tokens need {expected}: {fault}"
        )
    return header


def open_tokens(path: str | os.PathLike, tokenizer: Tokenizer | None = None) -> np.memmap:
    """Map a token file into memory, read-only.

    Args:
        path: the file.
        tokenizer: refuse the file unless it was written with this tokenizer.

    Returns:
        (N,) uint16 or uint32.

    Raises:
        FileNotFoundError: no such file.
        ValueError: as `read_header`, or another tokenizer's file.
    """
    header = read_header(path)
    if tokenizer is not None and header["tokenizer_sha256"] != tokenizer.sha256:
        raise ValueError(
            f"{path} was written with another tokenizer, of {header['vocab_size']} ids and hash "
            f"{header['tokenizer_sha256'][:12]}; the one given has {tokenizer.vocab_size} ids and hash "
            f"{tokenizer.sha256[:12]}: encode the text again"
        )
    stored = _STORED[header["dtype"]]
    return np.memmap(path, dtype=stored, mode="r", offset=_HEADER_BYTES, shape=(header["count"],))


def _type_for(vocab_size: int) -> str:
    """The narrowest stored type that holds every id."""
    for name, stored in _STORED.items():
        if vocab_size <= np.iinfo(stored).max + 1:
            return name
    raise ValueError(f"vocab_size must be at most 2^32, got {vocab_size!r}")


def _ids(document, vocab_size: int) -> np.ndarray:
    """A document as a (n,) integer array, every id checked: a cast would wrap one that is too large."""
    ids = np.asarray(document)
    if ids.ndim != 1:
        raise ValueError(f"a document must be a one-dimensional sequence of ids, got shape {ids.shape}")
    if len(ids) == 0:
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"a document must hold integer ids, got {ids.dtype}")
    for found in (ids.min(), ids.max()):
        if not 0 <= found < vocab_size:
            raise ValueError(f"id {found} is outside 0 .. {vocab_size - 1}")
    return ids


# --- batches --------------------------------------------------------------------------------------


def get_batch(
    tokens: Tensor | np.ndarray,
    batch_size: int,
    seq_len: int,
    generator: torch.Generator | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor]:
    """Draw windows of `tokens` at random: inputs, and as targets the same windows one token later.

    y is shifted already: it goes with `cross_entropy(logits, y)`, never with `labels=`, which would shift
    again. Starts are drawn independently and uniformly from 0 .. N - T - 1, every one that leaves T + 1
    tokens. Memory is that of the batch, however long `tokens` is.

    In distributed training nothing here knows the rank: ranks that should see different data need
    generators with different seeds.

    Args:
        tokens: (N,) integers: a tensor, an array, or what `open_tokens` returns.
        batch_size: B.
        seq_len: T.
        generator: source of the starts; None means torch's own. Its seed decides the batch, on any device.
        device: where x and y go.

    Returns:
        (x, y), both (B, T) int64 with storage of their own.

    Raises:
        TypeError: `tokens` is neither tensor nor array, or does not hold integers.
        ValueError: `tokens` not one-dimensional, N <= T, a size < 1, or an id that int64 cannot hold.
    """
    for name, value in (("batch_size", batch_size), ("seq_len", seq_len)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    if isinstance(tokens, Tensor):
        integers = not (tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool)
    elif isinstance(tokens, np.ndarray):
        integers = tokens.dtype.kind in "iu"
    else:
        raise TypeError(f"tokens must be a tensor or a NumPy array, got {type(tokens).__name__}")
    if not integers:
        raise TypeError(f"tokens must hold integers, got {tokens.dtype}")
    if tokens.ndim != 1:
        raise ValueError(f"tokens must be one-dimensional, got shape {tuple(tokens.shape)}")
    n = len(tokens)
    if n <= seq_len:
        raise ValueError(f"tokens must be longer than seq_len: {n} tokens, seq_len = {seq_len}")
    drawn_on = "cpu" if generator is None else generator.device
    starts = torch.randint(n - seq_len, (batch_size,), generator=generator, device=drawn_on)
    windows = _windows(tokens, starts, seq_len + 1).to(device)  # (B, T + 1)
    x, y = windows[:, :-1], windows[:, 1:]  # (B, T) each, overlapping in memory
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in (x, y))


def _windows(tokens: Tensor | np.ndarray, starts: Tensor, length: int) -> Tensor:
    """(B, length) int64: the tokens from each start on."""
    if isinstance(tokens, Tensor) and tokens.device.type == "cpu":
        tokens = tokens.numpy()  # torch cannot index its unsigned types
    if isinstance(tokens, Tensor):
        starts = starts.to(tokens.device)
        return tokens[starts[:, None] + torch.arange(length, device=tokens.device)].long()
    found = np.stack([tokens[start : start + length] for start in starts.tolist()])
    if found.dtype.kind == "u" and found.max() > np.iinfo(np.int64).max:
        raise ValueError(f"id {found.max()} is too large for int64")
    return torch.from_numpy(found.astype(np.int64))
