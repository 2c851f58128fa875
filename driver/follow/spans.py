"""Tells OpenTelemetry of each recovery once it is over: a trace, with a span for each stage.

Follows the state after it is committed; the SDK's own thread sends, to where OTEL_EXPORTER_OTLP_…
says, by OTLP over HTTP. An endpoint that is away, or slow, costs spans and is said. Made by
`driver.wiring`. Must not be waited for.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.people.phases import Span, spans_of
from holdfast.driver.ports import PermanentError
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger

SEND_AFTER_MS = 500
"""Spans of one recovery go together; who ends later than this after it has told it."""

_log = LazyLogger()


class _Words(logging.Handler):
    """The SDK's own words, which are one or more lines a batch, and of a header that is none the
    header itself: only the first of the exporter's is kept, until all is well."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        sdk = logging.getLogger("opentelemetry")
        sdk.propagate, sdk.handlers = False, [self]

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter"):
            self.first = self.first or record.getMessage()


class _Said(SpanExporter):
    """An exporter whose trouble is said once, until it is over."""

    def __init__(self, inner: SpanExporter, words: _Words) -> None:
        self._inner = inner
        self._words = words
        self._fails = False
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            why, fix = self._words.first, "see OTEL_EXPORTER_OTLP_ENDPOINT"
            _log.warning("spans not taken", lost=len(spans), why=why, fix=fix)
        self._fails, self._words.first = fails, ""
        self.lost += len(spans) if fails else 0
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class RecoverySpans:
    """`follow` is told each committed state; what was over before the first is not told again.

    Raises `PermanentError` where a variable of OpenTelemetry's has what the SDK refuses."""

    def __init__(self, clock: Clock, exporter: SpanExporter | None = None) -> None:
        self._clock = clock
        words = _Words()
        try:
            self._sender = _Said(exporter or OTLPSpanExporter(), words)
            self._provider = _provider(self._sender)
        except ValueError as error:
            raise PermanentError(f"OTEL_…: {error} Mend that variable, or leave it out.") from error
        self._tracer = self._provider.get_tracer("holdfast")
        self._seen: object = None
        self._told: set[int] | None = None

    def follow(self, state: State, now: float) -> None:
        """Queue what is over since the last call; drops it where the queue is full."""
        if state.incidents is self._seen:
            return
        self._seen = state.incidents
        begins, told = self._told is None, self._told or set()
        new = (each for number, each in state.incidents.items() if number not in told)
        over = {each.id: spans for each in new if (spans := spans_of(each))}
        for number, spans in over.items():
            if not begins:
                self._tell(state.incidents[number], spans, now)
        self._told = (told & state.incidents.keys()) | over.keys()

    @property
    def lost(self) -> int:
        """Spans that were not taken."""
        return self._sender.lost

    def close(self) -> None:
        """Send what is queued, and end the thread. May wait for the endpoint: not for a driver."""
        self._provider.shutdown()

    def _tell(self, incident: Incident, spans: Sequence[Span], now: float) -> None:
        wall = self._clock.wall()

        def at(moment_s: float) -> int:
            return int((wall - timedelta(seconds=now - moment_s)).timestamp() * 1e9)

        whole, *stages = spans
        root = self._tracer.start_span(
            whole.name, start_time=at(whole.began_s), attributes=_attributes(incident)
        )
        inside = set_span_in_context(root)
        for each in stages:
            child = self._tracer.start_span(each.name, inside, start_time=at(each.began_s))
            child.end(at(each.ended_s))
        root.end(at(whole.ended_s))


def _provider(sender: SpanExporter) -> TracerProvider:
    resource = Resource.create({"service.name": "holdfast-driver"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sender, schedule_delay_millis=SEND_AFTER_MS))
    return provider


def _attributes(incident: Incident) -> dict[str, str | int | list[str]]:
    """What is not known is not there."""
    known: dict[str, str | int | list[str]] = {
        "holdfast.incident": incident.id,
        "holdfast.kind": incident.kind.value,
        "holdfast.jobs": list(incident.jobs),
        "holdfast.nodes": list(incident.nodes or filter(None, (incident.node,))),
        "holdfast.summary": incident.summary,
    }
    if incident.steps_lost is not None:
        known["holdfast.steps_lost"] = incident.steps_lost
    return known
