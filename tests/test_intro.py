"""The front page tells the same numbers as the package, the chapters and the recorded results."""

import json
import re
from pathlib import Path

import pytest
import yaml

from minillama import MiniLLaMAConfig, accounting, viz

BOOK = Path(__file__).resolve().parents[1] / "book"
INTRO = (BOOK / "intro.md").read_text(encoding="utf-8")
CONFIG = MiniLLaMAConfig()


def test_the_ledger_is_the_models():
    rows = re.findall(r"^\| (.+?) \| \**([\d,]+)\** \| ([\d.]+)\s% \|$", INTRO, re.M)
    parts = accounting.count_parameters(CONFIG)
    total = parts["total"]
    counted = [parts[name] for name in ("token_embeddings", "attention", "feed_forward", "norms", "total")]
    assert [int(number.replace(",", "")) for _, number, _ in rows] == counted
    assert [float(share) for _, _, share in rows] == [round(100 * n / total, 2) for n in counted]


def test_the_chapters_are_listed_as_in_the_contents():
    """In the same parts and the same order, each with its own number."""
    toc = yaml.safe_load((BOOK.parent / "_toc.yml").read_text(encoding="utf-8"))
    wanted = [
        (part["caption"], [Path(chapter["file"]).name for chapter in part["chapters"]])
        for part in toc["parts"]
        if re.match(r"\d", Path(part["chapters"][0]["file"]).name)
    ]
    listed = re.findall(r'^### (.+)\n\n<div class="chapters">\n\n((?:\d+\. .+\n)+)', INTRO, re.M)
    found = [(title, re.findall(r"^\d+\. \[[^]]+\]\((\w+)\.ipynb\)", items, re.M)) for title, items in listed]
    assert found == wanted
    for number, name in re.findall(r"^(\d+)\. \[[^]]+\]\((\w+)\.ipynb\)", INTRO, re.M):
        assert int(number) == int(name[:2]), name
    assert sum(len(names) for _, names in found) == len(list(BOOK.glob("[0-9][0-9]_*.ipynb")))


DIAGRAM = re.search(r'<svg class="ml-model".*?</svg>', INTRO, re.S)[0]
PARTS = re.findall(r'<a class="part" href="((\d\d)_\w+)\.html" aria-label="([^"]+)">(.*?)</a>', DIAGRAM, re.S)


def test_every_chapter_is_a_part_of_the_diagram():
    assert {stem for stem, *_ in PARTS} == {path.stem for path in BOOK.glob("[0-9][0-9]_*.ipynb")}


@pytest.mark.parametrize(("number", "name", "drawn"), [part[1:] for part in PARTS])
def test_a_part_of_the_diagram_bears_the_number_of_its_chapter(number, name, drawn):
    assert re.findall(r'<text class="number"[^>]*>(\d+)</text>', drawn) == [str(int(number))]
    assert name.endswith(f", chapter {int(number)}")


def test_the_diagrams_numbers_are_the_models():
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", DIAGRAM)
    numbers = [n for text in texts if not text.isdigit() for n in re.findall(r"\d[\d,]*", text)]
    wanted = {f"{CONFIG.d_model}", f"{CONFIG.n_layers}", f"{CONFIG.vocab_size:,}"}
    assert set(numbers) == wanted and "12 such blocks" in texts


# ---- The findings: each number from what was recorded, and printed in the chapter that it links ----


def findings():
    box = re.search(r'<div class="findings">\n\n(.+?)\n\n</div>', INTRO, re.S)[1]
    return {re.search(r"\((\d\d)_\w+\.ipynb#", line)[1]: line for line in box.splitlines()}


def printed(number):
    """What the cells of a chapter print, on one line."""
    (path,) = BOOK.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return " ".join("".join(text for output in outputs for text in output.get("text", [])).split())


def test_there_are_four_findings():
    assert sorted(findings()) == ["04", "07", "13", "14"]


def test_wrong_models_that_pass_the_checks():
    said = findings()["07"]
    assert re.search(r"\*\*(\d+ of \d+)\*\*", said)[1] in re.findall(
        r"stopped by .*?: (\d+ of \d+)", printed("07")
    )
    losses = viz.recorded("wrong_assemblies")["held_out"].values()
    pairs = [pair for loss in losses for pair in zip(loss["wrong variable"], loss["right"], strict=True)]
    assert all(wrong < right for wrong, right in pairs) and len(pairs) == 6
    assert "in six training runs out of six" in said


def test_capitals_known_with_rows_in_the_wrong_order():
    known, of, right = re.search(r"\*\*(\d+) of (\d+)\*\* .* knew (\d+)\.", findings()["14"]).groups()
    study = viz.recorded("smollm2_faults")
    for name, capitals in (("neither regrouped", known), ("as loaded", right)):
        assert int(capitals) == study["rows"][name]["capitals"]
        assert re.search(rf"{name} [\d.]+ {capitals} ", printed("14"))
    assert int(of) == study["countries"]


def test_passages_that_a_filter_lets_through():
    said = findings()["13"]
    share, length, p = re.search(r"\*\*([\d.]+) %\*\* .* (\d+) tokens .* at ([\d.]+)\. ", said).groups()
    assert float(share) == round(100 * viz.recorded("sampling")["real"]["survive_top_p"][p][length], 1)
    assert re.search(rf"{length} in a .* top-p {p} [\d.]+ [\d.]+ {share} ", printed("13"))


def test_the_gradient_at_an_undivided_query():
    times, size = re.search(r"\*\*(\d+) times\*\* .* heads of (\d+) entries", findings()["04"]).groups()
    means = printed("04").partition("Gradient at the query, mean length")[2]
    divided, bare = re.search(rf" {size} ([\d.]+) ±[\d.]+ ([\d.]+) ±", means).groups()
    assert round(float(bare) / float(divided)) == int(times)
