"""Make .venv hold what requirements.txt pins. Runs under any Python 3, so that it can say what is wrong.

    python3 tools/environment.py

Does nothing when the environment is already right. A broken-off install leaves no mark of success behind.
"""

import hashlib
import json
import os
import subprocess
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
MARK = os.path.join(VENV, "installed.json")


def main():
    require_new_enough(
        sys.version_info[:2], sys.executable, "Run make with another one: make PYTHON=python3.12 book"
    )
    python = venv_python()
    if not os.path.exists(python):
        create()
    version = python_version(python)
    require_new_enough(version, ".venv", "Delete .venv and run this command again.")
    wanted = fingerprint(version)
    if read_mark() == wanted:
        return
    if os.path.exists(MARK):
        os.remove(MARK)
    print("Installing the pinned packages into .venv (the first time this takes some minutes) …", flush=True)
    run([python, "-m", "pip", "install", "--disable-pip-version-check", "-r", "requirements.txt"])
    with open(MARK, "w") as file:
        json.dump(wanted, file, indent=1)


def require_new_enough(version, where, remedy):
    if tuple(version) < OLDEST:
        need = ".".join(map(str, OLDEST))
        found = ".".join(map(str, version))
        sys.exit(f"This book needs Python {need} or newer; {where} is Python {found}. {remedy}")


def venv_python():
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(VENV, folder, name)


def create():
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit(
            "This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv; "
            "or run make with another Python: make PYTHON=/path/to/python3 book"
        )
    print("Creating the virtual environment .venv …", flush=True)
    run([sys.executable, "-m", "venv", "--clear", VENV])


def python_version(python):
    code = "import sys, json; print(json.dumps(sys.version_info[:2]))"
    found = subprocess.run([python, "-c", code], stdout=subprocess.PIPE)
    if found.returncode:
        sys.exit("The Python in .venv does not start. Delete .venv and run this command again.")
    return json.loads(found.stdout)


def fingerprint(version):
    """What an install depends on; of pyproject.toml only the parts that pip reads."""
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    packaging = [project["build-system"], project["project"], project["tool"]["hatch"]]
    with open(os.path.join(ROOT, "requirements.txt"), "rb") as file:
        pins = file.read()
    digest = hashlib.sha256(pins + json.dumps(packaging, sort_keys=True).encode()).hexdigest()
    return {"digest": digest, "folder": ROOT, "python": list(version)}


def read_mark():
    try:
        with open(MARK) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def run(command):
    # Another environment's settings must not leak into this one.
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
    clean = {name: value for name, value in os.environ.items() if name not in foreign}
    result = subprocess.run(command, cwd=ROOT, env=clean)
    if result.returncode:
        sys.exit(f"Failed: {' '.join(command)}. Run the same make command again once the cause is mended.")


if __name__ == "__main__":
    main()
