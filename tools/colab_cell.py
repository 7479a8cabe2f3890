# On Colab this installs the package behind the book; where it is installed already, it does nothing.
import importlib.util
import subprocess
import sys

ADDRESS, VERSION = "https://github.com/OWNER/minillama-book", "0.1.0"
if importlib.util.find_spec("minillama") is None:
    if "/OWNER/" in ADDRESS:
        raise RuntimeError(
            "minillama is not installed and the book has no public address yet: in a clone of the book run "
            "`pip install -e '.[book]'`, or give the book its address with `make address URL=...`"
        )
    # At this version's tag, with lower bounds only: the libraries that Colab has loaded stay as they are.
    wanted = f"minillama[book] @ git+{ADDRESS}@v{VERSION}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", wanted], check=True)
