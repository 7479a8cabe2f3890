"""Byte-level BPE: every text comes back, nothing is special unless asked for, broken files are refused."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
import torch
from transformers import PreTrainedTokenizerFast

from minillama.tokenizer import EOS, Tokenizer

CORPUS = [
    "the low lower lowest, the new newer newest; wide wider widest\n" * 4,
    "他說：「你好，世界。」 " * 4,
    "naïve façade 🙂🙃 don't  won't\t\r\n" * 4,
]
AWKWARD = [
    "",
    " ",
    " leading and trailing ",
    "\n\n\r\n\t\v\f",
    "\x00 and \x00\x01\x7f",
    "你好，世界",
    "🙂👨‍👩‍👧‍👦🏳️‍🌈",
    "e\u0301 is not é, ﬁ is not fi, Å is not Å",  # a normalization would join or split some of them
    "\u00a0\u2003\u3000\u200b\u2028\ufeff\u0085",
    "\ufffd\uffff\U0010ffff",
    "''s 'S 12345 x1y2",
    "ÿĀġĠ Ċ",  # the very characters that stand for bytes
    EOS,
    f"a{EOS}{EOS}b<|endof",
    "a" * 5000,
]


@pytest.fixture(scope="module")
def trained():
    return Tokenizer.train(CORPUS, 320)


def parts(special=(EOS,), words=()):
    """A vocabulary of the special tokens, the 256 bytes in the library's order, and `words`."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return [*special, *letters, *words]


def random_text(rng, length):
    """Code points from all over Unicode, the rare long ones as often as ASCII."""
    ranges = [(0, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000)]
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(length))


# --- training -------------------------------------------------------------------------------------


def test_merges_by_hand():
    # Words (a space belongs to the word behind it): "ab" once, " ab" twice, " abc" twice. The pair a,b occurs
    # 5 times; then " ",ab 4 times; then " ab",c twice. Nothing is left to merge.
    tokenizer = Tokenizer.train(["ab ab ab abc abc"], 1000)
    assert tokenizer.vocab_size == 257 + 3
    assert [tokenizer.token_bytes(i) for i in range(257, 260)] == [b"ab", b" ab", b" abc"]
    assert tokenizer.encode("ab abc") == [257, 259]


def test_ids_are_the_end_then_the_bytes_then_the_merges(trained):
    assert (trained.eos, trained.eos_id) == (EOS, 0)
    assert trained.special_ids == {EOS: 0}
    assert sorted(trained.token_bytes(i) for i in range(1, 257)) == [bytes([b]) for b in range(256)]
    assert all(len(trained.token_bytes(i)) >= 2 for i in range(257, trained.vocab_size))
    assert trained.vocab_size == 320


@pytest.mark.parametrize("text, size", [("ab", 257), ("", 257), ("abab ab", 258)])
def test_it_stops_when_no_pair_occurs_twice(text, size):
    tokenizer = Tokenizer.train([text], 300)
    assert tokenizer.vocab_size == size
    assert tokenizer.decode(tokenizer.encode("abab 你")) == "abab 你"


def test_no_text_at_all_leaves_the_bytes():
    assert Tokenizer.train([], 300).vocab_size == 257


def test_training_is_deterministic_and_reads_an_iterator_once():
    first = Tokenizer.train(CORPUS * 20, 330)
    again = Tokenizer.train(iter(CORPUS * 20), 330)
    other_process = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from minillama.tokenizer import *\nprint(Tokenizer.train({CORPUS!r} * 20, 330).sha256)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert first.sha256 == again.sha256 == other_process.stdout.strip()


@pytest.mark.parametrize("vocab_size", [0, 255, 256, 257.0, True, "300", None, -1])
def test_a_vocabulary_too_small_for_the_bytes_is_refused(vocab_size):
    with pytest.raises(ValueError, match=rf"vocab_size must be an integer >= 257 .*, got {vocab_size!r}"):
        Tokenizer.train(CORPUS, vocab_size)


@pytest.mark.parametrize("vocab_size", [257, 258])
def test_the_smallest_vocabularies(vocab_size):
    tokenizer = Tokenizer.train(CORPUS, vocab_size)
    assert tokenizer.vocab_size == vocab_size
    for text in AWKWARD:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_what_is_no_text_is_refused():
    with pytest.raises(TypeError, match=r"pass \[text\]"):
        Tokenizer.train("one text", 300)
    with pytest.raises(TypeError, match="text must be a str, got int"):
        Tokenizer.train(["fine", 3], 300)
    with pytest.raises(ValueError, match="lone surrogate"):
        Tokenizer.train(["fine", "broken \ud800"], 300)

    def failing():
        yield "fine"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        Tokenizer.train(failing(), 300)


def test_a_special_token_in_the_training_text_is_text():
    tokenizer = Tokenizer.train([f"a {EOS} b {EOS} " * 9], 400)
    assert tokenizer.special_ids == {EOS: 0}
    assert 0 not in tokenizer.encode(EOS) and len(tokenizer.encode(EOS)) < len(EOS)


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_come_back(trained, text):
    ids = trained.encode(text)
    assert trained.decode(ids) == text
    assert all(type(i) is int and 0 < i < trained.vocab_size for i in ids)
    assert trained.decode(trained.encode(text, allow_special=True)) == text


def test_random_texts_come_back(trained):
    rng = random.Random(0)
    for length in [*range(40)] * 20:
        text = random_text(rng, length)
        ids = trained.encode(text)
        assert trained.decode(ids) == text == "".join(trained.stream(ids))
        assert b"".join(map(trained.token_bytes, ids)) == text.encode()


def test_the_library_agrees(trained, tmp_path):
    trained.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), eos_token=EOS)
    assert theirs.eos_token_id == trained.eos_id and len(theirs) == trained.vocab_size
    rng = random.Random(1)
    for text in [*AWKWARD, *(random_text(rng, 30) for _ in range(50))]:
        ids = trained.encode(text, allow_special=True)
        assert ids == library.encode(text).ids == theirs(text, add_special_tokens=False)["input_ids"]
        assert library.decode(ids, skip_special_tokens=False) == text


def test_a_text_without_a_utf8_form_is_refused(trained):
    for allowed in (False, True):
        with pytest.raises(ValueError, match=r"lone surrogate '\\udc80' at 3"):
            trained.encode("abc\udc80", allow_special=allowed)
    for wrong in (b"bytes", None, 3, ["a"]):
        with pytest.raises(TypeError, match="text must be a str"):
            trained.encode(wrong)


def test_ids_may_come_as_list_iterator_array_or_tensor(trained):
    text = "lower 你好"
    ids = trained.encode(text)
    for form in (
        ids,
        tuple(ids),
        iter(ids),
        np.array(ids, np.uint16),
        torch.tensor(ids),
        [np.int64(i) for i in ids],
    ):
        assert trained.decode(form) == text
    assert trained.decode([]) == trained.decode(torch.tensor([], dtype=torch.int64)) == ""


def test_ids_are_checked_on_both_sides(trained):
    last = trained.vocab_size - 1
    assert trained.decode([0, last]) == EOS + trained.decode([last])
    for bad in (-1, last + 1, 70000):
        with pytest.raises(ValueError, match=rf"token id must be from 0 to {last}, got {bad}"):
            trained.decode([1, bad])
        with pytest.raises(ValueError, match=f"got {bad}"):
            list(trained.stream([1, bad]))
    for bad in (1.0, "1", None, True, [1]):
        with pytest.raises(TypeError, match="a token id must be an integer"):
            trained.decode([bad])
    with pytest.raises(TypeError, match="a token id must be an integer"):
        trained.decode(torch.tensor([[1, 2], [3, 4]]))


# --- decoding piece by piece ----------------------------------------------------------------------


def test_a_character_waits_for_its_last_byte():
    plain = Tokenizer.train([], 257)  # every byte a token
    assert list(plain.stream(plain.encode("a好🙂!"))) == ["a", "好", "🙂", "!"]


def test_the_stream_does_not_wait_for_the_end(trained):
    arrived = []

    def ids():
        for token_id in trained.encode("one 🙂 two"):
            arrived.append(token_id)
            yield token_id

    stream = trained.stream(ids())
    assert next(stream) == "o" and len(arrived) == 1
    assert "o" + "".join(stream) == "one 🙂 two"


def test_half_a_character_becomes_one_replacement(trained):
    plain = Tokenizer.train([], 257)
    three_of_four = plain.encode("🙂")[:3]
    assert plain.decode(three_of_four) == "\ufffd"
    assert list(plain.stream(three_of_four)) == ["\ufffd"]
    assert plain.decode([*three_of_four, *plain.encode("x")]) == "\ufffdx"


def test_pieces_add_up_to_decode_for_any_ids(trained):
    rng = random.Random(2)
    for length in [*range(30)] * 30:  # mostly no UTF-8
        ids = [rng.randrange(trained.vocab_size) for _ in range(length)]
        pieces = list(trained.stream(ids))
        assert "".join(pieces) == trained.decode(ids)
        assert all(pieces)


# --- special tokens -------------------------------------------------------------------------------

SHORT, LONG = "<|e|>", "<|e|><|e|>"


@pytest.mark.parametrize("special", [[SHORT, LONG], [LONG, SHORT]])
def test_the_longest_special_token_wins(special):
    tokenizer = Tokenizer(parts(special), [], special_tokens=special, eos=SHORT)
    short, long = tokenizer.special_ids[SHORT], tokenizer.special_ids[LONG]
    a, b = tokenizer.encode("a"), tokenizer.encode("b")
    assert tokenizer.encode(f"a{LONG}b", allow_special=True) == [*a, long, *b]
    assert tokenizer.encode(f"{SHORT}a{LONG}{SHORT}", allow_special=True) == [short, *a, long, short]
    assert tokenizer.encode("<|e|", allow_special=True) == tokenizer.encode("<|e|")
    assert tokenizer.decode([*a, long, *b]) == f"a{LONG}b"


def test_no_special_id_appears_unless_allowed():
    tokenizer = Tokenizer(parts([SHORT, LONG]), [], special_tokens=[SHORT, LONG], eos=SHORT)
    text = f"a{LONG}b{SHORT}"
    ids = tokenizer.encode(text)
    assert not set(ids) & set(tokenizer.special_ids.values())
    assert tokenizer.decode(ids) == text
    with pytest.raises(TypeError):
        tokenizer.encode(text, True)  # by keyword only


def test_special_tokens_are_no_patterns():
    special = ["<.*>", "(", EOS]  # "(" is a byte: refused, see below
    tokenizer = Tokenizer(parts(["<.*>", EOS]), [], special_tokens=["<.*>", EOS])
    assert tokenizer.encode("<abc>", allow_special=True) == tokenizer.encode("<abc>")
    assert tokenizer.encode("<.*>", allow_special=True) == [tokenizer.special_ids["<.*>"]]
    with pytest.raises(ValueError, match=r"special token '\(' is one of the 256 bytes"):
        Tokenizer(parts(["<.*>", EOS]), [], special_tokens=special)


# --- made from parts ------------------------------------------------------------------------------


def test_merges_as_pairs_or_as_words():
    vocab = parts(words=["ab", "Ġab", "abc"])
    pairs = [("a", "b"), ("Ġ", "ab"), ("ab", "c")]
    tokenizer = Tokenizer(vocab, pairs)
    assert tokenizer.encode(" abc ab") == [
        tokenizer.vocab_size - 2,
        *tokenizer.encode("c"),
        tokenizer.vocab_size - 2,
    ]
    assert Tokenizer(vocab, [" ".join(pair) for pair in pairs]).sha256 == tokenizer.sha256


def test_digits_apart():
    vocab, merges = parts(words=["12", "Ġ1"]), ["1 2", "Ġ 1"]
    one, two, space = (Tokenizer(vocab, merges).encode(c)[0] for c in "12 ")
    assert Tokenizer(vocab, merges).encode("12 1") == [257, 258]
    assert Tokenizer(vocab, merges, pre_tokenizer="smollm").encode("12 1") == [one, two, space, one]


def test_a_byte_that_the_vocabulary_lacks_is_refused_and_never_left_out():
    vocab = [token for token in parts() if token not in ("Ą", "ñ")]  # bytes 0x04 and 0xF1
    tokenizer = Tokenizer(vocab, [])
    assert tokenizer.decode(tokenizer.encode("\x03\x05 ñ 🙂")) == "\x03\x05 ñ 🙂"  # ñ is C3 B1
    for text, byte in (("a\x04", "0x04"), ("\U00050000", "0xF1")):
        for allowed in (False, True):
            with pytest.raises(ValueError, match=f"text needs the byte {byte}"):
                tokenizer.encode(text, allow_special=allowed)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(vocab=[*parts(), "a"]), "vocab holds 'a' twice"),
        (dict(vocab=[*parts(), ""]), "a token must be a str that is not empty, got ''"),
        (dict(vocab=[*parts(), 7]), "a token must be a str that is not empty, got 7"),
        (dict(vocab=[*parts(), "a b"]), "'a b' is neither special nor made of the characters"),
        (dict(merges=["a b"]), "merge 'a b' needs 'ab', which is not in vocab"),
        (dict(merges=["a 好"]), "merge 'a 好' needs '好', which is not in vocab"),
        (dict(merges=["a"]), r"a merge must be two tokens, got \['a'\]"),
        (dict(merges=["a b c"]), "a merge must be two tokens"),
        (dict(merges=[("a", 1)]), "a merge must be two tokens"),
        (
            dict(vocab=parts(["<<", EOS]), merges=["< <"], special_tokens=["<<", EOS]),
            "would make the special",
        ),
        (dict(special_tokens=["<|x|>", EOS]), r"special token '<\|x\|>' is not in vocab"),
        (dict(special_tokens=["a", EOS]), "special token 'a' is one of the 256 bytes"),
        (dict(eos="<|end|>"), r"eos '<\|end\|>' must be one of the special tokens: <\|endoftext\|>"),
        (dict(special_tokens=[]), "must be one of the special tokens"),
        (dict(pre_tokenizer="llama"), "pre_tokenizer must be one of gpt-2, smollm, got 'llama'"),
    ],
)
def test_parts_that_do_not_fit_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer(**(dict(vocab=parts(), merges=[]) | change))


# --- identity -------------------------------------------------------------------------------------


def test_the_hash_is_a_fixed_function_of_the_parts():
    # Token files carry it: a change of this number makes every file written before unreadable.
    base = Tokenizer(parts(words=["ab"]), ["a b"])
    assert base.sha256 == "c70199f6a499ce62e5296b7253a1dc6d77ddf24a0d2cc725b0f66af1cab783c0"
    assert (
        len(
            {
                t.sha256
                for t in (
                    base,
                    Tokenizer(parts(words=["ab"]), []),
                    Tokenizer(parts(words=["ba"]), ["b a"]),
                    Tokenizer(parts(words=["ab"]), ["a b"], pre_tokenizer="smollm"),
                    Tokenizer(parts([EOS, SHORT], words=["ab"]), ["a b"], special_tokens=[EOS, SHORT]),
                    Tokenizer(
                        parts([EOS, SHORT], words=["ab"]), ["a b"], special_tokens=[EOS, SHORT], eos=SHORT
                    ),
                )
            }
        )
        == 6
    )


def test_it_says_what_it_is(trained):
    assert repr(trained) == "Tokenizer(vocab_size=320, eos_id=0)"


# --- files ----------------------------------------------------------------------------------------


def test_save_and_load(trained, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("an older file")
    trained.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    loaded = Tokenizer.load(str(path))
    assert loaded.sha256 == trained.sha256
    assert loaded.encode("lower 你好🙂") == trained.encode("lower 你好🙂")


def test_loading_another_end_of_document(tmp_path):
    tokenizer = Tokenizer(
        parts([EOS, SHORT]), [], special_tokens=[EOS, SHORT], eos=SHORT, pre_tokenizer="smollm"
    )
    tokenizer.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json", eos=SHORT).sha256 == tokenizer.sha256
    assert Tokenizer.load(tmp_path / "t.json").eos_id == 0
    with pytest.raises(ValueError, match=r"t\.json cannot be used: eos '<\|x\|>' must be one of"):
        Tokenizer.load(tmp_path / "t.json", eos="<|x|>")


def test_an_interrupted_save_leaves_the_old_file(trained, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    trained.save(path)
    before = path.read_bytes()

    def disk_full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", disk_full)
    with pytest.raises(OSError, match="no space"):
        trained.save(path)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [path.name]


def test_files_that_the_library_writes_are_read(tmp_path):
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    library.train_from_iterator(CORPUS, trainer)
    library.add_special_tokens([EOS, SHORT])  # behind the vocabulary, as published files often have them
    library.save(str(tmp_path / "t.json"))
    ours = Tokenizer.load(tmp_path / "t.json")
    assert (ours.vocab_size, ours.eos_id, ours.special_ids[SHORT]) == (302, 300, 301)
    for text in AWKWARD:
        assert ours.encode(text, allow_special=True) == library.encode(text).ids


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: f.update(normalizer={"type": "NFC"}), "normalizer = {'type': 'NFC'} is not supported"),
        (lambda f: f.update(truncation={"max_length": 4}), "truncation"),
        (lambda f: f.update(post_processor={"type": "TemplateProcessing"}), "post_processor"),
        (lambda f: f.update(decoder={"type": "WordPiece"}), "decoder"),
        (lambda f: f.update(pre_tokenizer={"type": "Whitespace"}), "pre_tokenizer = {'type': 'Whitespace'}"),
        (lambda f: f.update(pre_tokenizer=None), "pre_tokenizer = None is not supported"),
        (lambda f: f["pre_tokenizer"].update(add_prefix_space=True), "pre_tokenizer"),
        (lambda f: f["model"].update(type="WordPiece"), "it holds no BPE model"),
        (lambda f: f["model"].update(dropout=0.1), "dropout = 0.1 is not supported"),
        (lambda f: f["model"].update(byte_fallback=True), "byte_fallback = True"),
        (lambda f: f["model"].update(ignore_merges=True), "ignore_merges = True"),
        (lambda f: f["model"].update(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (lambda f: f["model"].update(a_new_feature=True), "a_new_feature = True is not supported"),
        (lambda f: f.pop("model"), "it holds no BPE model"),
        (lambda f: f["model"].pop("vocab"), "vocab must be an object"),
        (lambda f: f["model"].update(vocab={}), "must be 0 .. 0|not in vocab"),
        (lambda f: f["model"]["vocab"].update(x=5), "must be 0 .. 319, each once"),
        (lambda f: f["model"]["vocab"].update(zzz=400), "must be 0 .. 320, each once"),
        (lambda f: f["model"]["vocab"].update(x="5"), "must be 0 .. 319, each once"),
        (lambda f: f["model"]["vocab"].update({"\ud800": 320}), "neither special nor made"),
        (lambda f: f["model"].update(merges=[3]), "merges must be pairs"),
        (lambda f: f["model"]["merges"].append(["q", "q"]), "merge 'q q' needs 'qq'"),
        (lambda f: f["model"]["merges"].append(["q"]), "a merge must be two tokens"),
        (lambda f: f.update(added_tokens=[]), "must be one of the special tokens"),
        (lambda f: f.update(added_tokens=None), "must be lists"),
        (lambda f: f["added_tokens"][0].update(special=False), "must be special"),
        (lambda f: f["added_tokens"][0].update(lstrip=True), "must leave its neighbors alone"),
        (lambda f: f["added_tokens"][0].pop("content"), "has no content"),
        (lambda f: f["added_tokens"][0].pop("id"), "each once"),
    ],
)
def test_files_with_something_else_in_them_are_refused(trained, tmp_path, change, message):
    path = tmp_path / "other.json"
    trained.save(path)
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=message) as error:
        Tokenizer.load(path)
    assert str(error.value).startswith(f"{path} cannot be used: ")


def test_broken_files_are_refused(trained, tmp_path):
    path = tmp_path / "broken.json"
    trained.save(path)
    whole = path.read_bytes()
    for broken in [whole[:-2], whole[: len(whole) // 2], b"", b"\xff\xfe", b"[" * 100_000, b"\x00" * 100]:
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"broken\.json is not JSON"):
            Tokenizer.load(path)
    for other in (b"[]", b"3", b"null", b"{}", b'{"model": 3}'):
        path.write_bytes(other)
        with pytest.raises(ValueError, match=r"broken\.json cannot be used: it holds no BPE model"):
            Tokenizer.load(path)
    with pytest.raises(FileNotFoundError):
        Tokenizer.load(tmp_path / "absent.json")


def test_a_flipped_byte_is_an_error_or_a_working_tokenizer(trained, tmp_path):
    path = tmp_path / "flipped.json"
    trained.save(path)
    whole, rng, refused = path.read_bytes(), random.Random(3), 0
    for _ in range(200):
        broken = bytearray(whole)
        broken[rng.randrange(len(whole))] = rng.randrange(256)
        path.write_bytes(broken)
        try:
            tokenizer = Tokenizer.load(path)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
        else:
            assert tokenizer.decode(tokenizer.encode("lower")) == "lower"
    assert refused > 100


# --- the library is optional ----------------------------------------------------------------------


def test_without_the_library_the_error_says_what_to_install(tmp_path):
    code = """
import sys
sys.modules["tokenizers"] = None
from minillama import data, tokenizer
for make in (lambda: tokenizer.Tokenizer.train(["a"], 300), lambda: tokenizer.Tokenizer.load(sys.argv[1])):
    try:
        make()
    except ModuleNotFoundError as error:
        print(error.name, "|", error)
"""
    Tokenizer.train([], 257).save(tmp_path / "t.json")
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "t.json"], capture_output=True, text=True, check=True
    )
    said = result.stdout.splitlines()
    assert len(said) == 2
    for line in said:
        assert line.startswith("tokenizers | ") and "pip install 'tokenizers>=" in line
