"""What GitHub runs: valid files, least rights, versions that agree with the one place where each stands."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import colab_run
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
DOCUMENTS = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
JOBS = {(name, job): body for name, file in DOCUMENTS.items() for job, body in file["jobs"].items()}
STEPS = [step for job in JOBS.values() for step in job["steps"]]
COMMANDS = [step["run"] for step in STEPS if "run" in step]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements():
    extras = PROJECT["optional-dependencies"]
    return [Requirement(text) for text in sum(extras.values(), PROJECT["dependencies"])]


@pytest.mark.parametrize(
    "schema, paths",
    [
        ("vendor.github-workflows", FILES),
        ("custom.github-workflows-require-timeout", FILES),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ],
)
def test_the_files_follow_their_schema(schema, paths):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_publishing_may_write():
    assert {name: file["permissions"] for name, file in DOCUMENTS.items()} == {
        name: {"contents": "read"} for name in DOCUMENTS
    }
    rights = {key: job["permissions"] for key, job in JOBS.items() if "permissions" in job}
    assert rights == {("ci.yml", "publish"): {"pages": "write", "id-token": "write"}}


def test_no_checkout_leaves_its_token_behind():
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) >= len(DOCUMENTS)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_foreign_code_is_named_with_its_version():
    """GitHub's own actions by major version, which Dependabot raises; anything else by an exact one."""
    allowed = re.compile(r"actions/[\w-]+@v\d+|docker://[\w/.-]+:\d+\.\d+\.\d+|[\w.-]+/[\w./-]+@[0-9a-f]{40}")
    assert [step["uses"] for step in STEPS if not allowed.fullmatch(step.get("uses", "actions/x@v1"))] == []


def test_what_is_published_passed_everything():
    jobs = DOCUMENTS["ci.yml"]["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert "github.ref == 'refs/heads/main'" in jobs["publish"]["if"]
    assert not any("if" in step or "continue-on-error" in step for step in STEPS)
    assert not any("continue-on-error" in job for job in JOBS.values())


def test_the_tested_site_is_the_published_one():
    """One job tests, prints and hands over; the publishing job builds nothing."""
    steps = DOCUMENTS["ci.yml"]["jobs"]["book"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == [".ci/run", "make pdf", "cp _build/minillama.pdf _build/html/minillama.pdf"]
    assert steps[-1]["uses"].startswith("actions/upload-pages-artifact@")
    assert steps[-1]["with"] == {"path": "_build/html"}
    assert [list(step) for step in DOCUMENTS["ci.yml"]["jobs"]["publish"]["steps"]] == [["id", "uses"]]


def test_ci_runs_the_test_command():
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("exec make test\n")


def test_make_knows_every_target_that_is_called():
    called = {target for command in COMMANDS for target in re.findall(r"\bmake ([\w-]+)", command)}
    known = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1].split()
    assert called and called <= set(known)


def test_the_package_is_tested_with_the_lowest_versions_and_the_newest():
    """The lower bounds stand in pyproject.toml alone: the resolver reads them there."""
    job = DOCUMENTS["ci.yml"]["jobs"]["package"]
    pythons, versions = job["strategy"]["matrix"]["python"], job["strategy"]["matrix"]["versions"]
    assert pythons[0] == PROJECT["requires-python"].removeprefix(">=") and len(pythons) == 2
    assert versions == ["lowest-direct", "highest"]
    install = next(step["run"] for step in job["steps"] if "uv pip install" in step.get("run", ""))
    assert "--resolution ${{ matrix.versions }}" in install and '-e ".[test]"' in install


def test_every_requirement_has_one_lower_bound():
    bounds = {}
    for requirement in requirements():
        if requirement.name != PROJECT["name"]:
            lower = [each.version for each in requirement.specifier if each.operator == ">="]
            assert len(lower) == 1, f"{requirement} needs a lower bound"
            bounds.setdefault(requirement.name, set()).update(lower)
    assert {name for name, found in bounds.items() if len(found) > 1} == set()


def test_what_colab_has_satisfies_every_bound():
    """Else the first cell of a chapter would replace a library that Colab has loaded."""
    pins = colab_run.pins()
    wanted = [requirement for requirement in requirements() if requirement.name in pins]
    assert {"torch", "numpy", "ipywidgets", "matplotlib"} <= {requirement.name for requirement in wanted}
    assert [str(each) for each in wanted if not each.specifier.contains(pins[each.name])] == []


def test_the_colab_run_has_colabs_python():
    steps = DOCUMENTS["colab.yml"]["jobs"]["notebooks"]["steps"]
    versions = [step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})]
    assert versions == [colab_run.python_version()]


def test_a_pip_cache_is_keyed_on_what_is_installed():
    keys = {
        key: step["with"]["cache-dependency-path"]
        for key, job in JOBS.items()
        for step in job["steps"]
        if "cache" in step.get("with", {})
    }
    assert keys == {("ci.yml", "book"): "requirements.txt", ("colab.yml", "notebooks"): "tools/colab.txt"}
    assert all((ROOT / path).is_file() for path in keys.values())
