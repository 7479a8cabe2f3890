"""The whole book as one PDF, printed by Chromium from the built site into _build/minillama.pdf.

python tools/pdf.py [--paper A4|Letter] [--output FILE]

The numbers in the contents need two passes: Chromium prints, the PDF says on which page each entry's
target lies, the numbers are filled in, and Chromium prints again.
"""

import argparse
import io
import os
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

import browser
import build
import serve
import yaml
from pypdf import PdfReader, PdfWriter

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ("A4", "Letter")
SHELL = """\
<!DOCTYPE html>
<html lang="{language}" data-theme="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
@page {{ size: {paper}; @bottom-left {{ font: 8.5pt "Book", serif; color: #444; }} }}
@page cover {{ @bottom-right {{ content: none; }} }}
{style}
</style>
<script src="/_static/book.js" defer></script>
</head>
<body>
<section id="cover">
<p class="title"></p>
<p class="authors">{author}</p>
<div class="colophon">
<p>Version {version}, © {copyright} {author}, {license} license.</p>
<p>This is the book on paper. At its address, the pictures that list values below them move with those values,
every chapter opens as a notebook, and questions answer at once; here the answers stand at the end of each
chapter. <a href="{address}">{address}</a></p>
</div>
</section>
<section id="contents"><h1>Contents</h1><nav aria-label="Contents"></nav></section>
<div class="bd-main"><div class="bd-content"><div class="bd-article-container"><main></main></div></div></div>
</body>
</html>
"""
ENTRIES = """() => [...document.querySelectorAll("#contents a")].map((link) => link.hash.slice(1))"""
NUMBER = """(numbers) => {
  const places = document.querySelectorAll("#contents .number");
  numbers.forEach((number, i) => { places[i].textContent = number; });
}"""


def write(site, output, paper="A4"):
    """Print the built site in the folder `site` to the file `output`; returns the number of pages."""
    from playwright.sync_api import sync_playwright

    executable = browser.find()
    with serve.running(site) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=browser.FLAGS)
        page = chromium.new_page()
        assemble(page, address, paper)
        count = print_to(page, output)
        chromium.close()
    return count


def assemble(page, address, paper="A4"):
    """Make of the site at `address` one document in the browser's `page`."""
    frame = shell(paper)
    page.route(f"{address}book.html", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.emulate_media(media="print")
    page.goto(f"{address}book.html")
    page.evaluate(f"({Path(__file__).with_suffix('.js').read_text(encoding='utf-8')})", toc(ROOT))


def shell(paper):
    """The document before the articles are in it: a title page and an empty table of contents."""
    if paper not in PAPERS:
        raise ValueError(f"paper is {paper!r}; it must be one of {', '.join(PAPERS)}")
    style = (Path(__file__).parent / "pdf.css").read_text(encoding="utf-8")
    return SHELL.format(**facts(ROOT), paper=paper, style=style)


def print_to(page, output):
    """Print the assembled book, at first only to learn its page numbers; returns the number of pages."""
    targets = page.evaluate(ENTRIES)
    plain = page.pdf(prefer_css_page_size=True, print_background=True)
    numbers = page_numbers(PdfReader(io.BytesIO(plain)), targets)
    page.evaluate(NUMBER, [str(number) for number in numbers])
    whole = page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    reader = PdfReader(io.BytesIO(whole))
    if page_numbers(reader, targets) != numbers:
        raise RuntimeError("the page numbers in the contents moved the pages that they number")
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(output.name + ".partial")  # no reader may find half a file
    named = PdfWriter(reader, incremental=True)  # Chromium writes the title and no author
    named.add_metadata({"/Author": facts(ROOT)["author"]})
    named.write(partial)
    os.replace(partial, output)
    return len(reader.pages)


def page_numbers(pdf, targets):
    """The page, counted from 1, on which each target of a link lies."""
    places = {unquote(name.removeprefix("/")): place for name, place in pdf.named_destinations.items()}
    lost = [target for target in targets if target not in places]
    if lost:
        raise RuntimeError(f"the PDF has no destination for {', '.join(lost)}")
    return [pdf.get_destination_page_number(places[target]) + 1 for target in targets]


def toc(root):
    """The table of contents: for each part its caption, if it has one, and its pages' addresses."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = contents.get("parts") or [{"chapters": contents.get("chapters", [])}]
    parts = [(part.get("caption"), build.pages_in(part)) for part in parts]
    parts = [(None, build.pages_in({"root": contents["root"]})), *parts]
    return [{"caption": caption, "pages": [f"{name}.html" for name in names]} for caption, names in parts]


def facts(root):
    """What the title page and the PDF's metadata say, each from where it is kept."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "title": config["title"],
        "author": config["author"],
        "copyright": config["copyright"],
        "language": config["sphinx"]["config"]["language"],
        "address": config["repository"]["url"],
        "version": project["version"],
        "license": project["license"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", choices=PAPERS, default=PAPERS[0])
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "minillama.pdf")
    options = parser.parse_args()
    build.build(ROOT)
    try:
        count = write(ROOT / "_build" / "html", options.output.resolve(), options.paper)
    except FileNotFoundError as missing:
        sys.exit(f"The PDF was not written: {missing}")
    print(f"{options.output} has {count} pages.")


if __name__ == "__main__":
    main()
