"""Serve the built site on this machine, compressed as a web host would.

python tools/serve.py [--port 8000] [--folder _build/html]
"""

import argparse
import gzip
import http.server
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPRESSED = (".html", ".css", ".js", ".json", ".svg", ".txt", ".ipynb", ".md")


@lru_cache(maxsize=256)
def _compressed(path, changed_ns):
    return gzip.compress(Path(path).read_bytes(), 6, mtime=0)


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send_head(self):
        path = Path(self.translate_path(self.path))
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if not (accepts and path.suffix in COMPRESSED and path.is_file()):
            return super().send_head()
        body = _compressed(str(path), path.stat().st_mtime_ns)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Vary", "Accept-Encoding")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        return None

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # A browser that goes to the next page hangs up on this one.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def make_server(folder, port=0):
    """A server on 127.0.0.1; port 0 takes a free one. The caller runs `serve_forever` and `server_close`."""
    folder = Path(folder)
    if not (folder / "index.html").is_file():
        raise FileNotFoundError(f"{folder} holds no built site: run `make book` first")
    Handler.extensions_map |= {".woff2": "font/woff2"}
    Handler.extensions_map |= {suffix: "text/plain; charset=utf-8" for suffix in (".md", ".txt")}
    return Server(("127.0.0.1", port), partial(Handler, directory=str(folder)))


@contextmanager
def running(folder):
    """Serves `folder` in the background and gives the address, with a slash at its end."""
    server = make_server(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--folder", default=str(ROOT / "_build" / "html"))
    options = parser.parse_args()
    try:
        server = make_server(options.folder, options.port)
    except FileNotFoundError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(
            f"Port {options.port} cannot be used ({error.strerror}); try: make serve PORT={options.port + 1}"
        )
    print(f"The book is at http://127.0.0.1:{server.server_port}/ (stop with Ctrl-C)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()


if __name__ == "__main__":
    main()
