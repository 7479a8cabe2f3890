"""Run the notebooks as Colab would: with its versions, from their own first cell, in an empty folder.

python tools/colab_run.py [notebook ...]

Makes an environment of its own in _build/colab from the versions in tools/colab.txt. The first cell installs
the package from the book's address; here git answers for that address with this checkout, changes included.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ROOT / "tools" / "colab.txt"
FOLDER = ROOT / "_build" / "colab"
PYTHON = FOLDER / "venv" / "bin" / "python"
MARK = FOLDER / "installed.txt"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PLACEHOLDER, STAND_IN = "/OWNER/", "/reader/"
# Settings that would let this checkout, or another environment, into the one that is tested.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "MPLBACKEND")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every notebook of book/")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # inside the environment
    options = parser.parse_args()
    notebooks = [path.resolve() for path in options.notebooks] or sorted((ROOT / "book").glob("*.ipynb"))
    if options.here:
        sys.exit(run_notebooks(notebooks))
    make_environment()
    install_package(notebooks[0])
    sys.exit(command([PYTHON, __file__, "--here", *notebooks], cwd=ROOT).returncode)


# The environment


def pins():
    """The recorded versions, by the name that pip lists, in lower case."""
    lines = VERSIONS.read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if line and line[0] != "#")


def python_version():
    return re.match(r"# Python (\d+\.\d+)\n", VERSIONS.read_text(encoding="utf-8"))[1]


def make_environment():
    ours = ".".join(map(str, sys.version_info[:2]))
    if ours != python_version():
        print(f"Colab has Python {python_version()}, this is {ours}: close, but not the same.")
    wanted = hashlib.sha256(VERSIONS.read_bytes() + f"{FOLDER} {ours}".encode()).hexdigest()
    if MARK.is_file() and MARK.read_text() == wanted:
        return
    print("Installing Colab's versions into _build/colab (this takes some minutes) …", flush=True)
    MARK.unlink(missing_ok=True)
    venv.create(PYTHON.parents[1], clear=True, with_pip=True)
    command([PYTHON, "-m", "pip", "install", "-q", "-r", VERSIONS], check=True)
    MARK.write_text(wanted)


def install_package(notebook):
    """Run the first cell, as on Colab. Exits when that replaces a package which Colab has loaded."""
    command([PYTHON, "-m", "pip", "uninstall", "-q", "-y", "minillama"], check=True, capture_output=True)
    cell = first_cell(notebook).replace(PLACEHOLDER, STAND_IN, 1)  # the address, not the check
    address, version = re.search(r'^ADDRESS, VERSION = "([^"]+)", "([^"]+)"$', cell, re.M).groups()
    settings = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{published(f'v{version}').as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }
    print("Running the first cell …", flush=True)
    if command([PYTHON, "-c", cell], cwd=empty_folder(), settings=settings).returncode:
        sys.exit("The first cell failed: on Colab no chapter would start.")
    installed = {package["name"].lower(): package["version"] for package in pip_list()}
    if "minillama" not in installed:
        sys.exit("The first cell ended without an error but installed no minillama.")
    wrong = [
        f"{name} {version} became {installed.get(name)}"
        for name, version in pins().items()
        if installed.get(name, "").partition("+")[0] != version
    ]
    if wrong:
        MARK.unlink()
        sys.exit(f"Installing minillama replaced what Colab has loaded: {'; '.join(wrong)}")


def first_cell(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return next("".join(c["source"]) for c in cells if "colab" in c["metadata"].get("tags", []))


def published(tag):
    """A repository in which `tag` is this checkout with its changes; new files count once git knows them."""
    repository = FOLDER / "repository.git"
    shutil.rmtree(repository, ignore_errors=True)
    command(["git", "init", "-q", "--bare", "--initial-branch=main", repository], check=True)
    command(["git", "-C", repository, "config", "receive.shallowUpdate", "true"], check=True)
    author = ["-c", "user.name=colab", "-c", "user.email=colab@localhost"]
    done = command(["git", *author, "stash", "create"], check=True, capture_output=True, cwd=ROOT)
    commit = done.stdout.decode().strip() or "HEAD"
    command(["git", "push", "-q", repository, f"{commit}:refs/tags/{tag}"], check=True, cwd=ROOT)
    command(["git", "-C", repository, "branch", "main", tag], check=True)
    return repository


def pip_list():
    done = command([PYTHON, "-m", "pip", "list", "--format", "json"], check=True, capture_output=True)
    return json.loads(done.stdout)


def empty_folder():
    folder = FOLDER / "content"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def command(arguments, *, settings=None, **options):
    clean = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    clean |= {"PYTHONNOUSERSITE": "1", "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    clean |= settings or {}
    return subprocess.run([str(argument) for argument in arguments], env=clean, **options)


# Inside it


def run_notebooks(paths):
    """0 when every notebook says what its committed outputs say and its explorers are live widgets."""
    failed = 0
    for path in paths:
        complaints, explorers = run_notebook(path)
        failed += bool(complaints)
        print(f"{path.name}: {'FAILED' if complaints else 'passed'}, {explorers} live explorers", flush=True)
        for complaint in complaints:
            print(f"  {complaint}", flush=True)
    print(f"{len(paths) - failed} notebooks passed, {failed} failed.")
    return 1 if failed else 0


def run_notebook(path):
    """(complaints, the number of explorers that a live front end would show)"""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    committed = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(empty_folder())}}
    client = NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=resources)
    try:
        client.execute()
    except (CellExecutionError, DeadKernelError, TimeoutError) as error:
        return [str(error)], 0
    complaints, explorers = [], 0
    for old, new in zip(committed.cells, notebook.cells, strict=True):
        if old.cell_type != "code":
            continue
        ignored = "nbval-ignore-output" in old.metadata.get("tags", [])
        if not ignored and said(new) != said(old):
            complaints.append(f"cell {old.id} says {said(new)!r}, committed is {said(old)!r}")
        for output in new.outputs:
            if 'class="ml-explorer' not in output.get("data", {}).get("text/html", ""):
                continue
            if is_live(output, client.widget_state):
                explorers += 1
            else:
                complaints.append(f"cell {old.id}: the explorer is no widget that a front end can show")
    return complaints, explorers


def said(cell):
    """The text of a cell's outputs, as nbval compares it: without pictures, and see nbval_sanitize.cfg."""
    streams, shown = {}, []
    for output in cell.outputs:
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
        else:
            texts = {kind: output.data[kind] for kind in ("text/plain", "text/html") if kind in output.data}
            shown.append({kind: sanitized(text) for kind, text in texts.items()})
    return streams, shown


def sanitized(text):
    rules = (ROOT / "tests" / "nbval_sanitize.cfg").read_text(encoding="utf-8")
    for pattern, replacement in re.findall(r"^regex: (.*)\nreplace: (.*)$", rules, re.M):
        text = re.sub(pattern, replacement, text)
    return text


def is_live(output, models):
    """The display names a widget model, and it and all that it is made of reached the front end."""
    waiting = [output["data"].get(WIDGET_VIEW, {}).get("model_id")]
    while waiting:
        model = models.get(waiting.pop())
        if model is None:
            return False
        waiting += re.findall(r"IPY_MODEL_(\w+)", json.dumps(model))
    return True


if __name__ == "__main__":
    main()
