"""`make links` asks every outside link once and tells dead from moved, and both from no network at all."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import links
import pytest

HTML = """<a href="{0}/fine#one">a</a> <a href='{0}/fine#two'>b</a> <img src="{0}/picture.png">
<a href="next.html">c</a> <a href="#here">d</a> <a href="mailto:a@b.c">e</a> <code>{0}/in-code</code>"""


class Site(BaseHTTPRequestHandler):
    """Each path is one way to answer; `asked` notes what came."""

    def do_HEAD(self):
        self.server.asked.append((self.command, self.path))
        name = self.path.strip("/")
        if name == "slow":
            self.server.over.wait(10)
        elif name == "flaky":
            self.answer(503 if self.server.asked.count(("HEAD", "/flaky")) == 1 else 200)
        elif name == "no-head":
            self.answer(405 if self.command == "HEAD" else 200)
        elif name in ("301", "302", "308"):
            self.answer(int(name), "/fine")
        elif name == "circle":
            self.answer(302, "/circle")
        else:
            self.answer(200 if name == "fine" else int(name))

    do_GET = do_HEAD

    def answer(self, status, location=None):
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    server.asked, server.over = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def host(server):
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def asker():
    asker = links.Asker(timeout=5, pause=0)
    asker.session.trust_env = False  # a proxy of this machine is not asked
    return asker


@pytest.mark.parametrize(
    "path, kind",
    [
        ("fine", "fine"),
        ("no-head", "fine"),
        ("flaky", "fine"),
        ("302", "fine"),
        ("301", "moved"),
        ("308", "moved"),
        ("403", "refused"),
        ("429", "refused"),
        ("404", "dead"),
        ("410", "dead"),
        ("500", "dead"),
        ("circle", "dead"),
    ],
)
def test_an_answer_is_told_from_the_others(host, asker, path, kind):
    assert asker.ask(f"{host}/{path}").kind == kind


def test_a_moved_page_says_where_to(host, asker):
    assert asker.ask(f"{host}/301").detail == f"{host}/fine"


def test_a_slow_host_is_silent_after_three_tries(server, host):
    asker = links.Asker(timeout=0.1, pause=0)
    asker.session.trust_env = False
    assert asker.ask(f"{host}/slow") == links.Answer("silent", "no answer in 0.1 seconds")
    assert server.asked == [("HEAD", "/slow")] * 3


def test_a_dead_page_is_not_asked_again(server, host, asker):
    asker.ask(f"{host}/404")
    assert server.asked == [("HEAD", "/404"), ("GET", "/404")]


def test_a_host_without_a_server_says_why(server, host, asker):
    server.shutdown()
    server.server_close()
    answer = asker.ask(f"{host}/fine")
    assert answer.kind == "silent" and "refused" in answer.detail


def test_links_are_found_once_and_without_their_anchor():
    assert links.links_in(HTML.format("https://a.b")) == {"https://a.b/fine", "https://a.b/picture.png"}


def test_the_site_and_the_markdown_beside_it_are_read(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "_build/html/sub").mkdir(parents=True)
    (tmp_path / "_build/html/sub/page.html").write_text(HTML.format("https://a.b"))
    (tmp_path / "README.md").write_text("[x](https://a.b/fine), `https://not.a/link`, <https://c.d/e>\n")
    (tmp_path / "book/page.md").write_text("[in the site anyway](https://not.read/twice)\n")
    (tmp_path / "_build/other.md").write_text("[built](https://not.ours/)\n")
    assert links.collect(tmp_path, tmp_path / "_build/html") == {
        "https://a.b/fine": ["README.md", "sub/page.html"],
        "https://a.b/picture.png": ["sub/page.html"],
        "https://c.d/e": ["README.md"],
    }


def test_hosts_take_turns():
    addresses = ["https://a/1", "https://a/2", "https://b/1", "https://a/3"]
    assert links.one_host_after_another(addresses) == [
        "https://a/1",
        "https://b/1",
        "https://a/2",
        "https://a/3",
    ]


@pytest.mark.parametrize("path, status", [("fine", 0), ("301", 0), ("403", 0), ("404", 1), ("slow", 1)])
def test_only_a_dead_link_fails_and_the_report_says_where_it_stands(
    server, host, asker, monkeypatch, path, status
):
    monkeypatch.setattr(links, "is_local", lambda address: False)
    asker.timeout = 0.1 if path == "slow" else 5
    said = []
    assert links.check({f"{host}/{path}": ["page.html"]}, asker, said.append) == status
    assert said[-1].startswith("1 links: ")
    named = [line for line in said if f"{host}/{path}" in line]
    assert bool(named) == (path != "fine")
    assert all("on page.html" in line for line in named)


def test_every_address_is_asked_once_and_none_of_this_machine(server, host, asker):
    said = []
    pages = {f"{host}/404": ["a"], "http://localhost:8000/": ["b"], "https://github.com/OWNER/x": ["c"]}
    assert links.check(pages, asker, said.append) == 0
    assert server.asked == [] and said[0].startswith("3 not asked")


def test_no_network_is_said_and_is_not_a_dead_link(asker, monkeypatch):
    asked = []
    silent = links.Answer("silent", "no route")
    monkeypatch.setattr(asker, "ask", lambda address: asked.append(address) or silent)
    said = []
    assert links.check({f"https://host{n}.test/": ["a"] for n in range(9)}, asker, said.append) == 2
    assert len(asked) == links.FEW
    assert "no network" in said[0] and "None of the 9 links was checked" in said[1]
