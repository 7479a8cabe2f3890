"""Where this machine's Chromium is, and how it is started: for the checks of the site and for the PDF."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing but the pages themselves may use the network, or a foreign request would go unseen.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find():
    """The path of the browser; a `FileNotFoundError` says how to get one."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = f"CHROMIUM is {named!r}, which cannot be run" if named else "no Chromium here"
        raise FileNotFoundError(
            f"{missing}: apt install chromium (or set CHROMIUM to the path of a Chromium or Chrome)"
        )
    return found
