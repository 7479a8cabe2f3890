"""Fixtures for checks on the built site: the site itself, a server for it, and a browser."""

import os
import subprocess
import sys

import browser as browser_program
import pytest
import serve
from book_pages import ROOT


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
    with serve.running(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    executable = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=browser_program.FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A fresh page in a fresh context: nothing cached, nothing stored."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def find_browser():
    try:
        return browser_program.find()
    except FileNotFoundError as missing:
        hint = f"the pages were not looked at: {missing}"
    if os.environ.get("CI"):
        pytest.fail(hint, pytrace=False)
    pytest.skip(hint)
