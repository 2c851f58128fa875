"""A command that meets a driver in waiting which names one that cannot be reached from here."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from ports import free_port

from holdfast.cli.client import Client, Problem, path
from holdfast.protocol import exitcodes
from holdfast.protocol.leading import LEADER


@contextmanager
def standing_by(leader: str) -> Iterator[str]:
    """The address of one that says that `leader` leads."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.send_header(LEADER, leader)
            self.send_header("Content-Type", "application/problem+json")
            self.end_headers()
            self.wfile.write(b'{"detail": "this driver stands by: another leads."}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize("leads", ["nobody", "itself"])
def test_its_own_answer_stands(leads: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with standing_by(nobody) as waiting:
        named = nobody if leads == "nobody" else waiting
        with standing_by(named) as asked, pytest.raises(Problem) as problem:
            Client(asked, "token").get(path("jobs"))
    assert str(problem.value) == "this driver stands by: another leads."
    assert problem.value.code == exitcodes.TRY_AGAIN
