"""The performance page's tables and plots, made from the recorded benchmarks while the page is read.

    ```{benchmark} norms        one plot and one table of all ratios in benchmarks/results/norms.json
    ```{benchmark} core shares  the rows of core.json that benchmarks/targets.json puts under "shares"
    ```{benchmark-work} core    what each task of core.json does, on which machine

No number on the page is written by hand.
"""

import json
import textwrap
from html import escape
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

PROGRAMS = ("torch", "transformers", "Chromium")
REPEATS = ("runs", "rounds")
CAPTION = "Large dots: medians. Small dots: single runs. Dotted line: one."
LINE = 0.4  # inches that one unit of a plot's height takes
TITLE_WIDTH = 40  # characters
BEHIND_WORDS = {"facecolor": "white", "edgecolor": "none", "pad": 1}


class Benchmark(SphinxDirective):
    required_arguments = 1
    optional_arguments = 1
    option_spec: ClassVar = {"table-only": directives.flag}

    def run(self):
        name, *group = self.arguments
        result = self.read(f"results/{name}.json")
        if group:
            targets = self.read("targets.json")
            if group[0] not in targets:
                raise self.error(f"no group {group[0]!r} in targets.json; it has: {', '.join(targets)}")
            return self.compared(f"{name}-{group[0]}", targets[group[0]], result)
        groups = groups_of(result)
        said = groups_table(groups, result.get("column", "ratio"))
        table = self.parse_text_to_nodes(said)
        if "table-only" in self.options:
            shown = table
        else:
            alt = f"Bars, {result['unit']}. {groups_in_words(groups)}"
            shown = [picture(lambda: draw_bars(groups), name, alt), *folded("The numbers as a table", table)]
        below = circumstances(name, result)
        return with_markdown(f"{said}\n\n{below}", [*shown, *self.parse_text_to_nodes(below)])

    def compared(self, name, group, result):
        try:
            rows = [Row(row, result) for row in group["rows"]]
        except KeyError as missing:
            raise self.error(f"targets.json asks for {missing}, which {name} does not have") from missing
        alt = f"Dots, {group['axis']}. {' '.join(row.in_words(group) for row in rows)}"
        extra = ["Bars: targets."] if any(row.target for row in rows) else []
        extra += ["Hollow squares: transformers."] if any(row.peer is not None for row in rows) else []
        caption = " ".join([CAPTION, *extra])
        said = rows_table(rows, group)
        shown = picture(lambda: draw_rows(rows, group), name, alt, caption)
        return with_markdown(said, [shown, *self.parse_text_to_nodes(said)])

    def read(self, path):
        path = Path(self.env.srcdir) / "benchmarks" / path
        self.env.note_dependency(str(path))
        if not path.is_file():
            known = ", ".join(sorted(found.stem for found in path.parent.glob("*.json")))
            raise self.error(f"no recorded benchmark {path.stem!r}; recorded are: {known or 'none'}")
        return json.loads(path.read_text(encoding="utf-8"))


class BenchmarkWork(Benchmark):
    optional_arguments = 0
    option_spec: ClassVar = {}

    def run(self):
        result = self.read(f"results/{self.arguments[0]}.json")
        lines = [f"- **{task}**: {work}" for task, work in result["work"].items()]
        said = "\n".join([*lines, "", circumstances(self.arguments[0], result)])
        return with_markdown(said, self.parse_text_to_nodes(said))


def with_markdown(text, made):
    """The plain-text edition takes a directive's Markdown from the first node that it makes."""
    made[0]["markdown"] = text
    return made


def setup(app):
    app.add_directive("benchmark", Benchmark)
    app.add_directive("benchmark-work", BenchmarkWork)


# ---- What the JSON says ----


class Row:
    """One ratio: its median, its single runs, what it should reach, and what the peer reaches."""

    def __init__(self, spec, result):
        found = result["ratios"][spec["task"]]
        self.name, self.of, self.target = spec["name"], spec.get("of"), spec.get("target")
        self.median, self.runs = found[spec["ratio"]], result["every run"][spec["task"]][spec["ratio"]]
        self.peer = found[spec["peer"]] if "peer" in spec else None

    def wanted(self, group):
        if self.target is None:
            return "–"
        return f"{'≥' if group['better'] == 'higher' else '≤'} {self.target}"

    def met(self, group):
        if self.target is None:
            return "–"
        higher = group["better"] == "higher"
        return "yes" if (self.median >= self.target if higher else self.median <= self.target) else "no"

    def spread(self):
        return f"{two(min(self.runs))} to {two(max(self.runs))}"

    def in_words(self, group):
        target = f", target {self.wanted(group)}, met: {self.met(group)}" if self.target else ""
        peer = f", transformers {two(self.peer)}" if self.peer is not None else ""
        return f"{self.name}: median {two(self.median)}, runs {self.spread()}{target}{peer}."


def two(value):
    return f"{value:.2f}"


def groups_of(result):
    """{title: {label: ratio}} of one of the smaller results, at whatever depth its numbers stand."""
    groups = {}

    def collect(title, values):
        plain = {key: value for key, value in values.items() if isinstance(value, float)}
        if plain:
            groups[title] = plain
        for key, value in values.items():
            if isinstance(value, dict):
                collect(f"{title}, {key}" if title else key, value)

    # Sizes and versions are whole numbers or text.
    found = result.get("ratios") or {k: v for k, v in result.items() if isinstance(v, dict | float)}
    collect("", found)
    return groups


def counted(number, things):
    return f"{number} {things if number != 1 else things.removesuffix('s')}"


def circumstances(name, result):
    machine = result["machine"]
    if "threads" in result:
        machine += f", {counted(result['threads'], 'threads')}"
    programs = ", ".join(f"{program} {result[program]}" for program in PROGRAMS if program in result)
    repeats = " of ".join(counted(result[what], what) for what in REPEATS if what in result)
    options = [f"--{what} {result[what]}" for what in REPEATS if what in result]
    if name == "core":
        options += ["--compile"] * ("compiled" in json.dumps(result["ratios"]))
    command = " ".join([f"python benchmarks/{'run' if name == 'core' else name}.py", *options, "--write"])
    parts = "; ".join(filter(None, [machine, programs, repeats]))
    return f"Measured on: {parts}. To measure again:\n\n```\n{command}\n```\n"


# ---- Tables ----


def table(head, align, rows):
    lines = [head, align, *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def rows_table(rows, group):
    head = [group["axis"], "target", "met", "median", "runs"]
    body = []
    for row in rows:
        name = f"{row.name}, of {row.of}" if row.of else row.name
        line = [
            name,
            row.wanted(group),
            row.met(group),
            two(row.median),
            f'<span class="tied">{row.spread()}</span>',
        ]
        body.append(line)
        if row.peer is not None:
            body.append(["transformers, the same", "–", "–", two(row.peer), "–"])
    return table(head, ["---", "---:", "---", "---:", "---:"], body)


def groups_table(groups, column):
    body = []
    for title, values in groups.items():
        body += [[f"**{title}**", ""]] if title else []
        body += [[label, value] for label, value in values.items()]
    return table(["measurement", column], ["---", "---:"], body)


def groups_in_words(groups):
    return " ".join(
        (f"{title}: " if title else "")
        + ", ".join(f"{label} {value}" for label, value in values.items())
        + "."
        for title, values in groups.items()
    )


def folded(title, content):
    opening = nodes.raw("", f"<details><summary>{title}</summary>", format="html")
    return [opening, *content, nodes.raw("", "</details>", format="html")]


# ---- Plots ----


def picture(draw, name, alt, caption=""):
    from minillama.viz.frame_explorer import draw_svg

    lines, (width, height) = draw_svg(draw, {}, name)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return nodes.raw(
        "",
        f'<figure class="ml-figure"><div class="ml-picture"><svg role="img" aria-label="{escape(alt)}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(lines)}</svg></div>{below}</figure>',
        format="html",
    )


def blank(height, below=0.0):
    """A figure without a frame, y from the top down, with so many inches below for an axis."""
    from matplotlib.figure import Figure

    inches = height * LINE + below
    figure = Figure(figsize=(4.2, inches))
    ax = figure.add_axes((0.02, below / inches, 0.96, height * LINE / inches))
    ax.set(ylim=(height, 0), yticks=[])
    ax.spines["left"].set_visible(False)
    return figure, ax


def draw_rows(rows, group):
    from minillama.viz import BLUE, INK, MUTED, VERMILLION

    figure, ax = blank(1.35 * len(rows), below=0.45)
    values = [v for row in rows for v in (*row.runs, row.target, row.peer) if v is not None]
    low, high = min(*values, 1), max(*values, 1)
    edge = 0.06 * (high - low)
    ax.set(xlim=(low - edge, high + edge))
    for at, row in enumerate(rows):
        y = 1.35 * at + 0.95
        words = {"transform": ax.get_yaxis_transform(), "color": INK, "va": "center", "bbox": BEHIND_WORDS}
        ax.text(0.01, y - 0.48, row.name, **words)
        ax.text(0.99, y - 0.48, two(row.median), ha="right", **words)
        ax.plot([min(row.runs), max(row.runs)], [y, y], "-", color=BLUE, lw=1.2)
        ax.plot(row.runs, [y] * len(row.runs), "o", color=BLUE, ms=3.5)
        ax.plot([row.median], [y], "o", color=BLUE, ms=8)
        if row.peer is not None:
            ax.plot([row.peer], [y], "s", color=MUTED, mfc="none", mew=1.4, ms=8)
        if row.target is not None:
            ax.plot([row.target] * 2, [y - 0.26, y + 0.26], "-", color=VERMILLION, lw=2.6)
    ax.axvline(1, color=MUTED, lw=1, ls=":")
    ax.set_xlabel(group["axis"])
    return figure


def draw_bars(groups):
    from minillama.viz import BLUE, GRID, INK, MUTED

    heads = {title: textwrap.wrap(title, TITLE_WIDTH) for title in groups}
    heights = [0.6 * len(heads[title]) + 0.62 * len(values) + 0.2 for title, values in groups.items()]
    figure, ax = blank(sum(heights))
    ax.set(xlim=(0, 1), xticks=[])
    ax.spines["bottom"].set_visible(False)
    ax.grid(False)
    longest = max(len(label) for values in groups.values() for label in values)
    start = min(0.62, 0.03 + 0.021 * longest)  # of the width, for the labels
    unit = (0.88 - start) / max(value for values in groups.values() for value in values.values())
    y = 0.0
    for title, values in groups.items():
        for line in heads[title]:
            ax.text(0, y + 0.35, line, color=INK, va="center", weight="bold")
            y += 0.6
        ax.plot([start] * 2, [y, y + 0.62 * len(values)], "-", color=GRID, lw=1)
        ax.plot([start + unit] * 2, [y, y + 0.62 * len(values)], ":", color=MUTED, lw=1)
        for label, value in values.items():
            ax.text(start - 0.02, y + 0.31, label, color=INK, va="center", ha="right")
            ax.barh(y + 0.31, value * unit, left=start, height=0.4, color=BLUE)
            ax.text(start + value * unit + 0.015, y + 0.31, value, color=INK, va="center", bbox=BEHIND_WORDS)
            y += 0.62
        y += 0.2
    return figure
