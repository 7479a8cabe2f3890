# Installs the book's package on Colab; where it is installed, does nothing.
import importlib.util
import subprocess
import sys

ADDRESS, VERSION = "https://github.com/OWNER/minillama-book", "0.1.0"
if importlib.util.find_spec("minillama") is None:
    if "/OWNER/" in ADDRESS:
        raise RuntimeError(
            "minillama is not installed; the book has no public address yet: "
            "run `pip install -e '.[book]'` in a clone of the book, or set "
            "its address with `make address URL=...`"
        )
    # At this version's tag. What Colab has loaded stays as it is.
    wanted = f"minillama[book] @ git+{ADDRESS}@v{VERSION}"
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, wanted], check=True)
