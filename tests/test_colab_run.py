"""`make colab` judges a notebook by what it says and by widgets that can be shown."""

import subprocess
from types import SimpleNamespace

import colab_run
import nbformat
import pytest
import refresh

VIEW = {colab_run.WIDGET_VIEW: {"model_id": "box"}}
MODELS = {"box": {"children": ["IPY_MODEL_slider"]}, "slider": {"layout": "IPY_MODEL_layout"}, "layout": {}}
NOTEBOOKS = sorted((colab_run.ROOT / "book").glob("*.ipynb"))


def cell(*outputs):
    return SimpleNamespace(outputs=list(outputs))


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def display(**data):
    data = {kind.replace("_", "/"): value for kind, value in data.items()}
    return nbformat.v4.new_output("display_data", data=data)


def test_pieces_of_one_stream_say_what_the_whole_says():
    assert colab_run.said(cell(stream("1\n"), stream("2\n"))) == colab_run.said(cell(stream("1\n2\n")))


@pytest.mark.parametrize(
    "other",
    [
        cell(stream("1.5")),
        cell(stream("1", "stderr")),
        cell(stream("1"), display(text_plain="x")),
        cell(display(text_plain="1")),
    ],
)
def test_another_text_is_noticed(other):
    assert colab_run.said(other) != colab_run.said(cell(stream("1")))


@pytest.mark.parametrize("kind", ["text_plain", "text_html"])
def test_another_display_is_noticed(kind):
    assert colab_run.said(cell(display(**{kind: "1"}))) != colab_run.said(cell(display(**{kind: "2"})))


def test_what_matplotlib_drew_is_left_out():
    one, two = (f"<p>a</p><!--ml-drawn-->{drawn}\n<!--/ml-drawn-->" for drawn in "xy")
    assert colab_run.said(cell(display(text_html=one, image_png="x"))) == colab_run.said(
        cell(display(text_html=two, image_png="y"))
    )
    assert colab_run.sanitized(one) == "<p>a</p>(drawn)"


def test_a_widget_is_live_when_all_its_parts_arrived():
    output = {"data": VIEW}
    assert colab_run.is_live(output, MODELS)
    assert not colab_run.is_live({"data": {}}, MODELS)
    for part in MODELS:
        assert not colab_run.is_live(output, {name: MODELS[name] for name in MODELS if name != part})


def test_the_first_cell_is_the_one_that_a_reader_runs():
    assert {colab_run.first_cell(path) for path in NOTEBOOKS} == {refresh.colab_source()}


def test_pins_and_python_are_read():
    assert colab_run.pins()["ipywidgets"] == "7.7.1"
    assert colab_run.python_version().startswith("3.")


def git(folder, *arguments):
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_published_tag_is_this_checkout_with_its_changes(tmp_path, monkeypatch):
    """From a shallow clone, too, which is what GitHub's checkout makes."""
    full, shallow = tmp_path / "full", tmp_path / "shallow"
    full.mkdir()
    git(full, "init", "-q")
    for text in ("first", "second"):
        (full / "page.txt").write_text(text)
        git(full, "add", ".")
        git(full, "commit", "-qm", text)
    git(tmp_path, "clone", "-q", "--depth=1", full.as_uri(), str(shallow))
    for root in (full, shallow):
        monkeypatch.setattr(colab_run, "ROOT", root)
        monkeypatch.setattr(colab_run, "FOLDER", tmp_path / f"{root.name}-colab")
        assert git(colab_run.published("v1"), "show", "v1:page.txt") == "second"
        (root / "page.txt").write_text("third")
        repository = colab_run.published("v1")
        assert git(repository, "show", "v1:page.txt") == "third"
        git(tmp_path, "clone", "-q", repository.as_uri(), str(tmp_path / f"{root.name}-clone"))
        assert git(tmp_path / f"{root.name}-clone", "rev-parse", "HEAD") == git(repository, "rev-parse", "v1")
        assert (root / "page.txt").read_text() == "third" and git(root, "stash", "list") == ""
