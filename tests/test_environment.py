"""`make` sets up .venv: only when needed, again after a broken-off install, plainly when it cannot."""

import json
import shutil
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose .venv is made and filled by a stand-in for pip that notes each command."""
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(environment, "ROOT", str(tmp_path))
    monkeypatch.setattr(environment, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(environment, "MARK", str(tmp_path / ".venv/installed.json"))
    monkeypatch.setattr(environment, "python_version", lambda python: [3, 11])
    commands = []

    def run(command):
        commands.append(command[1:3])
        python = Path(environment.venv_python())
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setattr(environment, "run", run)
    return tmp_path, commands


CREATE, INSTALL = ["-m", "venv"], ["-m", "pip"]


def test_it_installs_once(checkout):
    _, commands = checkout
    environment.main()
    assert commands == [CREATE, INSTALL]
    environment.main()
    assert commands == [CREATE, INSTALL]


def test_an_environment_made_by_hand_is_brought_to_the_pins(checkout):
    _, commands = checkout
    python = Path(environment.venv_python())
    python.parent.mkdir(parents=True)
    python.touch()
    environment.main()
    assert commands == [INSTALL]


@pytest.mark.parametrize("change", ["requirements", "extras", "folder", "mark"])
def test_it_installs_again_when_something_has_changed(checkout, change):
    root, commands = checkout
    environment.main()
    project = root / "pyproject.toml"
    if change == "requirements":
        (root / "requirements.txt").write_text("-e .\n")
    elif change == "extras":
        project.write_text(project.read_text().replace("matplotlib>=3.8", "matplotlib>=3.9"))
    elif change == "folder":
        mark = root / ".venv/installed.json"
        mark.write_text(json.dumps(json.loads(mark.read_text()) | {"folder": "/elsewhere"}))
    else:
        (root / ".venv/installed.json").write_text("{")
    environment.main()
    assert commands == [CREATE, INSTALL, INSTALL]


def test_lint_settings_do_not_reinstall(checkout):
    root, commands = checkout
    environment.main()
    project = root / "pyproject.toml"
    project.write_text(project.read_text().replace("line-length = 110", "line-length = 100"))
    environment.main()
    assert commands == [CREATE, INSTALL]


def test_a_broken_off_install_does_not_count(checkout, monkeypatch):
    root, commands = checkout
    environment.main()
    (root / "requirements.txt").write_text("-e .\n")

    def fail(command):
        raise SystemExit("Failed")

    working = environment.run
    monkeypatch.setattr(environment, "run", fail)
    with pytest.raises(SystemExit):
        environment.main()
    # Back to the pins of the mark that was there before: it must not count any more.
    shutil.copy(ROOT / "requirements.txt", root)
    monkeypatch.setattr(environment, "run", working)
    environment.main()
    assert commands == [CREATE, INSTALL, INSTALL]


def test_an_old_python_is_named(capsys):
    with pytest.raises(
        SystemExit, match=r"needs Python 3\.11 or newer; \.venv is Python 3\.10\. Delete \.venv"
    ):
        environment.require_new_enough([3, 10], ".venv", "Delete .venv")
    environment.require_new_enough([3, 11], ".venv", "")


def test_every_pin_is_exact():
    pins = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line[:1] not in "#"]
    assert pins[0] == "-e ." and len(pins) > 100
    for pin in pins[1:]:
        name, _, version = pin.partition("==")
        assert name and version and "+" not in version and not name.startswith(("nvidia", "triton")), pin
