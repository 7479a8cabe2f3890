"""Ask every outside link of the built site and of the Markdown beside it once; say which are dead or moved.

python tools/links.py [--site _build/html] [--timeout 20]

Exits with 1 when a link is dead, with 2 when nothing could be checked because there is no network.
"""

import argparse
import ipaddress
import sys
import time
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import requests
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; minillama-book link check)", "Accept": "*/*"}
PLACEHOLDER = "/OWNER/"  # the book's own address, as long as it has none
TRIES = 3
FEW = 5  # so many hosts in a row are not silent by chance
PAUSE = 1.0  # seconds between two requests to one host
REFUSED = {401, 403, 429, 999}  # what hosts answer that want no scripts; a person must look
AGAIN = {429, 500, 502, 503, 504}


# What is linked


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and (value or "").startswith(("http://", "https://")):
                self.found.add(urldefrag(value.strip()).url)


def links_in(text):
    """The outside addresses that an HTML text links or loads, each once, without what follows `#`."""
    parser = Links()
    parser.feed(text)
    return parser.found


def collect(root, site):
    """{address: the pages that name it}, of the built site and of all Markdown outside book/."""
    texts = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    for path in [*root.glob("*.md"), *root.glob("[!._]*/**/*.md")]:
        if path.is_relative_to(root / "book"):
            continue  # that is in the site
        texts[path.relative_to(root).as_posix()] = MarkdownIt().render(path.read_text("utf-8"))
    pages = {}
    for name, text in sorted(texts.items()):
        for address in links_in(text):
            pages.setdefault(address, []).append(name)
    return pages


def one_host_after_another(addresses):
    """First one address of every host, then a second one: no host is asked often in a row."""
    turns = Counter()
    order = {}
    for address in sorted(addresses):
        host = urlsplit(address).netloc
        order[address] = (turns[host], host)
        turns[host] += 1
    return sorted(order, key=order.get)


def is_local(address):
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


# What answers


@dataclass(frozen=True)
class Answer:
    kind: str  # "fine", "moved", "refused", "dead" or "silent"
    detail: str = ""


class Asker:
    """Asks one address at a time, each host at its leisure."""

    def __init__(self, timeout=20, pause=PAUSE):
        self.session = requests.Session()
        self.session.headers.update(HEADERS)
        self.timeout, self.pause = timeout, pause
        self.asked = {}  # host: when it may be asked again

    def ask(self, address):
        for attempt in range(TRIES):
            try:
                response = self._request("HEAD", address)
                if response.status_code >= 400:  # not every server knows HEAD
                    response = self._request("GET", address)
            except requests.TooManyRedirects:
                return Answer("dead", "redirects in a circle")
            except requests.Timeout:
                answer = Answer("silent", f"no answer in {self.timeout:g} seconds")
            except requests.RequestException as error:
                answer = Answer("silent", reason(error))
            else:
                answer = judged(response)
                if response.status_code not in AGAIN:
                    return answer
            self._wait_for(address, self.pause * 2**attempt)
        return answer

    def _request(self, method, address):
        self._wait_for(address)
        with self.session.request(
            method, address, timeout=self.timeout, allow_redirects=True, stream=True
        ) as response:
            return response  # of the body nothing was read

    def _wait_for(self, address, more=0.0):
        host = urlsplit(address).netloc
        now = time.monotonic()
        time.sleep(max(0.0, self.asked.get(host, now) - now) + more)
        self.asked[host] = time.monotonic() + self.pause


def judged(response):
    if response.status_code in REFUSED:
        return Answer("refused", f"{response.status_code}")
    if response.status_code >= 400:
        return Answer("dead", f"{response.status_code} {response.reason}".strip())
    # Temporary redirects are at home in doi.org and the like; a permanent one asks for the new address.
    if response.history and all(step.is_permanent_redirect for step in response.history):
        return Answer("moved", response.url)
    return Answer("fine")


def reason(error):
    """The innermost cause, which names the trouble; the outer ones repeat the address."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}"


# The report


def check(pages, asker, say=print):
    """Asks for every address of `pages` and reports; the exit status."""
    skipped = {a for a in pages if PLACEHOLDER in a or is_local(a)}
    wanted = one_host_after_another(set(pages) - skipped)
    if skipped:
        say(f"{len(skipped)} not asked: on this machine, or under the address that the book has not got yet")
    answers = {}
    for address in wanted:
        answers[address] = asker.ask(address)
        if len(answers) == FEW and {given.kind for given in answers.values()} == {"silent"}:
            say(f"{FEW} hosts in a row did not answer: there is no network here. ({answers[address].detail})")
            say(f"None of the {len(wanted)} links was checked.")
            return 2
    count = Counter(answer.kind for answer in answers.values())
    for kind, title in (
        ("dead", "dead"),
        ("silent", "dead: no answer"),
        ("moved", "moved for good"),
        ("refused", "not shown to a script; look yourself"),
    ):
        for address, answer in answers.items():
            if answer.kind == kind:
                say(f"{title}: {address}\n    {answer.detail}\n    on {some(pages[address])}")
    dead = count["dead"] + count["silent"]
    alive = f"{count['fine']} fine, {count['moved']} moved, {count['refused']} refused"
    say(f"{len(wanted)} links: {dead} dead, {alive}")
    return 1 if dead else 0


def some(pages):
    return ", ".join(pages[:3]) + (f" and {len(pages) - 3} more" if len(pages) > 3 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--timeout", type=float, default=20)
    options = parser.parse_args()
    if not (options.site / "index.html").is_file():
        sys.exit(f"{options.site} holds no built site: run `make book` first")
    sys.exit(check(collect(ROOT, options.site.resolve()), Asker(options.timeout)))


if __name__ == "__main__":
    main()
