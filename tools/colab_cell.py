# On Colab this installs the book's package; where it is installed, it does nothing.
import importlib.util
import subprocess
import sys

ADDRESS, VERSION = "https://github.com/OWNER/minillama-book", "0.1.0"
if importlib.util.find_spec("minillama") is None:
    if "/OWNER/" in ADDRESS:
        raise RuntimeError(
            "minillama is not installed, and the book has no public address yet: "
            "run `pip install -e '.[book]'` in a clone of the book, or give it its "
            "address with `make address URL=...`"
        )
    # This version's tag. Lower bounds only: what Colab has loaded stays as it is.
    wanted = f"minillama[book] @ git+{ADDRESS}@v{VERSION}"
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, wanted], check=True)
