"""Fixtures for checks on the built site: the site itself, a server for it, and a browser."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
import serve
from book_pages import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing but the pages under test may use the network, or a foreign request would go unseen.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def site():
    """The folder of the built site, built anew when a source has changed."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "build.py")], capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"The site does not build (make book shows it, too):\n{done.stderr}", pytrace=False)
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def site_url(site):
    """The address of the served site, with a slash at its end."""
    server = serve.make_server(site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def browser():
    executable = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A fresh page in a fresh context: nothing cached, nothing stored."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def find_browser():
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        return found
    hint = (
        "no Chromium here, so the pages were not looked at; to check them, too: apt install chromium "
        "(or set CHROMIUM to the path of a Chromium or Chrome)"
    )
    if os.environ.get("CI"):
        pytest.fail(hint, pytrace=False)
    pytest.skip(hint)
