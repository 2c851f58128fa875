"""Recoveries as OpenTelemetry's spans, as a collector gets them by HTTP."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from waiting import eventually

from holdfast.driver.core.state.model import Blame, Incident, Kind, Rollback, State
from holdfast.driver.follow.spans import RecoverySpans
from holdfast.driver.ports import PermanentError
from holdfast.driver.settings import tells_spans
from holdfast.kit.clock import SystemClock

OVER = Incident(
    id=7,
    opened=3,
    kind=next(iter(Kind)),
    blame=next(iter(Blame)),
    found_s=100.0,
    stalled_s=2.0,
    summary="rank 1 died",
    jobs=("job",),
    nodes=("n1",),
    suspended_s=101.0,
    seated_s=102.5,
    restored_s=103.0,
    resumed_s=104.0,
    rollbacks={"job": Rollback(before=9, restored=5)},
)


class Collector:
    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.status, self.asked, self.go_on = 200, threading.Event(), threading.Event()
        self.go_on.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.set()
                outer.go_on.wait(30)
                if outer.status == 200:
                    outer.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.go_on.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def spans(collector: Collector) -> Iterator[RecoverySpans]:
    made = RecoverySpans(SystemClock(), OTLPSpanExporter(collector.url, timeout=2))
    made.follow(State(), 99.0)
    yield made
    collector.go_on.set()
    made.close()


def test_a_recovery_is_one_trace_of_its_stages(spans: RecoverySpans, collector: Collector) -> None:
    state = State(incidents={7: OVER})
    spans.follow(state, 104.0)
    spans.follow(State(incidents=dict(state.incidents)), 105.0)
    eventually(lambda: collector.requests, "spans come")
    (request,) = collector.requests
    told = list(request.resource_spans[0].scope_spans[0].spans)
    (root,) = (each for each in told if not each.parent_span_id)
    stages = sorted((s for s in told if s.parent_span_id), key=lambda s: s.start_time_unix_nano)
    assert {each.trace_id for each in told} == {root.trace_id}
    assert {each.parent_span_id for each in stages} == {root.span_id}
    assert [each.name for each in stages] == ["detect", "stop", "rendezvous", "fork", "step"]
    assert root.end_time_unix_nano - root.start_time_unix_nano == pytest.approx(6e9, abs=1e6)
    for one, after in pairwise(stages):
        assert one.end_time_unix_nano == pytest.approx(after.start_time_unix_nano, abs=1e6)
    said = {each.key: each.value for each in root.attributes}
    assert said["holdfast.steps_lost"].int_value == 4
    assert said["holdfast.nodes"].array_value.values[0].string_value == "n1"


def test_what_was_over_before_is_not_told_again(collector: Collector) -> None:
    spans = RecoverySpans(SystemClock(), OTLPSpanExporter(collector.url, timeout=2))
    spans.follow(State(incidents={7: OVER}), 110.0)
    spans.close()
    assert not collector.requests


@pytest.mark.parametrize(
    ("how", "why"), [("slow", "timeout"), ("refuses", "400"), ("away", "refused")]
)
def test_an_endpoint_in_trouble_costs_spans_and_is_said(
    spans: RecoverySpans,
    collector: Collector,
    how: str,
    why: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if how == "slow":
        collector.go_on.clear()
    elif how == "refuses":
        collector.status = 400
    else:
        collector.server.socket.close()
    spans.follow(State(incidents={7: OVER}), 104.0)  # comes back at once: nobody waits
    eventually(lambda: spans.lost, "what is lost is counted")
    assert not collector.requests
    said = "".join(capfd.readouterr())
    (line,) = (each for each in said.splitlines() if "spans" in each)
    assert "spans not taken" in line
    assert why in line


def test_a_header_that_is_none_is_not_in_the_log() -> None:
    """In a process of its own, for pytest takes the words of libraries away."""
    asked = (
        "from holdfast.driver.follow.spans import RecoverySpans as Spans\n"
        "from holdfast.kit.clock import SystemClock\n"
        "Spans(SystemClock()).close()"
    )
    env = os.environ | {"OTEL_EXPORTER_OTLP_HEADERS": "Bearer s3cret"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_a_variable_that_the_sdk_refuses_is_said_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x")
    with pytest.raises(PermanentError, match=r"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT .* got x"):
        RecoverySpans(SystemClock())


def test_nobody_is_told_unless_the_environment_names_somebody() -> None:
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert tells_spans(named)
    assert not tells_spans({})
    assert not tells_spans(named | {"OTEL_SDK_DISABLED": "true"})
