"""Text to token ids and back: byte-level byte-pair encoding, over the library `tokenizers`.

The library is optional and is loaded when a tokenizer is made.
"""

import codecs
import hashlib
import json
import operator
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

EOS = "<|endoftext|>"

# GPT-2 (Radford et al. 2019) writes each byte as one visible character: those that are visible in Latin-1
# stand for themselves, the other 68 in their order for the characters from U+0100 on.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = sorted(set(range(256)) - set(_VISIBLE))
_BYTE_OF = {chr(byte): byte for byte in _VISIBLE} | {chr(256 + i): byte for i, byte in enumerate(_HIDDEN)}

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
# How a text is cut before merging (merges never cross a cut), by the names that GGUF files use,
# in the words of the library.
PRE_TOKENIZERS = {
    "gpt-2": _BYTE_LEVEL,
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL],
    },
}


class Tokenizer:
    """Byte-level BPE (Sennrich et al. 2016, arXiv:1508.07909; on bytes: Radford et al. 2019).

    A text is its UTF-8 bytes, nothing is normalized, and every byte is a token: any text comes back exactly.
    `Tokenizer.train` and `Tokenizer.load` make one; the constructor takes the parts that files of other
    programs hold.

    Args:
        vocab: the token of each id, its bytes written as GPT-2's visible characters. A published vocabulary
            may lack rare bytes; `encode` refuses a text that needs one.
        merges: pairs of tokens, or "left right", earlier ones first.
        special_tokens: members of `vocab` that no text produces unless asked to; written plainly.
        eos: the special token that ends a document.
        pre_tokenizer: "gpt-2" cuts before words, numbers, punctuation and white space; "smollm" also
            between digits.

    Attributes:
        vocab_size: V, number of ids.
        eos, eos_id: the token that ends a document, and its id.
        special_ids: {special token: id}.
        sha256: of the parts above. Equal hashes: equal ids for every text.

    Raises:
        ValueError: parts that do not fit together; named.
        ModuleNotFoundError: the library `tokenizers` is not installed.
    """

    def __init__(
        self,
        vocab: Sequence[str],
        merges: Iterable[Sequence[str]],
        *,
        special_tokens: Iterable[str] = (EOS,),
        eos: str = EOS,
        pre_tokenizer: str = "gpt-2",
    ) -> None:
        vocab, special_tokens = list(vocab), list(special_tokens)
        merges = [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in merges]
        _check_parts(vocab, merges, special_tokens, eos, pre_tokenizer)
        ids = {token: i for i, token in enumerate(vocab)}
        self.vocab_size, self.eos, self.eos_id = len(vocab), eos, ids[eos]
        self.special_ids = {token: ids[token] for token in sorted(special_tokens, key=ids.get)}
        self._fields = _fields(ids, merges, self.special_ids, pre_tokenizer)
        canonical = json.dumps([self._fields, eos], sort_keys=True, separators=(",", ":"))
        self.sha256 = hashlib.sha256(canonical.encode()).hexdigest()
        self._bytes = [
            token.encode() if token in self.special_ids else bytes(_BYTE_OF[c] for c in token)
            for token in vocab
        ]
        self._lacking = bytes(byte for char, byte in _BYTE_OF.items() if char not in ids)
        # Of two special tokens that start at the same place the longer one wins: it stands first.
        longest_first = sorted(self.special_ids, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
        self._library = _import_library().Tokenizer.from_str(json.dumps(self._fields))
        self._library.encode_special_tokens = True  # as text: `encode` looks for special tokens itself

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Learn merges: the most frequent pair of neighboring tokens becomes a token, again and again.

        The ids are: 0 `<|endoftext|>`, 1 .. 256 the bytes, then the merges in their order. A pair seen only
        once is not merged, so a short text ends early: the result's `vocab_size` says what it became. Equal
        texts give equal tokenizers.

        Args:
            texts: read once, one after the other; only the counts of their words are kept.
            vocab_size: at most so many ids, >= 257.

        Raises:
            TypeError: `texts` is a single str, or holds something else than str.
            ValueError: `vocab_size` < 257, or a text that is not valid Unicode.
            ModuleNotFoundError: the library `tokenizers` is not installed.
        """
        if type(vocab_size) is not int or vocab_size < len(_BYTE_OF) + 1:
            raise ValueError(
                f"vocab_size must be an integer >= {len(_BYTE_OF) + 1} (the 256 bytes and {EOS}), "
                f"got {vocab_size!r}"
            )
        if isinstance(texts, (str, bytes)):
            raise TypeError("texts must be an iterable of str, got a single one: pass [text]")
        library = _import_library()
        learner = library.Tokenizer(library.models.BPE())
        learner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            initial_alphabet=list(_BYTE_OF),
            special_tokens=[EOS],
            show_progress=False,
        )
        learner.train_from_iterator(_valid(texts), trainer)
        model = json.loads(learner.to_str())["model"]
        return cls(sorted(model["vocab"], key=model["vocab"].get), model["merges"])

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """The ids of a text; `decode` of them is the text.

        Args:
            text: any str that has a UTF-8 form.
            allow_special: whether `<|endoftext|>` in the text becomes its id, the longest special token
                winning where several start; otherwise it is text like any other. Leave it False for texts
                of unknown origin.

        Raises:
            TypeError: not a str.
            ValueError: a lone surrogate, which has no UTF-8 form, or a byte that the vocabulary lacks.
        """
        utf8 = _utf8(text)
        if len(utf8.translate(None, self._lacking)) < len(utf8):  # the library would leave them out
            byte = next(byte for byte in utf8 if byte in self._lacking)
            raise ValueError(f"text needs the byte 0x{byte:02X}, which this vocabulary lacks")
        if not allow_special:
            return self._library.encode(text).ids
        ids = []
        for i, piece in enumerate(self._special.split(text)):  # every second piece is a special token
            ids += [self.special_ids[piece]] if i % 2 else self._library.encode(piece).ids
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        """What one id stands for. Not always valid UTF-8: a character may take several tokens.

        Raises:
            TypeError: no integer.
            ValueError: outside 0 .. V - 1.
        """
        try:
            index = operator.index(token_id)
        except TypeError:
            index = None
        if index is None or isinstance(token_id, bool):
            raise TypeError(f"a token id must be an integer, got {token_id!r}")
        if not 0 <= index < self.vocab_size:
            raise ValueError(f"token id must be from 0 to {self.vocab_size - 1}, got {index}")
        return self._bytes[index]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids` (integers, an array or a tensor, one-dimensional).

        Special tokens appear as their text. Bytes that are no UTF-8, such as half a character at the end,
        become U+FFFD.

        Raises:
            TypeError, ValueError: as `token_bytes`.
        """
        return b"".join(map(self.token_bytes, _plain(ids))).decode("utf-8", errors="replace")

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """`decode` while the ids arrive: pieces of text, none empty, which add up to what `decode` gives.

        A character is held back until its last byte has come.

        Raises:
            TypeError, ValueError: as `token_bytes`.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token_id in _plain(ids):
            if piece := decoder.decode(self.token_bytes(token_id)):
                yield piece
        if piece := decoder.decode(b"", final=True):
            yield piece

    def save(self, path: str | os.PathLike) -> None:
        """Write a `tokenizer.json` that the library `tokenizers` and transformers read too.

        It is written beside its final name and renamed when complete. The format has no place for `eos`.
        """
        path = Path(path)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as scratch:
            file = Path(scratch, path.name)
            file.write_text(json.dumps(self._fields, ensure_ascii=False) + "\n", encoding="utf-8")
            os.replace(file, path)

    @classmethod
    def load(cls, path: str | os.PathLike, *, eos: str = EOS) -> "Tokenizer":
        """Read a `tokenizer.json`: one of `save`, or any that describes a byte-level BPE of these kinds.

        Args:
            path: the file.
            eos: which of its special tokens ends a document.

        Raises:
            FileNotFoundError: no such file.
            ValueError: broken, or a feature this class does not have; the message names the file.
            ModuleNotFoundError: the library `tokenizers` is not installed.
        """
        try:
            fields = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        try:
            return cls(**_read_parts(fields), eos=eos)
        except ValueError as error:
            raise ValueError(f"{path} cannot be used: {error}") from error

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, eos_id={self.eos_id})"


def _plain(ids: Iterable[int]) -> Iterable[int]:
    """An array or a tensor as a list, which is faster to walk through."""
    return ids.tolist() if hasattr(ids, "tolist") else ids


def _utf8(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text must have a UTF-8 form, got the lone surrogate {text[error.start]!r} at {error.start}"
        ) from None


def _valid(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        _utf8(text)
        yield text


def _check_parts(vocab: list, merges: list[list], special_tokens: list, eos: str, pre_tokenizer: str) -> None:
    """What the library would accept in silence, or abort on."""
    if pre_tokenizer not in PRE_TOKENIZERS:
        raise ValueError(f"pre_tokenizer must be one of {', '.join(PRE_TOKENIZERS)}, got {pre_tokenizer!r}")
    for token in [*vocab, *special_tokens]:
        if not isinstance(token, str) or not token:
            raise ValueError(f"a token must be a str that is not empty, got {token!r}")
    ids = {token: i for i, token in enumerate(vocab)}
    if len(ids) < len(vocab):
        twice = next(token for i, token in enumerate(vocab) if ids[token] != i)
        raise ValueError(f"vocab holds {twice!r} twice")
    special = set(special_tokens)
    for token in special_tokens:
        if token not in ids:
            raise ValueError(f"special token {token!r} is not in vocab")
        if token in _BYTE_OF:
            raise ValueError(f"special token {token!r} is one of the 256 bytes")
    if eos not in special:
        raise ValueError(f"eos {eos!r} must be one of the special tokens: {', '.join(special_tokens)}")
    for token in vocab:
        if token not in special and not all(char in _BYTE_OF for char in token):
            raise ValueError(
                f"token {token!r} is neither special nor made of the characters that stand for bytes"
            )
    for pair in merges:
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ValueError(f"a merge must be two tokens, got {pair!r}")
        for token in (*pair, "".join(pair)):
            if token not in ids:
                raise ValueError(f"merge {' '.join(pair)!r} needs {token!r}, which is not in vocab")
        if "".join(pair) in special:
            raise ValueError(f"merge {' '.join(pair)!r} would make the special token {''.join(pair)!r}")


def _import_library():
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a Tokenizer needs the library tokenizers, which is not installed: "
            "python -m pip install 'tokenizers>=0.20'",
            name="tokenizers",
        ) from error
    return tokenizers


def _fields(ids: dict[str, int], merges: list[list[str]], special_ids: dict[str, int], pre_tokenizer: str):
    """The content of a `tokenizer.json`."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": i, "content": token, **flags, "special": True} for token, i in special_ids.items()]
    nothing = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    off = ("fuse_unk", "byte_fallback", "ignore_merges")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[pre_tokenizer],
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            **dict.fromkeys(nothing),
            **dict.fromkeys(off, False),
            "vocab": ids,
            "merges": merges,
        },
    }


def _read_parts(fields) -> dict:
    """The constructor's arguments from the content of a `tokenizer.json`; what is unsupported is refused."""
    model = fields.get("model") if isinstance(fields, dict) else None
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise ValueError("it holds no BPE model")
    refused = {name: fields.get(name) for name in ("truncation", "padding", "normalizer")}
    for name in ("post_processor", "decoder"):
        kind = fields.get(name)
        harmless = isinstance(kind, dict) and kind.get("type") == "ByteLevel"
        refused[name] = None if harmless else kind
    known = {"type", "vocab", "merges"}
    refused |= {name: value or None for name, value in model.items() if name not in known}
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"{name} = {value!r} is not supported")

    vocab, merges, added = model.get("vocab"), model.get("merges"), fields.get("added_tokens")
    if not isinstance(vocab, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise ValueError("vocab must be an object, merges and added_tokens must be lists")
    for token in added:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise ValueError(f"added token {token!r} has no content")
        if not token.get("special") or any(token.get(name) for name in ("single_word", "lstrip", "rstrip")):
            raise ValueError(f"added token {token!r} must be special and must leave its neighbors alone")
    vocab = vocab | {token["content"]: token.get("id") for token in added}
    if any(type(i) is not int for i in vocab.values()) or sorted(vocab.values()) != [*range(len(vocab))]:
        raise ValueError(f"the ids of vocab and added_tokens must be 0 .. {len(vocab) - 1}, each once")
    if not all(isinstance(pair, (str, list)) for pair in merges):
        raise ValueError("merges must be pairs of tokens")
    names = [name for name, known in PRE_TOKENIZERS.items() if known == fields.get("pre_tokenizer")]
    if not names:
        raise ValueError(f"pre_tokenizer = {fields.get('pre_tokenizer')!r} is not supported")
    return {
        "vocab": sorted(vocab, key=vocab.get),
        "merges": merges,
        "special_tokens": [token["content"] for token in added],
        "pre_tokenizer": names[0],
    }
