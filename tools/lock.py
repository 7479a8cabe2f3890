"""Resolve the newest allowed versions of all that the build and the tests use, and pin them.

python tools/lock.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "2.13.0"
HEADER = """\
# Written by `make lock`. Everything that builds and tests the book, in one version.
# torch carries no build suffix: any build of that version fits, the small CPU-only one too, and whatever
# a build with CUDA brings along is left to torch itself.
-e .
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = [".[book,test,site]", f"torch=={TORCH}"]
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], cwd=ROOT, check=True)
        found = json.loads(report.read_text())["install"]
    packages = [item["metadata"] for item in found]
    versions = {package["name"].lower().replace("_", "-"): package["version"] for package in packages}
    wanted = sorted(name for name in versions if name != "minillama" and not brought_by_cuda(name))
    pins = [f"{name}=={versions[name].partition('+')[0]}" for name in wanted]
    (ROOT / "requirements.txt").write_text(HEADER + "\n".join(pins) + "\n")
    print(f"requirements.txt pins {len(pins)} packages")


def brought_by_cuda(name):
    return name.startswith(("nvidia-", "cuda-")) or name == "triton"


if __name__ == "__main__":
    main()
