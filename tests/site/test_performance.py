"""The page on performance shows what the benchmarks recorded: all of it, and no other number."""

import json
import re
import subprocess
import sys

import pytest
from book_pages import ROOT
from bs4 import BeautifulSoup

RESULTS = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((ROOT / "benchmarks/results").glob("*.json"))
}
TARGETS = json.loads((ROOT / "benchmarks/targets.json").read_text("utf-8"))
SOURCE = (ROOT / "book/performance.md").read_text("utf-8")
NUMBER = re.compile(r"(?<![A-Za-z_\d])\d(?:[\d.,]*\d)?")  # not those in names as SmolLM2
ROWS = [(group, row) for group in TARGETS.values() for row in group["rows"]]


@pytest.fixture(scope="module")
def page(site):
    return BeautifulSoup((site / "book/performance.html").read_text("utf-8"), "html.parser").article


@pytest.fixture(scope="module")
def table(page):
    """The cells of every row of every table."""
    rows = [[cell.get_text().strip() for cell in row.select("td")] for row in page.select("tr")]
    return [row for row in rows if row]


def numbers_in(value):
    """All numbers of a recorded result, names and descriptions included, as a page may write them."""
    if isinstance(value, dict):
        return {n for item in value.items() for part in item for n in numbers_in(part)}
    if isinstance(value, list):
        return {n for item in value for n in numbers_in(item)}
    if isinstance(value, float):
        return {str(value), f"{value:.2f}"}
    return set(NUMBER.findall(str(value)))


def leaves(ratios):
    for key, value in ratios.items():
        if isinstance(value, dict):
            yield from leaves(value)
        else:
            yield key, value


def test_nobody_typed_a_number():
    assert NUMBER.findall(re.sub(r"\[[^]]*\]\([^)]*\)", "", SOURCE)) == []


def test_every_recorded_file_is_on_the_page():
    assert set(re.findall(r"```\{benchmark\} (\w+)", SOURCE)) == set(RESULTS)
    assert re.findall(r"```\{benchmark\} core (\w+)", SOURCE) == list(TARGETS)


def test_every_ratio_of_the_core_has_a_row():
    rows = {(row["task"], row[key]) for _, row in ROWS for key in ("ratio", "peer") if key in row}
    core = RESULTS["core"]["ratios"]
    assert rows == {(task, ratio) for task, ratios in core.items() for ratio in ratios}


def test_every_number_of_the_page_was_recorded(page):
    """In text, tables and spoken descriptions; the axes of the pictures have numbers of their own."""
    words = [text for text in page.find_all(string=True) if not text.find_parent("svg")]
    words += [tag["aria-label"] for tag in page.select("[aria-label]")]
    found = set(NUMBER.findall(re.sub(r"[Cc]hapter \d+", "", " ".join(words))))
    assert len(found) > 60 and found - numbers_in(RESULTS) - numbers_in(TARGETS) == set()


@pytest.mark.parametrize(("group", "row"), ROWS, ids=lambda value: value.get("name"))
def test_a_row_shows_target_median_and_runs(table, group, row):
    result = RESULTS["core"]
    median = result["ratios"][row["task"]][row["ratio"]]
    runs = result["every run"][row["task"]][row["ratio"]]
    name = f"{row['name']}, of {row['of']}" if "of" in row else row["name"]
    at = [cells[0] for cells in table].index(name)
    target, met, shown, spread = table[at][1:]
    assert shown == f"{median:.2f}" and spread == f"{min(runs):.2f} to {max(runs):.2f}"
    if "target" not in row:
        assert (target, met) == ("–", "–")
    elif group["better"] == "higher":
        assert target == f"≥ {row['target']}" and met == ("yes" if median >= row["target"] else "no")
    else:
        assert target == f"≤ {row['target']}" and met == ("yes" if median <= row["target"] else "no")
    if "peer" in row:
        peer = result["ratios"][row["task"]][row["peer"]]
        assert table[at + 1] == ["transformers, the same", "–", "–", f"{peer:.2f}", "–"]


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "core"])
def test_the_smaller_results_are_there_in_full(table, name):
    shown = [tuple(row) for row in table if len(row) == 2]
    result = RESULTS[name]
    ratios = result.get("ratios") or {key: v for key, v in result.items() if isinstance(v, dict | float)}
    for label, value in leaves(ratios):
        assert (label.replace("'", "’"), str(value)) in shown


def test_machine_versions_and_command_of_each_result(page):
    text = " ".join(page.get_text().split())
    for name, result in RESULTS.items():
        script = "run" if name == "core" else name
        said = re.search(rf"Measured on: ([^:]*)\. To measure again: python benchmarks/{script}\.py", text)[1]
        for key in ("machine", "threads", "torch", "transformers", "runs", "rounds"):
            assert str(result.get(key, "")) in said, (name, key)


def test_pictures_say_and_draw_their_numbers(page):
    for figure in page.select("figure"):
        spoken = NUMBER.findall(figure.svg["aria-label"])
        drawn = {n for text in figure.select("text") for n in NUMBER.findall(text.get_text())}
        assert figure.svg["role"] == "img" and len(spoken) >= 4
        medians = re.findall(r"median ([\d.]+\d)", figure.svg["aria-label"]) or spoken
        assert set(medians) <= drawn


def test_the_script_that_works_the_controls(site):
    """On one page and without keeping its numbers: the form of what it prints is the recorded one."""
    script = ROOT / "benchmarks" / "controls.py"
    command = [sys.executable, str(script), "--site", str(site), "--pages", "book/14_real_weights"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = json.loads(said[said.index("{\n") :])
    form, recorded = (
        {name: list(part) if isinstance(part, dict) else type(part) for name, part in each.items()}
        for each in (result, RESULTS["controls"])
    )
    assert form == recorded
    assert "head-map: painted" in said and "question 1" in said and "folds" in said and "colors" in said
