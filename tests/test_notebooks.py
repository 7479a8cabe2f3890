"""The notebooks as artefacts: executed, in form, stable, accessible, and true to the package.

Each rule is a function from a notebook to complaints. It is tested twice: on a notebook made to obey, which
must bring no complaint, and on copies broken in one way each, which must bring one. Then comes the book.
"""

import ast
import copy
import inspect
import json
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

import minillama

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import refresh  # noqa: E402

NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")
MOST_IGNORED = 2  # cells per notebook whose output nbval may ignore

# The chapter where each class or function has its final form, which is the package's.
HOME = {
    1: ["rms_norm", "RMSNorm"],
    2: [
        *("inverse_frequencies", "precompute_freqs_cis", "rotate_half", "apply_rotary_emb"),
        *("apply_rotary_emb_interleaved", "interleaved_to_half", "half_to_interleaved", "_regroup_rows"),
    ],
    3: ["silu", "silu_derivative", "SwiGLUFeedForward"],
    4: ["softmax", "causal_mask", "scaled_dot_product_attention"],
    5: ["repeat_kv", "KVCache", "Attention"],
    7: ["TransformerBlock", "MiniLLaMAForCausalLM"],
    8: ["cross_entropy"],
    10: ["SGDDecay", "AdamW", "cos_lr_scheduler", "gradient_clip", "decay_groups"],
    13: ["filter_logits", "stream", "generate"],
}


class Notebook:
    """A notebook with its file name, which says the chapter, and its text as it lies on disk."""

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text
        self.nb = nbformat.from_dict(json.loads(text))
        for number, cell in enumerate(self.nb.cells):
            cell.setdefault("id", f"number {number}")  # is_valid complains; here it is for the messages
            cell.source = "".join(cell.source)
            for output in cell.get("outputs", []):
                for holder, key in [(output, "text")] + [
                    (output.get("data", {}), k) for k in output.get("data", {})
                ]:
                    if isinstance(holder.get(key), list):
                        holder[key] = "".join(holder[key])

    @property
    def chapter(self) -> int | None:
        number = re.match(r"(\d+)_", self.name)
        return int(number[1]) if number else None

    @property
    def code(self):
        return [cell for cell in self.nb.cells if cell.cell_type == "code"]

    @property
    def markdown(self):
        return [cell for cell in self.nb.cells if cell.cell_type == "markdown"]

    def tagged(self, tag: str):
        return [cell for cell in self.nb.cells if tag in tags(cell)]


def tags(cell) -> list:
    return cell.metadata.get("tags", [])


def printed(cell) -> str:
    """What a reader sees of a cell's outputs as text."""
    parts = []
    for output in cell.get("outputs", []):
        parts += [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
        data = output.get("data", {})
        parts += [data[key] for key in ("text/plain", "text/markdown", "text/latex") if key in data]
        html = data.get("text/html", "")
        for hidden in ("style", "script", "svg"):
            html = re.sub(rf"(?s)<{hidden}\b.*?</{hidden}>", "", html)
        parts.append(html)
    return "\n".join(parts)


# -- the rules -------------------------------------------------------------------------------------------


def is_valid(book):
    ids = [cell.get("id") for cell in json.loads(book.text)["cells"]]
    if None in ids or len(set(ids)) < len(ids):
        yield "cell ids are missing or not unique"  # nbformat would only warn
        return
    try:
        nbformat.validate(json.loads(book.text))
    except nbformat.ValidationError as error:
        yield str(error).splitlines()[0]


def was_executed(book):
    counts = [cell.get("execution_count") for cell in book.code]
    if not counts:
        yield "no code cell"
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}, not 1, 2, 3 …: run make refresh"
    for cell in book.code:
        if any(output.output_type == "error" for output in cell.outputs):
            yield f"cell {cell.id} ended in an error"


def has_normal_form(book):
    """What make refresh would write, apart from running: metadata, ids, widget views, layout of the file."""
    if book.nb.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel must be python3"
    if "widgets" in book.nb.metadata:
        yield "metadata.widgets must go"
    if WIDGET_VIEW in book.text:
        yield "a widget view was saved: a reopened notebook would show 'model not found'"
    again = refresh.prepare(book.text)
    refresh.normalize(again, {cell.id: refresh.pictures(cell) for cell in again.cells})
    if nbformat.writes(again).rstrip("\n") + "\n" != book.text:
        yield "not in the form that make refresh writes"


def has_plain_markdown(book):
    for cell in book.markdown:
        text = re.sub(r"(?ms)^(`{3,}|~{3,})(?!\{).*?^\1", "", cell.source)
        for directive in re.findall(r"(?m)^\s*(?::{3,}|`{3,}\{|~{3,}\{).*$", text):
            yield f"directive {directive.strip()!r} in cell {cell.id}: it shows raw outside the built book"
        for role in re.findall(r"(?<![\w`$\\}])\{[a-zA-Z][\w:.+-]*\}`[^`\n]+`", text):
            yield f"role {role!r} in cell {cell.id}: it shows raw outside the built book"
        for summary in re.findall(r"(?s)<summary>(.*?)</summary>", text):
            if "$" in summary:
                yield f"mathematics in <summary> of cell {cell.id} is not rendered"
        for alt in re.findall(r"!\[(.*?)\]\(", text) + re.findall(
            r'<img(?![^>]*\salt="[^"]{20})[^>]*()>', text
        ):
            if len(alt.strip()) < 20:
                yield f"an image in cell {cell.id} has no text alternative of 20 characters or more"


def has_alt_texts(book):
    for cell in book.code:
        images = [output for output in cell.outputs if set(PICTURES) & set(output.get("data", {}))]
        if not images:
            continue
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if len(images) > 1:
            yield f"cell {cell.id} draws {len(images)} pictures; one alt text describes one"
        if len(alt.strip()) < 20 or re.search(r"\.(png|jpe?g|svg)$", alt.strip(), re.IGNORECASE):
            yield f"cell {cell.id} needs mystnb.image.alt of 20 characters or more, has {alt!r}"


ROOTS = "home|root|usr|tmp|Users|work|opt|var|mnt|content"
UNITS = "ns|µs|us|ms|s|sec|secs|seconds|minutes"
UNSTABLE = {
    "a path of this machine": rf"(?<![\w./:])/(?:{ROOTS})/|\b[A-Z]:\\\w",
    "a memory address": r"\b0x[0-9a-fA-F]{6,}",
    "a time": rf"(?i)\bwall time|\bcpu times|(?<![\w.])\d+(?:\.\d+)? ?(?:{UNITS})\b",
    "a clock or date": r"\b\d{1,2}:\d{2}:\d{2}\b|\b20\d\d-\d\d-\d\d\b",
    "a traceback": r"Traceback \(most recent call last\)",
    "a progress bar": r"\d+%\|",
}


def has_stable_outputs(book):
    for cell in book.code:
        if any(output.get("name") == "stderr" for output in cell.outputs):
            yield f"cell {cell.id} writes to stderr"
        for what, pattern in UNSTABLE.items():
            found = re.search(pattern, printed(cell))
            if found:
                yield f"cell {cell.id} prints {what}: {found[0]!r}"
        if cell.source.rstrip().endswith(";"):
            yield f"cell {cell.id} ends with a semicolon, which does not silence a run; use plt.show()"


def is_compared(book):
    ignored = []
    for cell in book.code:
        marks = set(tags(cell)) | set(re.findall(r"(?m)^\s*#\s*(\S+)\s*$", cell.source))
        marks = {mark.lower().replace("_", "-") for mark in marks}
        if marks & {"nbval-skip", "raises-exception", "nbval-raises-exception"}:
            yield f"cell {cell.id} is taken out of the run: {sorted(marks)}"
        if marks & {"nbval-ignore-output", "pytest-validate-ignore-output"}:
            ignored.append(cell.id)
    if len(ignored) > MOST_IGNORED:
        yield f"{len(ignored)} cells are not compared ({', '.join(ignored)}); {MOST_IGNORED} may be"
    elif ignored:
        warnings.warn(f"{book.name}: the outputs of {', '.join(ignored)} are not compared", stacklevel=2)


def starts_with_the_colab_cell(book):
    first = book.code[0] if book.code else None
    if first is None or first.source != refresh.colab_source():
        yield "the first code cell must be tools/colab_cell.py: run make refresh"
    elif "colab" not in tags(first) or first.outputs:
        yield "the Colab cell must carry the tag colab and print nothing"


CHECK = re.compile(r"\bchecks\.[\w.]+(?=\()")


def hides_its_answers(book):
    """Where the source is in view, the answer would be read before the question."""
    for cell in book.code:
        shown = any(
            'class="ml-choice"' in output.get("data", {}).get("text/html", "") for output in cell.outputs
        )
        if (shown or re.search(r"\bchecks\.choice\s*\(", cell.source)) and "question" not in tags(cell):
            yield f"cell {cell.id} asks a question: give it the tag question, which folds its source"


def has_solved_exercises(book):
    exercises, solutions = book.tagged("exercise"), book.tagged("solution")
    if book.chapter is not None and not exercises:
        yield "a chapter without exercises"
    checked = [
        [name for cell in cells for name in CHECK.findall(cell.source)] for cells in (exercises, solutions)
    ]
    if checked[0] != checked[1]:
        yield f"exercises and solutions call different checkers: {checked[0]} and {checked[1]}"
    for cells, wanted in ((exercises, r"not attempted yet\."), (solutions, r"right on all \d+ inputs\.")):
        for number, cell in enumerate(cells, 1):
            verdicts = [line for line in printed(cell).splitlines() if line.strip()]
            line = rf"Exercise {number}: {wanted}"
            right = verdicts and all(re.fullmatch(line, verdict) for verdict in verdicts)
            if not CHECK.search(cell.source) or not right:
                yield f"cell {cell.id} must call its checker and print only {line!r}, printed {verdicts}"


def plain(node) -> str:
    """The syntax tree without docstrings and argument checks (an `if` that does nothing but raise)."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            each.body = [
                statement
                for i, statement in enumerate(each.body)
                if not (i == 0 and ast.get_docstring(each, clean=False) is not None)
                and not (
                    isinstance(statement, ast.If)
                    and not statement.orelse
                    and all(isinstance(inner, ast.Raise) for inner in statement.body)
                )
            ]
    return ast.dump(node)


def definitions(source: str) -> dict:
    return {
        node.name: plain(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def in_package(name: str) -> str | None:
    for path in sorted((ROOT / "minillama").glob("*.py")):
        if path.stem != "scratch":  # on purpose a second telling
            found = definitions(path.read_text(encoding="utf-8")).get(name)
            if found:
                return found
    return None


def equals_the_package(book):
    """Cells tagged `package` hold the final form, and hold all that has its home in this chapter."""
    at_home = HOME.get(book.chapter, [])
    shown = {}
    for cell in book.tagged("package"):
        shown |= definitions(cell.source)
    for name in at_home:
        if name not in shown:
            yield f"{name} has its home here: define it in a cell tagged package"
    for name, tree in shown.items():
        if name not in at_home:
            yield f"{name} has its home in another chapter; import it"
        elif tree != in_package(name):
            yield f"{name} differs from the package's"


RULES = [
    is_valid,
    was_executed,
    has_normal_form,
    has_plain_markdown,
    has_alt_texts,
    has_stable_outputs,
    is_compared,
    starts_with_the_colab_cell,
    hides_its_answers,
    has_solved_exercises,
    equals_the_package,
]


# -- the book --------------------------------------------------------------------------------------------


def test_the_book_has_chapters():
    assert [path for path in NOTEBOOKS if path.name == "01_rmsnorm.ipynb"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_book_obeys(path, rule):
    complaints = list(rule(Notebook(path.name, path.read_text(encoding="utf-8"))))
    assert not complaints, "\n".join(complaints)


def test_every_home_names_what_the_package_offers():
    """Modules that are not written yet are no fault of the table; names that differ are."""
    names = [name for names in HOME.values() for name in names]
    assert len(set(names)) == len(names)
    written = [name for name in names if in_package(name)]
    assert {"RMSNorm", "rms_norm", "silu", "softmax", "KVCache", "cross_entropy", "generate"} <= set(written)
    offered = {name for name in minillama.__all__ if callable(getattr(minillama, name))}
    assert offered - {"MiniLLaMAConfig", "RopeScaling"} <= set(names)


# -- a notebook made to obey, and how to break it ----------------------------------------------------------


def obedient() -> Notebook:
    new, out = nbformat.v4, nbformat.v4.new_output
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
    norm = "\n\n\n".join(inspect.getsource(getattr(minillama.layers, name)) for name in HOME[1])
    asked = {"text/plain": "Why?", "text/html": '<fieldset class="ml-choice"></fieldset>'}
    code = [
        ("package", norm, []),
        ("", "print(0.069)", [out("stream", name="stdout", text="0.069\n")]),
        ("", "plt.show()", [out("display_data", data={"image/png": pixel, "text/plain": "<Figure>"})]),
        ("", "viz.x()", [out("execute_result", data={"text/plain": "A line", "text/html": "<p>A line</p>"})]),
        (
            "exercise",
            "checks.demo(stub)",
            [out("stream", name="stdout", text="Exercise 1: not attempted yet.\n")],
        ),
        (
            "solution",
            "checks.demo(right)",
            [out("stream", name="stdout", text="Exercise 1: right on all 2 inputs.\n")],
        ),
        ("question", "checks.choice('Why?')", [out("execute_result", data=asked)]),
    ]
    text = (
        '# A norm\n\n`f"{x}"` and $\\frac{a}{b}$ are no roles.\n\n```python\n{x}`y`\n```\n\n'
        "<details><summary>Why?</summary>Because $a$.</details>\n\n"
        "![A loudspeaker, much too loud.](_static/a.svg)"
    )
    cells = [new.new_markdown_cell(text)]
    for i, (tag, source, outputs) in enumerate(code):
        metadata = {"tags": [tag]} if tag else {}
        if source == "plt.show()":
            metadata["mystnb"] = {"image": {"alt": "Two curves that cross at gain one."}}
        cells.append(new.new_code_cell(source, outputs=outputs, metadata=metadata, id=f"code-{i}"))
    notebook = refresh.prepare(json.dumps(new.new_notebook(cells=cells)))
    refresh.normalize(notebook, {})
    return written(notebook)


def written(notebook, name="01_rmsnorm.ipynb") -> Notebook:
    return Notebook(name, nbformat.writes(notebook).rstrip("\n") + "\n")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_an_obedient_notebook_brings_no_complaint(rule):
    assert list(rule(obedient())) == []


BREAKS = {}


def breaks(rule):
    """Register a way to break `rule`: it changes a notebook in place."""

    def register(change):
        BREAKS[f"{rule.__name__}: {change.__name__.replace('_', ' ')}"] = rule, change
        return change

    return register


def by_id(nb, name):
    return next(cell for cell in nb.cells if cell.id == name)


def set_text(nb, text):
    by_id(nb, "code-1").outputs[0].text = text


def in_markdown(rule, name, text):
    change = lambda nb: nb.cells[0].update(source=f"{nb.cells[0].source}\n\n{text}")  # noqa: E731
    change.__name__ = name
    breaks(rule)(change)


def in_output(name, text):
    change = lambda nb: set_text(nb, text)  # noqa: E731
    change.__name__ = name
    breaks(has_stable_outputs)(change)


@breaks(is_valid)
def an_unknown_field(nb):
    nb.cells[0]["surprise"] = 1


@breaks(is_valid)
def no_id(nb):
    del nb.cells[1]["id"]


@breaks(is_valid)
def one_id_twice(nb):
    nb.cells[1].id = nb.cells[2].id


@breaks(was_executed)
def stripped(nb):
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


@breaks(was_executed)
def one_cell_not_run(nb):
    by_id(nb, "code-1").execution_count = None


@breaks(was_executed)
def out_of_order(nb):
    by_id(nb, "code-1").execution_count, by_id(nb, "code-0").execution_count = 2, 3


@breaks(was_executed)
def an_error(nb):
    by_id(nb, "code-1").outputs = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]


@breaks(has_normal_form)
def another_kernel(nb):
    nb.metadata.kernelspec["name"] = "conda-env-me-py"


@breaks(has_normal_form)
def widget_states(nb):
    nb.metadata["widgets"] = {}


@breaks(has_normal_form)
def a_widget_view(nb):
    by_id(nb, "code-3").outputs[0].data[WIDGET_VIEW] = {"model_id": "1"}


@breaks(has_normal_form)
def timestamps_in_metadata(nb):
    by_id(nb, "code-1").metadata["execution"] = {"iopub.status.busy": "x"}


@breaks(has_normal_form)
def a_solution_that_lies_open(nb):
    del by_id(nb, "code-5").metadata["cellView"]


@breaks(has_normal_form)
def a_question_that_lies_open(nb):
    del by_id(nb, "code-6").metadata["jupyter"]


@breaks(has_normal_form)
def another_version(nb):
    nb.nbformat_minor = 4


in_markdown(has_plain_markdown, "a colon directive", ":::{note}\nx\n:::")
in_markdown(has_plain_markdown, "a fenced directive", "```{figure} a.png\n```")
in_markdown(has_plain_markdown, "a role", "see {ref}`norms` there")
in_markdown(has_plain_markdown, "mathematics in a summary", "<details><summary>Why $x$?</summary></details>")
in_markdown(has_plain_markdown, "an image without words", "![](a.png)")
in_markdown(has_plain_markdown, "an img without words", '<img src="a.png" alt="x">')


@breaks(has_alt_texts)
def no_alt_text(nb):
    del by_id(nb, "code-2").metadata["mystnb"]


@breaks(has_alt_texts)
def a_file_name_as_alt_text(nb):
    by_id(nb, "code-2").metadata.mystnb.image.alt = "../_images/01_rmsnorm_7_0.png"


@breaks(has_alt_texts)
def two_pictures_with_one_alt_text(nb):
    by_id(nb, "code-2").outputs *= 2


in_output("a path", "saved in /home/reader/book\n")
in_output("a Windows path", "saved in C:\\book\n")
in_output("a memory address", "<object at 0x7fdca97080e0>\n")
in_output("a duration", "took 3.2 s\n")
in_output("a wall time", "Wall time: short\n")
in_output("a date", "2026-11-29\n")
in_output("a clock", "12:30:01\n")
in_output("a traceback", "Traceback (most recent call last):\n")
in_output("a progress bar", "100%|####| 3/3\n")


@breaks(has_stable_outputs)
def stderr(nb):
    by_id(nb, "code-1").outputs[0].name = "stderr"


@breaks(has_stable_outputs)
def a_path_in_html(nb):
    by_id(nb, "code-3").outputs[0].data["text/html"] = "<p>/tmp/x</p>"


@breaks(has_stable_outputs)
def a_semicolon(nb):
    by_id(nb, "code-2").source = "plt.plot([1]);"


@breaks(is_compared)
def three_cells_ignored(nb):
    for name in ("code-1", "code-2"):
        by_id(nb, name).metadata["tags"] = ["nbval-ignore-output"]
    by_id(nb, "code-3").source = "# NBVAL_IGNORE_OUTPUT\n1"


@breaks(is_compared)
def a_skipped_cell(nb):
    by_id(nb, "code-1").metadata["tags"] = ["nbval-skip"]


@breaks(is_compared)
def an_expected_exception(nb):
    by_id(nb, "code-1").source = "# NBVAL_RAISES_EXCEPTION\n1"


@breaks(starts_with_the_colab_cell)
def another_install_cell(nb):
    by_id(nb, "colab").source = "%pip install minillama"


@breaks(starts_with_the_colab_cell)
def a_cell_before_it(nb):
    nb.cells.insert(0, nbformat.v4.new_code_cell("1"))


@breaks(starts_with_the_colab_cell)
def a_colab_cell_that_talks(nb):
    by_id(nb, "colab").outputs = [nbformat.v4.new_output("stream", text="Installing")]


@breaks(hides_its_answers)
def a_question_without_its_tag(nb):
    by_id(nb, "code-6").metadata["tags"] = ["hide-input"]
    by_id(nb, "code-6").outputs = []


@breaks(hides_its_answers)
def a_question_under_another_name(nb):
    by_id(nb, "code-6").metadata["tags"] = ["hide-input"]
    by_id(nb, "code-6").source = "ask('Why?')"


@breaks(has_solved_exercises)
def no_exercises(nb):
    nb.cells = [cell for cell in nb.cells if not {"exercise", "solution"} & set(tags(cell))]


@breaks(has_solved_exercises)
def no_solution(nb):
    nb.cells = [cell for cell in nb.cells if "solution" not in tags(cell)]


@breaks(has_solved_exercises)
def a_stub_that_is_solved(nb):
    by_id(nb, "code-4").outputs[0].text = "Exercise 1: right on all 2 inputs.\n"


@breaks(has_solved_exercises)
def a_solution_that_fails(nb):
    by_id(nb, "code-5").outputs[0].text = "Exercise 1: wrong for x = 1\nexpected: 1\n"


@breaks(has_solved_exercises)
def another_number(nb):
    by_id(nb, "code-4").outputs[0].text = "Exercise 2: not attempted yet.\n"


@breaks(has_solved_exercises)
def a_solution_that_says_more(nb):
    by_id(nb, "code-5").outputs[0].text += "done\n"


@breaks(has_solved_exercises)
def another_checker(nb):
    by_id(nb, "code-5").source = "checks.other(right)"


@breaks(equals_the_package)
def another_formula(nb):
    cell = by_id(nb, "code-0")
    assert "rsqrt" in cell.source
    cell.source = cell.source.replace("rsqrt", "sqrt")


@breaks(equals_the_package)
def other_annotations(nb):
    cell = by_id(nb, "code-0")
    assert "eps: float" in cell.source
    cell.source = cell.source.replace("eps: float", "eps")


@breaks(equals_the_package)
def a_class_away_from_home(nb):
    by_id(nb, "code-1").source = "def silu(x):\n    return x"
    by_id(nb, "code-1").metadata["tags"] = ["package"]


@breaks(equals_the_package)
def no_final_form(nb):
    by_id(nb, "code-0").metadata["tags"] = []


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_notebook_brings_a_complaint(name):
    rule, change = BREAKS[name]
    notebook = copy.deepcopy(obedient().nb)
    change(notebook)
    broken = Notebook(
        "01_rmsnorm.ipynb", json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )
    assert list(rule(broken)), "the rule did not notice"


def test_each_rule_can_fail():
    assert {rule for rule, _ in BREAKS.values()} == set(RULES)


def test_two_ignored_cells_are_allowed_and_listed():
    notebook = obedient()
    by_id(notebook.nb, "code-1").metadata["tags"] = ["nbval-ignore-output"]
    with pytest.warns(UserWarning, match=r"01_rmsnorm\.ipynb: the outputs of code-1 are not compared"):
        assert list(is_compared(notebook)) == []


def test_docstrings_and_argument_checks_are_not_compared():
    bare = "def f(x: int) -> int:\n    return x"
    full = 'def f(x: int) -> int:\n    "Doc."\n    if x < 0:\n        raise ValueError(x)\n    return x'
    other = "def f(x: int) -> int:\n    if x < 0:\n        return 0\n    return x"
    assert definitions(bare) == definitions(full) != definitions(other)


# -- make refresh ----------------------------------------------------------------------------------------

CELLS = [
    ("", "from minillama import checks, viz\nviz.use_style()"),
    ("", "print(round(1.2**12, 3))"),
    (
        "",
        "def draw(n):\n    from matplotlib.figure import Figure\n    figure = Figure()\n"
        "    figure.subplots().plot([0, n])\n    return figure\n\n\n"
        "n = viz.Control('n', 'Count', (1, 2), 1)\n"
        "viz.frames(draw, [n], alt=lambda n: f'A line up to {n}.', title='A line')",
    ),
    ("", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
    (
        "",
        "import sys\nfor word in ('a', 'b'):\n    print(word, flush=True)\n"
        "    print(word, file=sys.stderr, flush=True)",
    ),
    ("question", "checks.choice('Why?', [('So.', 'Yes.'), ('Not so.', 'But why?')], answer='A')"),
    ("solution", "checks.rmsnorm.by_hand(lambda values, eps: None)"),
]


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory):
    """A rough notebook, as another program may leave it, after `make refresh`."""
    path = tmp_path_factory.mktemp("book") / "rough.ipynb"
    cells = []
    for tag, source in CELLS:
        metadata = {"tags": [tag]} if tag else {"collapsed": True, "ExecuteTime": {"start": "now"}}
        cell = nbformat.v4.new_code_cell(source, metadata=metadata)
        del cell["id"]
        cells.append(cell)
    notebook = {"cells": cells, "metadata": {"widgets": {}, "colab": {}}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(notebook))
    assert refresh.main([str(path)]) == 0
    return path


def test_refresh_brings_a_rough_notebook_into_form(refreshed):
    book = Notebook(refreshed.name, refreshed.read_text())
    for rule in (is_valid, was_executed, has_normal_form, starts_with_the_colab_cell):
        assert list(rule(book)) == []
    _colab, _start, number, frames, figure, streams, question, solution = book.code
    assert number.outputs[0].text == "8.916\n"
    assert set(frames.outputs[0].data) == {"text/html", "text/plain"}
    assert [(output.name, output.text) for output in streams.outputs] == [
        ("stdout", "a\nb\n"),
        ("stderr", "a\nb\n"),
    ]
    for cell, tag in ((question, "question"), (solution, "solution")):
        assert cell.metadata == {
            "cellView": "form",
            "jupyter": {"source_hidden": True},
            "tags": [tag, "hide-input"],
        }
    (picture,) = figure.outputs
    assert picture.metadata["image/png"] == {"height": 297, "width": 499}  # shown at half its pixels
    assert len(picture.data["image/png"]) < 30_000
    assert b"Software" not in refresh.base64.b64decode(picture.data["image/png"])


def test_refresh_twice_changes_nothing(refreshed, capsys):
    before = refreshed.read_bytes()
    assert refresh.main([str(refreshed)]) == 0
    assert refreshed.read_bytes() == before
    assert capsys.readouterr().out == f"{refreshed}: unchanged\n"
    assert list(refreshed.parent.iterdir()) == [refreshed]


def test_refresh_records_with_what_a_chapter_ran(refreshed, tmp_path, monkeypatch):
    import platform

    import torch

    monkeypatch.setattr(refresh, "RECORD", tmp_path / "executed.json")
    (tmp_path / "executed.json").write_text('{"gone": {}}')
    (tmp_path / "new.ipynb").write_bytes(refreshed.read_bytes())
    assert refresh.main([str(tmp_path / "new.ipynb")]) == 0
    ran = json.loads((tmp_path / "executed.json").read_text())
    assert ran == {
        "new": {
            "python": platform.python_version().rpartition(".")[0],
            "torch": torch.__version__.partition("+")[0],
            "code": refresh.code_hash(nbformat.read(refreshed, as_version=4)),
        }
    }


def test_the_hash_is_of_what_runs():
    def hashed(*sources, tag="solution"):
        cells = [nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}) for source in sources]
        return refresh.code_hash(nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_markdown_cell("a")]))

    assert hashed("a", "b") != hashed("b", "a") != hashed("ab")
    assert hashed("a", tag="colab") == hashed("b", tag="colab") != hashed("a")


def test_the_same_pixels_keep_their_bytes():
    cell = obedient().code[3]
    (encoded,) = refresh.pictures(cell)
    from io import BytesIO

    from PIL import Image, PngImagePlugin

    info = PngImagePlugin.PngInfo()
    info.add_text("Software", "another version")
    out = BytesIO()
    Image.open(BytesIO(refresh.base64.b64decode(encoded))).save(out, "PNG", pnginfo=info)
    cell.outputs[0].data["image/png"] = refresh.base64.b64encode(out.getvalue()).decode()
    assert refresh.pictures(cell) != [encoded]
    refresh.keep_same_pictures(cell, [encoded])
    assert refresh.pictures(cell) == [encoded]


def test_pictures_with_many_colors_keep_them():
    from io import BytesIO

    from PIL import Image

    gradient = Image.linear_gradient("L")
    full = Image.merge("RGB", (gradient, gradient.rotate(90), gradient.rotate(180)))
    out = BytesIO()
    full.save(out, "PNG")
    compact = refresh.compact_png(refresh.base64.b64encode(out.getvalue()).decode())
    kept = Image.open(BytesIO(refresh.base64.b64decode(compact)))
    off = max(abs(a - b) for a, b in zip(kept.convert("RGB").tobytes(), full.tobytes(), strict=True))
    assert off <= 32


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print(1)\nraise ValueError('no good')", ["print(1)", "ValueError", "no good"]),
        ("print(object())", ["memory address", "print(object())"]),
    ],
)
def test_a_cell_that_cannot_be_kept_leaves_the_file_as_it_was(tmp_path, capsys, source, said):
    path = tmp_path / "bad.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    before = path.read_bytes()
    assert refresh.main([str(path)]) == 1
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    error = capsys.readouterr().err
    assert all(word in error for word in [str(path), "left as it was", *said])


def test_ids_are_kept_where_they_are_good():
    cells = [{"id": "mine", "source": "1"}, {"id": "mine", "source": "2"}, {"source": "2"}, {"id": "no good"}]
    refresh.settle_ids(cells)
    ids = [cell["id"] for cell in cells]
    assert ids[0] == "mine" and len(set(ids)) == 4
    assert all(re.fullmatch(r"cell-[0-9a-f]{8}(-2)?", name) for name in ids[1:])


def test_the_colab_cell_installs_from_this_version_and_only_when_missing(monkeypatch):
    source = refresh.colab_source()
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert re.search(rf'^ADDRESS, VERSION = "https://\S+", "{re.escape(version)}"$', source, re.MULTILINE)
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda command, **options: calls.append((command, options)))
    exec(source, {})
    assert calls == [], "minillama is here: nothing to install"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    public = re.sub(r'"https://[^"]+"', '"https://example.org/me/book"', source)
    exec(public, {})
    ((command, options),) = calls
    assert command[1:] == [
        "-m",
        "pip",
        "install",
        "-q",
        f"minillama[book] @ git+https://example.org/me/book@v{version}",
    ]
    assert options == {"check": True}
    with pytest.raises(RuntimeError, match=r"no public address yet.*make address URL="):
        exec(re.sub(r'"https://[^"]+"', '"https://github.com/OWNER/minillama-book"', source), {})


# -- nbval -----------------------------------------------------------------------------------------------


def nbval(*paths):
    """`pytest --nbval` with this project's configuration, on notebooks that lie elsewhere."""
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", "-p", "conftest"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *map(str, paths)]
    environment = {**refresh.os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def altered(path, old, new, name):
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    copied = path.with_name(f"{name}.ipynb")
    copied.write_text(text.replace(old, new))
    return copied


@pytest.fixture
def copy_of(refreshed, tmp_path):
    path = tmp_path / "copy.ipynb"
    path.write_bytes(refreshed.read_bytes())
    return path


def test_nbval_passes_what_was_refreshed_whatever_matplotlib_drew(copy_of):
    drawn = re.search(r'aria-label=\\"A line up to 1\.\\"[^>]*><path d=\\"M (\S+)', copy_of.read_text())[0]
    other = altered(copy_of, drawn, drawn[:-1] + "9", "other_matplotlib")
    done = nbval(copy_of, other)
    assert done.returncode == 0, done.stdout
    assert "16 passed" in done.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [('"8.916\\n"', '"8.917\\n"'), ('"alts\\":[\\"A line up to 1.', '"alts\\":[\\"A line up to 3.')],
)
def test_nbval_is_red_on_one_altered_digit(copy_of, old, new):
    done = nbval(altered(copy_of, old, new, "altered"))
    assert done.returncode == 1
    assert "1 failed, 7 passed" in done.stdout


def test_nbval_settings_hold_in_any_directory(monkeypatch):
    """Sanitizing, package and backend are settled without a word on the command line."""
    for name in ("PYTHONPATH", "MPLBACKEND", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "before")  # restored afterwards
    option = SimpleNamespace(nbval=True, nbval_lax=False, nbval_sanitize_with=None)
    runpy.run_path(str(ROOT / "conftest.py"))["pytest_configure"](SimpleNamespace(option=option))
    assert option.nbval_sanitize_with == str(ROOT / "tests" / "nbval_sanitize.cfg")
    assert refresh.os.environ["PYTHONPATH"].split(refresh.os.pathsep) == [str(ROOT), "before"]
    assert "MPLBACKEND" not in refresh.os.environ
