"""A receiver of webhooks: a real HTTP server on loopback that answers as a test wants it to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """`answers`: the status of each request, given its number from 1; it may wait."""

    answers: Callable[[int], int] = lambda _: 204
    url: str = ""
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    taken: list[Any] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> list[str]:
        """Of those that it took, in order."""
        return [each["id"] for each in self.taken]


@contextmanager
def receiver(answers: Callable[[int], int] = lambda _: 204) -> Iterator[Receiver]:
    made = Receiver(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.came.append((dict(self.headers), body))
            status = made.answers(len(made.came))
            if 200 <= status < 300:
                made.taken.append(json.loads(body))
            try:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:  # the driver did not wait for it
                return

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}/hook?token=hush-hush"
    try:
        yield made
    finally:
        made.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()
