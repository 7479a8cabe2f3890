"""Settings of every test run, `pytest --nbval book/` included, from whatever directory it is started."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def pytest_configure(config):
    # Kernels inherit the environment: they must run this checkout, whatever version is installed.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["HF_HUB_OFFLINE"] = "1"
    notebooks = getattr(config.option, "nbval", False) or getattr(config.option, "nbval_lax", False)
    if notebooks:
        os.environ.pop("MPLBACKEND", None)  # then a kernel draws into the notebook
        if config.option.nbval_sanitize_with is None:
            config.option.nbval_sanitize_with = str(ROOT / "tests" / "nbval_sanitize.cfg")
    else:
        os.environ["MPLBACKEND"] = "agg"
