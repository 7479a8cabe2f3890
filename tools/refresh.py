"""Re-execute and normalize the book's notebooks: `python tools/refresh.py [notebook ...]`.

Runs every notebook of book/ (or those named) with this checkout's minillama, and writes it in one fixed form:
an edit gives a small diff, a second run changes nothing. A failing cell leaves the file as it was.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import re
import sys
import tomllib
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "python3"
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": KERNEL},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
CELL_METADATA = ("cellView", "jupyter", "mystnb", "tags")
CELL_TIMEOUT = 600  # seconds; a cell that needs more belongs into experiments/
# Folded on the built page, in Colab and in JupyterLab: a source that gives an answer away.
FOLDED = {"tags": ["hide-input"], "cellView": "form", "jupyter": {"source_hidden": True}}
# What a tag implies: authors set the tag, the rest follows from it.
IMPLIED = {"colab": {"tags": ["remove-cell"]}, "question": FOLDED, "solution": FOLDED}
RECORD = ROOT / "book" / "executed.json"  # with what each notebook of the book was last executed
VERSIONS = "import sys; print(getattr(sys.modules.get('torch'), '__version__', '').partition('+')[0])"
ADDRESS_IN_MEMORY = re.compile(r"\bat 0x[0-9a-fA-F]{6,}|<[^<>\n]* 0x[0-9a-fA-F]{6,}>")


class RefreshError(Exception):
    """A notebook that cannot be brought into form; the message says why."""


def colab_source() -> str:
    """The first code cell of every notebook, at this version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    source = (ROOT / "tools" / "colab_cell.py").read_text(encoding="utf-8").strip()
    source, found = re.subn(
        r'^(ADDRESS, VERSION = "[^"]+", )"[^"]*"$', rf'\g<1>"{version}"', source, flags=re.M
    )
    if found != 1:
        raise RefreshError('tools/colab_cell.py must hold exactly one line ADDRESS, VERSION = "…", "…"')
    return source


def refresh(path: Path) -> bool:
    """Execute and normalize one notebook; True when the file changed."""
    before = path.read_text(encoding="utf-8")
    notebook = prepare(before)
    old_pictures = {cell.id: pictures(cell) for cell in notebook.cells}
    versions = execute(notebook, path)
    normalize(notebook, old_pictures)
    nbformat.validate(notebook)
    after = nbformat.writes(notebook).rstrip("\n") + "\n"
    if after != before:
        replace(path, after)
    if path.resolve().parent == RECORD.parent:
        record(path.stem, notebook, versions)
    return after != before


def replace(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def record(name: str, notebook, versions: dict) -> None:
    """Note what the page tells its readers; the hash says for which code it holds."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    known[name] = {**versions, "code": code_hash(notebook)}
    lines = [
        f"  {json.dumps(each)}: {json.dumps(known[each])}"
        for each in sorted(known)
        if (RECORD.parent / f"{each}.ipynb").exists()
    ]
    replace(RECORD, "{\n" + ",\n".join(lines) + "\n}\n")


def code_hash(notebook) -> str:
    """Of all cells that run, in order; the Colab cell aside, which changes with the book's address."""
    code = [c for c in notebook.cells if c.cell_type == "code" and "colab" not in c.metadata.get("tags", [])]
    return hashlib.sha256("\0".join(cell.source for cell in code).encode()).hexdigest()[:16]


def prepare(text: str):
    """The notebook as read, with everything settled that does not depend on running it."""
    raw = json.loads(text)
    if raw.get("nbformat") != 4:
        raise RefreshError(f"nbformat {raw.get('nbformat')!r} must be 4")
    raw["nbformat_minor"] = 5
    settle_ids(raw["cells"])  # before nbformat sees them: it would invent random ones
    notebook = nbformat.from_dict(raw)
    for cell in notebook.cells:
        cell.source = "".join(cell.source)
        cell.metadata = _cell_metadata(cell.metadata)
    _place_colab_cell(notebook)
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    return nbformat.reads(json.dumps(notebook), as_version=4)


def _place_colab_cell(notebook) -> None:
    tagged = [c for c in notebook.cells if "colab" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise RefreshError("only one cell may carry the tag colab")
    if tagged:
        notebook.cells.remove(tagged[0])
    cell = tagged[0] if tagged else nbformat.v4.new_code_cell(id="colab")
    cell.source, cell.metadata = colab_source(), _cell_metadata({"tags": ["colab"]})
    first_code = next((i for i, c in enumerate(notebook.cells) if c.cell_type == "code"), len(notebook.cells))
    notebook.cells.insert(first_code, cell)


def _cell_metadata(metadata):
    kept = {key: metadata[key] for key in CELL_METADATA if key in metadata}
    hidden = (kept.pop("jupyter", None) or {}).get("source_hidden")
    if hidden:
        kept["jupyter"] = {"source_hidden": True}
    tags = list(dict.fromkeys(kept.pop("tags", [])))
    for tag in list(tags):
        implied = dict(IMPLIED.get(tag, {}))
        tags += [each for each in implied.pop("tags", []) if each not in tags]
        kept |= implied
    if tags:
        kept["tags"] = tags
    return nbformat.from_dict(kept)


def settle_ids(cells) -> None:
    """Keep valid, unique ids; make the others from what the cell says: the same in every run."""
    seen = set()
    for cell in cells:
        name = cell.get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) or name in seen:
            source = "".join(cell.get("source", ""))
            stem = name = "cell-" + hashlib.sha256(source.encode()).hexdigest()[:8]
            count = 1
            while name in seen:
                count += 1
                name = f"{stem}-{count}"
        cell["id"] = name
        seen.add(name)


def execute(notebook, path: Path) -> dict:
    """Run all cells; returns the versions of Python and torch that the kernel had."""
    # This checkout's package, whatever is installed, and the kernel's own backend for figures.
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name=KERNEL,
        resources={"metadata": {"path": str(path.resolve().parent)}},
        record_timing=False,
        store_widget_state=False,
    )
    probe = nbformat.v4.new_code_cell(VERSIONS)
    notebook.cells.append(probe)
    try:
        client.execute(env=environment)
    except (CellExecutionError, DeadKernelError, TimeoutError) as error:
        raise RefreshError(str(error)) from None
    notebook.cells.remove(probe)
    python = notebook.metadata.language_info.version  # the kernel's own word
    return {"python": ".".join(python.split(".")[:2]), "torch": probe.outputs[0].text.strip()}


def normalize(notebook, old_pictures: dict) -> None:
    """Outputs in one form: counted, merged, without what changes from run to run."""
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    count = 0
    for cell in notebook.cells:
        cell.metadata = _cell_metadata(cell.metadata)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = _merge_streams(cell.outputs)
        for output in cell.outputs:
            _normalize_output(output, count)
        keep_same_pictures(cell, old_pictures.get(cell.id, []))
        stray = ADDRESS_IN_MEMORY.search(json.dumps(cell.outputs))
        if stray:
            raise RefreshError(
                f"an output holds the memory address {stray[0]!r}, which differs in every run; the cell is\n"
                f"{cell.source}"
            )


def _merge_streams(outputs) -> list:
    """One stdout and one stderr per cell, each where it first appeared."""
    merged, streams = [], {}
    for output in outputs:
        if output.output_type == "stream" and output.name in streams:
            streams[output.name].text += output.text
            continue
        merged.append(output)
        if output.output_type == "stream":
            streams[output.name] = output
    return merged


def _normalize_output(output, count: int) -> None:
    output.pop("transient", None)
    if output.output_type == "execute_result":
        output.execution_count = count
    if "data" not in output:
        return
    output.data.pop("application/vnd.jupyter.widget-view+json", None)  # a reopened notebook has no such model
    sizes = output.metadata.get("image/png", {})
    output.metadata = nbformat.from_dict(
        {"image/png": {k: sizes[k] for k in ("height", "width")}} if {"height", "width"} <= set(sizes) else {}
    )
    if "image/png" in output.data:
        output.data["image/png"] = compact_png(output.data["image/png"])


def compact_png(encoded: str) -> str:
    """At most 256 colors, a third of the size, unless the eye could tell; no version stamp."""
    from PIL import Image, ImageChops, ImageStat

    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        full = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
    full = full.convert("RGB")
    # Median cut misses by 40 and more where lines blend into tinted areas; the second way is slower.
    for way in ({}, {"method": Image.Quantize.MAXCOVERAGE, "kmeans": 1}):
        few = full.quantize(256, dither=Image.Dither.NONE, **way)
        off = ImageStat.Stat(ImageChops.difference(full, few.convert("RGB")))
        alike = max(off.mean) < 0.5 and max(high for _, high in off.extrema) <= 32
        if alike:
            break
    out = io.BytesIO()
    (few if alike else full).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def pictures(cell) -> list[str]:
    found = [output.get("data", {}).get("image/png") for output in cell.get("outputs", [])]
    return [picture.strip() for picture in found if picture]


def keep_same_pictures(cell, old: list[str]) -> None:
    """Another library version writes other bytes for the same pixels: then keep the old bytes."""
    new = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    for output, picture in zip(new, old, strict=False):
        if _pixels(picture) == _pixels(output.data["image/png"]):
            output.data["image/png"] = picture


def _pixels(encoded: str):
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        return picture.size, picture.convert("RGBA").tobytes()


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every notebook of book/")
    paths = parser.parse_args(arguments).notebooks or sorted((ROOT / "book").glob("*.ipynb"))
    if not paths:
        print("no notebooks found in book/", file=sys.stderr)
        return 1
    for path in paths:
        try:
            changed = refresh(path)
        except (RefreshError, OSError, nbformat.ValidationError) as error:
            print(f"{path}: left as it was\n{error}", file=sys.stderr)
            return 1
        print(f"{path}: {'refreshed' if changed else 'unchanged'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
