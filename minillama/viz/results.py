"""Recorded results: measurements too long for a page, committed as JSON and loaded by the chapters."""

import json
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = (
    _PACKAGE.parent / "benchmarks" / "results",
    _PACKAGE.parent / "experiments" / "results",
    _PACKAGE / "recorded",  # where an installed wheel keeps its copy
)


def _find(kind: str, name: str, folders, pattern: str) -> Path:
    found = {path.stem: path for folder in reversed(folders) for path in sorted(Path(folder).glob(pattern))}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ValueError(f"name {name!r} is not a recorded {kind}; recorded are: {known}")
    return found[name]


def recorded(name: str, *, folders=_FOLDERS) -> dict:
    """The committed result `name` (a file `name.json`), from the checkout or from the installed package."""
    return json.loads(_find("result", name, folders, "*.json").read_text(encoding="utf-8"))


def recorded_folder(name: str, *, folders=_FOLDERS) -> Path:
    """The committed folder `name`: a recorded model and its tokenizer."""
    return _find("folder", name, folders, "*/")


def record(path: Path, text: str) -> None:
    """Write a result whole or not at all: an interrupted run leaves the old file."""
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
