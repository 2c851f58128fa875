"""A page with the pictures of a job that is made up, and the answers that they ask for.

Used by the benchmark and by tests. It serves the page's own files, and has the Content-Security-
Policy that the driver's pages have, so that what would be refused there is refused here.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.bench.page import made
from holdfast.page.render import render

STATIC = Path(__file__).resolve().parents[2] / "page" / "static"
JOB = "speech-7b"
VARIANTS = 3
"""Answers about ranks, each with other noise: one after another, as if time went by."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
)
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
VIEWS = ("heatmap", "timeline", "view3d")


class Answers:
    """What is asked for by path; bytes, made once."""

    def __init__(self, ranks: int, *, slow: int, spans: int) -> None:
        tp, pp = (8, 8) if ranks % 64 == 0 else (1, 1)
        self._ranks = [_ranks(ranks, slow, seed) for seed in range(VARIANTS)]
        grid = made.view3d(ranks // tp // pp, pp, tp, stopped=slow)
        traced = made.spans(min(spans, ranks), stopped=slow % min(spans, ranks))
        self._others = {
            f"/v1alpha1/jobs/{JOB}": {"name": JOB, "age_s": traced["to_s"]},
            f"/v1alpha1/jobs/{JOB}/view3d": grid,
            f"/v1alpha1/jobs/{JOB}/spans": traced,
        }
        self._bytes = {path: json.dumps(told).encode() for path, told in self._others.items()}
        self.asked: dict[str, int] = {}

    def of(self, path: str) -> bytes | None:
        count = self.asked[path] = self.asked.get(path, 0) + 1
        if path == f"/v1alpha1/jobs/{JOB}/ranks":
            return self._ranks[count % VARIANTS]
        return self._bytes.get(path)


def _ranks(ranks: int, slow: int, seed: int) -> bytes:
    told = made.answer(ranks, slow=[slow], seed=seed)
    told["ranks"][slow]["verdict"] = "holds its peers up: it computes for longer"
    return json.dumps(told).encode()


def page(views: tuple[str, ...] = VIEWS) -> bytes:
    """As the job's page has it: figures, and one module."""
    figures = "".join(
        f'<figure class="view" data-view="{view}" data-job="{JOB}">'
        f"<figcaption>{view}</figcaption></figure>"
        for view in views
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pictures</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{render('views')}</head>"
        f"<body><main><h1>Pictures</h1>{figures}</main></body></html>"
    ).encode()


@contextmanager
def served(answers: Answers, views: tuple[str, ...] = VIEWS) -> Iterator[str]:
    """Its address on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answers, views))
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _handler(answers: Answers, views: tuple[str, ...]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            kind, body = _found(answers, views, path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its own name
            pass

    return Handler


def _found(answers: Answers, views: tuple[str, ...], path: str) -> tuple[str, bytes | None]:
    if path == "/":
        return "text/html; charset=utf-8", page(views)
    if path == "/favicon.ico":
        return "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    if path.startswith("/static/"):
        file = (STATIC / path.removeprefix("/static/")).resolve()
        inside = file.is_relative_to(STATIC) and file.is_file()
        return TYPES.get(file.suffix, "text/plain"), file.read_bytes() if inside else None
    return "application/json", answers.of(path)
