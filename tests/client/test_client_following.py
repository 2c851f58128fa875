"""Following goes on where it was, and what comes twice is told once."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from holdfast.cli.client import Problem
from holdfast.cli.errors import not_reachable
from holdfast.client import NotReachable, Refused, following
from holdfast.client.following import Event, Following


def told(*numbers: int) -> list[bytes]:
    """Entries of these sequences as the driver writes them, in pieces that end anywhere."""
    text = b": the journal\n\n"
    for number in numbers:
        entry = {"sequence": number, "at": "", "now_s": 0.0, "kind": "Ticked", "why": ""}
        text += f"id: {number}\nevent: Ticked\ndata: {json.dumps(entry)}\n\n".encode()
    return [text[:40], text[40:]]


class Streams:
    """A driver whose connections bring this, one after the other; then it is away."""

    def __init__(self, *connections: Any) -> None:
        self._left = list(connections)
        self.asked: list[str] = []

    def stream(self, _where: str, *, headers: dict[str, str], **_: object) -> Any:
        self.asked.append(headers["Last-Event-ID"])
        if not self._left:
            raise not_reachable("it is away.", "")
        brought = self._left.pop(0)
        if isinstance(brought, Exception):
            raise brought
        return Pieces(brought)


class Pieces:
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        """There is nothing."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE_S", 0.0)


def follow(streams: Streams, last: int, after: int = 0) -> list[int]:
    def over(event: Event) -> bool:
        return event.sequence == last

    found: Any = lambda: streams  # noqa: E731 it stands for a client
    made = Following(found, job=None, after=after, away_s=0.0, over=over)
    return [event.sequence for event in made]


def test_what_a_second_connection_brings_again_is_told_once() -> None:
    streams = Streams(told(1, 2, 3), told(2, 3, 4), told(4, 5))
    assert follow(streams, 5) == [1, 2, 3, 4, 5]
    assert streams.asked == ["0", "3", "4"]


def test_it_begins_behind_what_is_known() -> None:
    streams = Streams(told(8, 9))
    assert follow(streams, 9, after=7) == [8, 9]
    assert streams.asked == ["7"]


def test_a_driver_that_stays_away_is_told() -> None:
    with pytest.raises(NotReachable, match="it is away"):
        follow(Streams(told(1)), 9)


def test_a_refusal_is_told_at_once() -> None:
    with pytest.raises(Refused) as refused:
        follow(Streams(Problem(401, {"detail": "no", "fix": "yes"})), 1)
    assert (refused.value.status, refused.value.fix) == (401, "yes")
