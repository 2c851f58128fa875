"""What a rank did when: told by its recorder as it goes, stored as spans.

Called inside a rank only. Times are of the machine's monotonic clock. Where a GPU trains they are
the GPU's, told some steps later (`gpuclock`); nothing waits for it. Must not wait.
"""

import time
from functools import partial
from typing import NamedTuple

from holdfast.protocol import spans
from holdfast.protocol.spans import KINDS
from holdfast.telemetry import schema
from holdfast.telemetry.gpu import Gpu
from holdfast.telemetry.gpuclock import Mark, Told
from holdfast.telemetry.stepclock import StepClock
from holdfast.telemetry.trace.ring import SpanWriter

_STEP, _P2P = KINDS.index(spans.STEP), KINDS.index(spans.P2P)
_COLLECTIVE, _OPTIMIZER = KINDS.index(spans.COLLECTIVE), KINDS.index(spans.OPTIMIZER)
_DATA = KINDS.index(spans.DATA)
_OF_PAUSES = {
    schema.SAVING: spans.SAVE,
    "saves its state": spans.SAVE,
    schema.LOADING: spans.LOAD,
    "starts a data loader": spans.DATA,
}


class Begun(NamedTuple):
    """A collective as it was enqueued: its kind, its number in its group, when, how long the thread
    that trains had waited for peers until then, and in which step."""

    kind: int
    number: int
    began_ns: int
    waited_ns: int
    step: int


class Message(NamedTuple):
    """A point-to-point message that was enqueued, and that nobody has waited for yet."""

    name: int
    began_ns: int
    waiting_ns: int  # since when somebody waits; 0: nobody does


class Tracer:
    """Spans of one rank. One thread trains; another may say what is under way."""

    def __init__(self, writer: SpanWriter, clock: StepClock, gpu: Gpu) -> None:
        self._writer, self._clock, self._gpu = writer, clock, gpu
        self.step = 1
        """The one that is under way."""
        self._stepped_ns = time.monotonic_ns()
        self._waited_ns = 0
        self._message: Message | None = None
        self._optimizes_ns = 0
        self._optimizes: Mark | None = None
        self._open: list[tuple[int, int, int]] = []  # kind, name and begin
        self._marks: list[Mark | None] = []  # where those began on the GPU
        self._phases: dict[str, tuple[int, int]] = {}
        self._pauses: dict[str, tuple[int, int]] = {}
        self._span = writer.span
        self._collectives = [writer.name(kind) for kind in schema.KINDS]

    # ------------------------------------------------------------ what has an end of its own

    def begins_phase(self, name: str, began_ns: int) -> None:
        """`telemetry.phase(name)` begins; one may be in another."""
        words = self._phases.get(name) or self._word(self._phases, name, spans.kind_of_phase(name))
        self._open.append((*words, began_ns))
        self._marks.append(self._gpu.begins() if self._gpu.is_timed else None)

    def begins_pause(self, name: str) -> None:
        kind = _OF_PAUSES.get(name, spans.PAUSE)
        words = self._pauses.get(name) or self._word(self._pauses, name, kind)
        self._open.append((*words, time.monotonic_ns()))
        self._marks.append(None)  # what saves or loads is the script's thread

    def ends(self, now_ns: int | None = None) -> None:
        """What began last, and is not over, ends."""
        if self._open:
            (kind, name, began_ns), mark = self._open.pop(), self._marks.pop()
            took_ns = (now_ns or time.monotonic_ns()) - began_ns
            if mark is None or not self._gpu.ends(mark, self._told(kind, name, self.step)):
                self._span(kind, name, began_ns, took_ns, 0, self.step)

    def _told(self, kind: int, name: int, step: int, group: int = 0, number: int = 0) -> Told:
        return partial(self._store, kind, name, step, group, number)

    def _store(
        self,
        kind: int,
        name: int,
        step: int,
        group: int,
        number: int,
        began_ns: int,
        took_ns: int,
        waited_ns: int,
    ) -> None:
        self._span(kind, name, began_ns, took_ns, waited_ns, step, group, number)

    def _word(self, known: dict[str, tuple[int, int]], name: str, kind: str) -> tuple[int, int]:
        known[name] = words = KINDS.index(kind), self._writer.name(name)
        return words

    def fetched(self, began_ns: int) -> None:
        """A data loader gave a batch, which was asked for then."""
        took_ns = time.monotonic_ns() - began_ns
        self._span(_DATA, 0, began_ns, took_ns, took_ns, self.step)

    # ------------------------------------------------------------ steps

    def starts_at(self, step: int) -> None:
        """The next step follows this one."""
        self.step = step + 1

    def on_gpu(self, step: int) -> Told:
        """What its GPU is to call for a step."""
        return self._told(_STEP, 0, step)

    def stepped(self, step: int, *, later: bool = False) -> None:
        """A step is complete; what was waited in it, for peers. `later`: its GPU tells it."""
        now_ns, waited_ns = time.monotonic_ns(), self._clock.waited_ns
        self._let_go_message(now_ns)
        took_ns, waited_ns = now_ns - self._stepped_ns, waited_ns - self._waited_ns
        if not later:
            self._span(_STEP, 0, self._stepped_ns, took_ns, waited_ns, step)
        self._stepped_ns, self._waited_ns = now_ns, self._clock.waited_ns
        self.step = step + 1

    def optimizes(self) -> None:
        self._optimizes_ns = time.monotonic_ns()
        self._optimizes = self._gpu.begins() if self._gpu.is_timed else None

    def optimized(self) -> None:
        if began_ns := self._optimizes_ns:
            self._optimizes_ns, mark = 0, self._optimizes
            if mark is None or not self._gpu.ends(mark, self._told(_OPTIMIZER, 0, self.step)):
                took_ns = time.monotonic_ns() - began_ns
                self._span(_OPTIMIZER, 0, began_ns, took_ns, 0, self.step)

    # ------------------------------------------------------------ peers

    def enqueued(self, kind: int, number: int) -> Begun:
        """A collective was."""
        now_ns = time.monotonic_ns()
        self._let_go_message(now_ns)
        return Begun(kind, number, now_ns, self._clock.waited_ns, self.step)

    def done(self, group: int, begun: Begun) -> None:
        """One that was enqueued is seen to be done."""
        waited_ns = max(0, self._clock.waited_ns - begun.waited_ns)
        self._collective(group, begun, time.monotonic_ns() - begun.began_ns, waited_ns)

    def collective(self, group: int, begun: Begun) -> Told:
        """What tells of one of whose end nobody will know but its GPU."""
        name = self._collectives[begun.kind]
        return self._told(_COLLECTIVE, name, begun.step, group, begun.number)

    def _collective(self, group: int, begun: Begun, took_ns: int, waited_ns: int) -> None:
        kind, number, began_ns, _, step = begun
        name = self._collectives[kind]
        waited_ns = min(waited_ns, took_ns)
        self._span(_COLLECTIVE, name, began_ns, took_ns, waited_ns, step, group, number)

    def passes(self, what: str, peer: int) -> None:
        """A message to or from that rank was enqueued: `sends to` or `receives from`."""
        now_ns = time.monotonic_ns()
        self._let_go_message(now_ns)
        self._message = Message(self._writer.name(f"{what} {peer}"), now_ns, 0)

    def waits(self) -> None:
        """The script begins to wait for its peers."""
        if (message := self._message) is not None:
            self._message = message._replace(waiting_ns=time.monotonic_ns())

    def waited(self) -> None:
        """That wait is over: a message that was enqueued just before it was meant."""
        if (message := self._message) is not None and message.waiting_ns:
            self._message = None
            name, began_ns, waiting_ns = message
            now_ns = time.monotonic_ns()
            self._span(_P2P, name, began_ns, now_ns - began_ns, now_ns - waiting_ns, self.step)

    def _let_go_message(self, now_ns: int) -> None:
        """One that is waited for later, or never: when it was enqueued, and no more."""
        if (message := self._message) is not None and not message.waiting_ns:
            self._message = None
            self._span(_P2P, message.name, message.began_ns, 0, 0, self.step)

    # ------------------------------------------------------------ what is under way

    def rests(self) -> None:
        """The rank ends in order: nothing is under way."""
        self._writer.opens(time.monotonic_ns(), [])

    def beat(self, pending: list[tuple[int, Begun]]) -> None:
        """Store what is under way. `pending`: collectives that are not done, each with its group.

        Called by the pulse, in a thread of its own.
        """
        now_ns, waited_ns, step = time.monotonic_ns(), self._clock.supposed_ns, self.step
        began_ns = self._stepped_ns
        since_ns = max(0, waited_ns - self._waited_ns)
        open_now = [(began_ns, since_ns, 0, step, 0, _STEP, 0)]
        for group, begun in pending:
            name = self._collectives[begun.kind]
            waits_ns = max(0, waited_ns - begun.waited_ns)
            fields = (group, begun.step, begun.number, _COLLECTIVE, name)
            open_now.append((begun.began_ns, waits_ns, *fields))
        if (message := self._message) is not None and message.waiting_ns:
            waits_ns = now_ns - message.waiting_ns
            open_now.append((message.began_ns, waits_ns, 0, step, 0, _P2P, message.name))
        for kind, name, began_ns in tuple(self._open):
            open_now.append((began_ns, 0, 0, step, 0, kind, name))
        self._writer.opens(now_ns, open_now)
