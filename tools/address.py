"""Give the book its public address: in _config.yml, in links and badges, in the first cell of each notebook.

python tools/address.py https://github.com/you/your-fork
"""

import os
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CONFIG = "_config.yml"
ALLOWED = re.compile(r"https://(?P<host>[\w-]+(\.[\w-]+)+)/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)", re.ASCII)
SUFFIXES = {
    "",
    ".cff",
    ".cfg",
    ".css",
    ".html",
    ".ipynb",
    ".js",
    ".json",
    ".md",
    ".py",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
}
NOT_OURS = {"__pycache__", "_build", "build", "dist", "node_modules", "seeds", "shared"}


def current(root=ROOT):
    """The address that _config.yml names, which is where every other place takes it from."""
    config = yaml.safe_load((Path(root) / CONFIG).read_text(encoding="utf-8"))
    return config["repository"]["url"]


def is_placeholder(address):
    return "/OWNER/" in address


def checked(url):
    """`url` without a trailing slash or `.git`; a `ValueError` when it is not the address of a repository."""
    plain = url.strip().removesuffix("/").removesuffix(".git")
    if not ALLOWED.fullmatch(plain):
        raise ValueError(
            f"URL is {url!r}; it must be https://host/owner/name, like https://github.com/you/your-fork"
        )
    return plain


def spellings(address):
    """The forms in which links carry the address, as (pattern, what it becomes for another address)."""
    old = ALLOWED.fullmatch(address)
    slug = f"{old['owner']}/{old['name']}"
    return {
        f"{old['host']}/{slug}": "{host}/{owner}/{name}",
        f"git@{old['host']}:{slug}": "git@{host}:{owner}/{name}",
        f"colab.research.google.com/github/{slug}": "colab.research.google.com/github/{owner}/{name}",
        f"raw.githubusercontent.com/{slug}": "raw.githubusercontent.com/{owner}/{name}",
        f"{old['owner']}.github.io/{old['name']}": "{owner}.github.io/{name}",
    }


def set_address(url, root=ROOT):
    """Replace the current address by `url` everywhere; returns the files that changed."""
    root, new = Path(root), checked(url)
    parts = ALLOWED.fullmatch(new).groupdict()
    changes = {
        re.escape(old) + r"(?![\w-])": form.format(**parts) for old, form in spellings(current(root)).items()
    }
    changed = {}
    for path in text_files(root):
        text = before = path.read_bytes().decode("utf-8")
        for pattern, replacement in changes.items():
            text = re.sub(pattern, replacement, text)
        if text != before:
            changed[path] = text
    # _config.yml last: broken off before that, the same command can be given again and finishes the work.
    order = sorted(changed, key=lambda path: (path == root / CONFIG, path))
    for path in order:
        replace(path, changed[path])
    return order


def text_files(root):
    """The project's own text files: no hidden folders except .github, nothing that was built."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [f for f in subfolders if f not in NOT_OURS and (f == ".github" or f[0] != ".")]
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix in SUFFIXES and not path.is_symlink():
                yield path


def replace(path, text):
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(text.encode("utf-8"))
    beside.chmod(path.stat().st_mode)
    os.replace(beside, path)


def main():
    if len(sys.argv) != 2 or not sys.argv[1].strip():
        sys.exit(
            f"The address is {current()}. To set another: make address URL=https://github.com/you/your-fork"
        )
    try:
        changed = set_address(sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
    for path in changed:
        print(path.relative_to(ROOT))
    print(f"The book's address is {current()}" + ("." if changed else ", as before."))


if __name__ == "__main__":
    main()
