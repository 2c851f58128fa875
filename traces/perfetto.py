"""Spans as a trace for Perfetto: a process a rank, tracks of what it did, arrows between ranks.

Numbers of fields are those of Perfetto's protos (protos/perfetto/trace). Slices of a track have to
lie in each other or apart: what overlaps otherwise gets a track beside. Pure but for the file.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from holdfast.protocol.spans import COLLECTIVE, P2P, STEP
from holdfast.traces.model import Span
from holdfast.traces.protobuf import fixed, octets, real, text, whole

_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _EVENT, _TRACK, _FLAGS = 8, 10, 11, 60, 13  # of TracePacket
_CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5  # of TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # of ProcessDescriptor
_TYPE, _TRACK_UUID, _CATEGORIES, _EVENT_NAME, _ANNOTATION, _FLOW = 9, 11, 22, 23, 4, 47
_BEGIN, _END = 1, 2  # of TrackEvent.Type
_ANNOTATION_NAME, _INTEGER, _REAL = 10, 4, 5  # of DebugAnnotation
_ONE_SEQUENCE = 1


class _Lane(NamedTuple):
    """A track of a rank: spans that lie in each other or apart. `ends`: of the open ones."""

    rank: int
    title: str
    spans: list[Span]
    ends: list[int]


def trace(spans: Sequence[Span]) -> Iterator[bytes]:
    """The file, packet by packet."""
    yield _packet(whole(_FLAGS, _CLEARED))
    flows = _flows(spans)
    for rank in sorted({span.rank for span in spans}):
        own = [span for span in spans if span.rank == rank]
        node = own[-1].node
        process = whole(_PID, rank + 1) + text(_PROCESS_NAME, f"rank {rank} on {node}")
        yield _packet(octets(_TRACK, whole(_UUID, _rank_uuid(rank)) + octets(_PROCESS, process)))
        for place, lane in enumerate(_lanes(rank, own)):
            yield from _of_lane(lane, _lane_uuid(rank, place), flows)


def _of_lane(lane: _Lane, uuid: int, flows: set[int]) -> Iterator[bytes]:
    named = whole(_UUID, uuid) + text(_NAME, lane.title)
    yield _packet(octets(_TRACK, named + whole(_PARENT, _rank_uuid(lane.rank))))
    open_until: list[int] = []
    for span in lane.spans:
        began_ns, ended_ns = _times(span)
        while open_until and open_until[-1] <= began_ns:
            yield _end(open_until.pop(), uuid)
        open_until.append(ended_ns)
        yield _begin(span, began_ns, uuid, flows)
    while open_until:
        yield _end(open_until.pop(), uuid)


def _begin(span: Span, at_ns: int, uuid: int, flows: set[int]) -> bytes:
    event = whole(_TYPE, _BEGIN) + whole(_TRACK_UUID, uuid)
    event += text(_CATEGORIES, span.kind) + text(_EVENT_NAME, _title(span))
    event += _number("step", span.step) + _number("attempt", span.attempt)
    event += _seconds("waited_s", span.waited_s)
    if span.number:
        event += _number("number", span.number)
    if not span.ended:
        event += _number("unfinished", 1)
    if (flow := _flow(span)) in flows:
        event += fixed(_FLOW, flow)
    return _packet(whole(_TIMESTAMP, at_ns) + octets(_EVENT, event))


def _end(at_ns: int, uuid: int) -> bytes:
    return _packet(
        whole(_TIMESTAMP, at_ns) + octets(_EVENT, whole(_TYPE, _END) + whole(_TRACK_UUID, uuid))
    )


def _packet(content: bytes) -> bytes:
    return octets(_PACKET, content + whole(_SEQUENCE, _ONE_SEQUENCE))


def _number(name: str, value: int) -> bytes:
    return octets(_ANNOTATION, text(_ANNOTATION_NAME, name) + whole(_INTEGER, value))


def _seconds(name: str, value: float) -> bytes:
    return octets(_ANNOTATION, text(_ANNOTATION_NAME, name) + real(_REAL, value))


def _title(span: Span) -> str:
    """Of a group along an axis that is said: `all_reduce dp`."""
    if span.kind == STEP:
        return f"step {span.step}"
    return f"{span.name or span.kind} {span.axis}".rstrip()


def _times(span: Span) -> tuple[int, int]:
    began_ns = max(0, round(span.start_s * 1e9))
    return began_ns, began_ns + max(0, round(span.took_s * 1e9))


def _flows(spans: Iterable[Span]) -> set[int]:
    """Collectives that more than one rank shows: arrows go from who came first to who came last."""
    seen: dict[int, set[int]] = {}
    for span in spans:
        if flow := _flow(span):
            seen.setdefault(flow, set()).add(span.rank)
    return {flow for flow, ranks in seen.items() if len(ranks) > 1}


def _flow(span: Span) -> int:
    """Of a collective, the same on all its ranks; 0: it is none."""
    if span.kind != COLLECTIVE or not span.number:
        return 0
    said = f"{span.attempt}.{span.group}.{span.number}".encode()
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "little")


def _lanes(rank: int, spans: Iterable[Span]) -> list[_Lane]:
    """By what it is, and as many of each as overlap."""
    lanes: list[_Lane] = []
    for span in sorted(spans, key=lambda each: (_times(each)[0], -_times(each)[1])):
        title = {STEP: "steps", COLLECTIVE: "collectives", P2P: "messages"}.get(span.kind, "phases")
        if not any(lane.title == title and _takes(lane, span) for lane in lanes):
            lanes.append(_Lane(rank, title, [span], [_times(span)[1]]))
    return lanes


def _takes(lane: _Lane, span: Span) -> bool:
    """Whether it lies in, or after, each that is still open when it begins; then it is taken."""
    began_ns, ended_ns = _times(span)
    while lane.ends and lane.ends[-1] <= began_ns:
        lane.ends.pop()
    if lane.ends and lane.ends[-1] < ended_ns:
        return False
    lane.ends.append(ended_ns)
    lane.spans.append(span)
    return True


def _rank_uuid(rank: int) -> int:
    return (rank + 1) << 16


def _lane_uuid(rank: int, place: int) -> int:
    return _rank_uuid(rank) + place + 1
