"""The rank's own counts: what has been enqueued, done and stepped, stored into the ring as it goes.

Called by the hooks and by the user-facing functions of `holdfast.telemetry`, inside a rank only.
Must not wait; each count has one writer (collectives: whoever enqueues; done: one at a time).
"""

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from holdfast.protocol.groups import members_hash
from holdfast.telemetry import looks, schema
from holdfast.telemetry.calls import Calls
from holdfast.telemetry.counted import Peer, Phase
from holdfast.telemetry.frames import Frames
from holdfast.telemetry.gpu import Gpu
from holdfast.telemetry.looks import Tensor
from holdfast.telemetry.ring import RingWriter
from holdfast.telemetry.stepclock import StepClock
from holdfast.telemetry.trace.ring import SpanWriter
from holdfast.telemetry.trace.tracer import Begun, Tracer

PULSE_S = 0.05
"""Period of the pulse: half of the daemon's sampling period, so that each sample sees it move."""

SETTLE_PULSES = 100
"""Between looks for room for a ring that has no file: 5 s. One that finds none costs two calls."""


MOST_PENDING = 1_000
"""Works of a group that may be under way: each holds its tensors. Where there are more, one never
says that it is done (a reduce-scatter of gloo's that C++ waits for), and nobody is asked again."""


class Work(Protocol):
    """What of `torch.distributed.Work` is used here."""

    def is_completed(self) -> bool: ...


class Recorder:
    """Counts of one rank. Its writer may be a ring of a world of thousands, or a test's."""

    def __init__(self, ring: RingWriter, spans: SpanWriter | None = None) -> None:
        self.ring = ring
        self.clock = StepClock()
        self.gpu = Gpu(lambda: self.missing("GPU"))
        self.tracer = Tracer(spans, self.clock, self.gpu) if spans is not None else None
        self.step = 0
        self._tokens = 0
        self._loss: float | None = None
        self._square = 0.0  # of the norm of gradients, in this step
        self._losses_good = self._losses_bad = 0  # numbers told, and in a row what is none
        self._phase = 0
        self._partial = 0
        self._waiting = False
        self._explicit_steps = False
        self._numbered = False
        self._miscounts = False  # optimizer steps are more than the script's own
        self._confirmed = False  # a save had the number that was expected, or a later one
        self._anchor: tuple[int, int] | None = None  # optimizer steps and number at such a save
        self._starts_at: int | None = None  # what the next optimizer step follows, once known
        self._groups: list[Group] = []
        self._same_members: dict[tuple[int, ...], int] = {}
        self._members = 0
        self._peers: dict[int, Peer] = {}
        self._phases: dict[str, Phase] = {}
        self.over: weakref.WeakSet[Work] = weakref.WeakSet()
        self._counting = threading.Lock()
        self._paused: list[str] = []
        self._until_step = ""  # a pause that the next step ends
        self._frames = Frames(ring)
        self._calls = Calls(ring)
        self._pulse = 0
        self._stepped = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        # Optimizer steps are counted from this process's start, until the script gives numbers.
        self.missing("step numbers")
        self._store_state()

    def missing(self, part: str) -> None:
        """Say in the ring that `part` of what is watched elsewhere is not watched here."""
        self._partial |= 1 << schema.PARTS.index(part)
        self.ring.word(schema.PARTIAL, self._partial)

    def known(self, part: str) -> None:
        """Take back that `part` is missing."""
        self._partial &= ~(1 << schema.PARTS.index(part))
        self.ring.word(schema.PARTIAL, self._partial)

    def waits(self) -> bool:
        """Say that the rank waits for a peer; what it said before."""
        self.clock.waits(True)
        if self.tracer is not None and not self._waiting:
            self.tracer.waits()
        return self._says(waiting=True)

    def waited(self, before: bool) -> None:
        """Say that this wait is over, and what was said before it."""
        self.clock.waits(False)
        self._says(waiting=before)
        if self.tracer is not None and not before:
            self.tracer.waited()
            with suppress(Exception):  # as in `_beat`
                self._count_done(self._groups)  # now: its spans end when it does

    def _says(self, *, waiting: bool) -> bool:
        before, self._waiting = self._waiting, waiting
        self.ring.word(schema.WAITING, waiting)
        return before

    # ------------------------------------------------------------ steps and phases

    def is_past(self, start: str) -> None:
        """One of `schema.STARTS` is over; the last one before the first step counts."""
        if not self._stepped:
            at = schema.STARTED_AT + schema.STARTS.index(start)
            self.ring.word(at, time.monotonic_ns())

    def optimizes(self) -> None:
        """An optimizer begins its step: the collectives before it are done."""
        self.clock.optimizes()
        self.gpu.optimizes()
        if self.tracer is not None:
            self._count_done(self._groups)
            self.tracer.optimizes()

    def stepped(self) -> None:
        """An optimizer step ended; ignored once the script reports its steps itself."""
        if self.tracer is not None:
            self.tracer.optimized()
        if self._explicit_steps:
            return
        if self._starts_at is None:
            self._set_step(self.step + 1)
        else:
            self._number(self._starts_at + 1)

    def starts_at(self, step: int) -> None:
        """The checkpointer has restored `step`, 0 for a fresh start: the next step follows it."""
        self._starts_at = step
        if self.tracer is not None:
            self.tracer.starts_at(step)

    def saves(self, step: int) -> None:
        """The checkpointer is told that `step` is complete: optimizer steps are counted from there.
        Where they run ahead of it a script may count from 0: they have no numbers until the next
        save shows that they keep pace with it. Where they do not, as with two optimizers, or with a
        save an epoch, they never have. Saves alone are no steps: they may be far apart.
        """
        if self._explicit_steps or self._miscounts or not self.step:
            return
        if self.step > step and not self._keeps_pace(step):
            self._unnumber(step)
            return
        self._confirmed, self._anchor = True, None
        if step != self.step or not self._numbered:
            self._number(step)

    def _keeps_pace(self, step: int) -> bool:
        """Whether since a save before there were no more optimizer steps than the script's."""
        if self._anchor is None:
            return False
        done, number = self._anchor
        return self.step - done <= step - number

    def _unnumber(self, step: int) -> None:
        """Optimizer steps run ahead of the number: the first time that may be how it counts."""
        self._miscounts = self._confirmed or self._anchor is not None
        self._anchor = (self.step, step)
        self._starts_at = None
        if self._numbered:
            self._numbered = False
            self.missing("step numbers")

    def _number(self, step: int) -> None:
        """From here on steps have the script's own numbers."""
        self._starts_at = None
        if not self._numbered:
            self._numbered = True
            self.known("step numbers")
        self._set_step(step)

    def clipped(self, norm: float) -> None:
        """Some gradients had this norm; where a step clips those of several models, all count."""
        self._square += norm * norm

    def reported(
        self, step: int, loss: float | None, tokens: int | None, grad_norm: float | None = None
    ) -> None:
        """The script says how far it is."""
        if not self._explicit_steps:
            self._explicit_steps = self._numbered = True
            self.known("step numbers")
        if loss is not None:
            self._tells_loss(max(0, step), loss)
        if grad_norm is not None:
            self._square = grad_norm * grad_norm  # what it says itself, not what it clipped
        self._tokens = tokens if tokens is not None else self._tokens
        self._set_step(step)

    def _tells_loss(self, step: int, loss: float) -> None:
        """Keeps since when it is no number: a reader sees only some of the steps."""
        self._loss = loss
        if math.isfinite(loss):
            self._losses_good, self._losses_bad = self._losses_good + 1, 0
            self.ring.word(schema.LOSS_BADS, 0)
            self.ring.word(schema.LOSS_GOOD, step)
            self.ring.word(schema.LOSS_GOODS, self._losses_good)
            return
        if not self._losses_bad:
            self.ring.word(schema.LOSS_SINCE, step)
        self._losses_bad += 1
        self.ring.word(schema.LOSS_LAST, step)
        self.ring.word(schema.LOSS_BADS, self._losses_bad)

    def _set_step(self, step: int) -> None:
        self.step = step
        self.is_past("step")
        self._stepped = True
        self._store_norm()
        if self._until_step:
            self._until_step = ""
            self.gpu.pauses(False)
            self._store_pause()
        for group in self._groups:
            group.mark(step)
        self.clock.stepped()
        tracer = self.tracer if self.gpu.is_timed else None
        told = tracer.on_gpu(step) if tracer is not None else None
        later = self.gpu.stepped(step, self.clock.at_step_ns[1], told)
        if self.tracer is not None:
            self.tracer.stepped(step, later=later)
        self._store_state()

    def _store_norm(self) -> None:
        if self._square and math.isfinite(self._square):
            self.ring.number(schema.GRAD_NORM, math.sqrt(self._square))
        self._square = 0.0

    def _store_state(self) -> None:
        step = self.gpu.step
        clocks_ns = self.gpu.at_step_ns if step else self.clock.at_step_ns
        self.ring.state(self.step, self._tokens, self._loss, self._phase, (*clocks_ns, step))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is inside on both clocks, the wall's and this thread's CPU."""
        phase = self._phases.get(name) or self._new_phase(name)
        if phase is None:
            yield
            return
        outer, self._phase = self._phase, phase.slot + 1
        self._store_state()
        wall_ns, thread_ns = time.perf_counter_ns(), time.thread_time_ns()
        if (tracer := self.tracer) is not None:
            tracer.begins_phase(name, wall_ns)  # on Linux both clocks are CLOCK_MONOTONIC
        try:
            yield
        finally:
            ended_ns = time.perf_counter_ns()
            phase.add(ended_ns - wall_ns, time.thread_time_ns() - thread_ns)
            self._phase = outer
            if tracer is not None:
                tracer.ends(ended_ns)
            self._store_state()

    @contextmanager
    def pause(self, name: str) -> Iterator[None]:
        """Say that the rank does something else than steps: one of `schema.PAUSES`."""
        self._paused.append(name)
        self.clock.pauses(True)
        self.gpu.pauses(True)
        self._store_pause()
        if (tracer := self.tracer) is not None:
            tracer.begins_pause(name)
        try:
            yield
        finally:
            self._paused.remove(name)
            self.clock.pauses(False)
            self.gpu.pauses(False)
            if tracer is not None:
                tracer.ends()
            self._store_pause()
            if name == schema.LOADING:
                self.is_past("restore")

    def saved(self) -> None:
        """The script saved by itself: where it does not number its steps, they count from here."""
        self.ring.word(schema.SAVED_AT, self.step)

    def pause_until_step(self, name: str) -> None:
        """The same, until the next step."""
        if not self._until_step:
            self.gpu.pauses(True)
        self._until_step = name
        self.clock.pauses_until_step()
        self._store_pause()

    def _store_pause(self) -> None:
        name = [self._until_step, *self._paused][-1]
        self.ring.word(schema.PAUSE, schema.PAUSES.index(name))

    def _new_phase(self, name: str) -> "Phase | None":
        slot = len(self._phases)
        if slot == schema.PHASE_SLOTS:
            self.missing("phases full")
            return None
        self.ring.phase_name(slot, name)
        self._phases[name] = phase = Phase(self.ring, slot)
        self.ring.word(schema.PHASES, slot + 1)
        return phase

    # ------------------------------------------------------------ groups and peers

    def new_group(self, ranks: Sequence[int]) -> "Group | None":
        """A group of `ranks` came to be; None where the ring has no slot left for it."""
        slot = len(self._groups)
        if slot == schema.GROUP_SLOTS:
            self.missing("groups full")
            return None
        members = tuple(sorted(ranks))
        ordinal = self._same_members[members] = self._same_members.get(members, -1) + 1
        first, count = self._members, len(members)
        if first + count > schema.MEMBER_SLOTS:
            self.missing("members full")
            first, count = 0, 0
        self.ring.members(first, members[:count])
        self._members += count
        group = Group(self, slot, members_hash(members, ordinal), first, count)
        self._groups.append(group)
        self.ring.word(schema.GROUPS, slot + 1)
        return group

    def peer(self, rank: int) -> "Peer | None":
        """The counts of point-to-point messages with global rank `rank`."""
        peer = self._peers.get(rank)
        if peer is None and len(self._peers) == schema.PEER_SLOTS:
            self.missing("peers full")
        elif peer is None:
            slot = len(self._peers)
            self.ring.peer(slot, 0, rank)
            self._peers[rank] = peer = Peer(self.ring, slot)
            self.ring.word(schema.PEERS, slot + 1)
        return peer

    # ------------------------------------------------------------ what is done

    def pending(self, work: Work, group: "Group") -> None:
        """`work` has been enqueued in `group`; it is counted as done once it is completed."""
        if len(group.pending) == MOST_PENDING:
            group.pending.clear()
            group.followed = False
            self.missing("done")
        if group.followed:
            group.pending.append((work, group.begun))
            self._count_done((group,))

    def is_over(self, work: Work) -> None:
        """The script has waited for `work`, which may be all that tells of its end: of a
        reduce-scatter of gloo's `is_completed` never does."""
        if any(group.pending for group in self._groups):
            self.over.add(work)

    def _count_done(self, groups: "Sequence[Group]") -> None:
        """Count what has completed. Never waits: where another thread counts, this one goes on."""
        if self._counting.acquire(blocking=False):
            try:
                for group in groups:
                    group.count_done()
            finally:
                self._counting.release()

    # ------------------------------------------------------------ the pulse

    def start(self) -> None:
        """Start the thread that moves the pulse and counts while the main thread waits."""
        self._thread = threading.Thread(target=self._beat, name="holdfast-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the pulse and let go of all work; the interpreter may then go."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
        for group in self._groups:
            group.pending.clear()
        if self.tracer is not None:
            self.tracer.rests()

    def beats_on(self) -> None:
        """After `stop`, while the process ends: its finalizers may take as long as a step, or an
        upload, and are seen to run. Nothing else is counted any more.
        """
        self._groups, self.tracer = [], None
        self._stop.clear()
        self.start()

    def _beat(self) -> None:
        while not self._stop.wait(PULSE_S):
            self._pulse += 1
            if self.ring.lacks is not None and self._pulse % SETTLE_PULSES == 0:
                with suppress(Exception):
                    self.ring.settle()
            self.ring.word(schema.PULSE, self._pulse)
            # A work of a destroyed group may raise anything; what is lost is one `done`.
            with suppress(Exception):
                self._count_done(tuple(self._groups))
                for group in tuple(self._groups):
                    if group.follow is not None:
                        group.follow()
            with suppress(Exception):  # a list that changes meanwhile: the next pulse has it
                self._trace()
            self._look(time.monotonic())

    def _trace(self) -> None:
        """Store which spans are under way."""
        if self.tracer is not None:
            pending = ((group.head, begun) for group in self._groups for _, begun in group.pending)
            self.tracer.beat([(head, begun) for head, begun in pending if begun is not None])

    def _look(self, now_s: float) -> None:
        """Say where the main thread stands."""
        if self._frames.sample(now_s):
            self._calls.sample(self._frames.since_s, now_s)
        else:
            self._calls.unknown(now_s)
            self.missing("stack")


class Group:
    """Collectives of one group. The done ones are counted by one thread at a time."""

    def __init__(self, recorder: Recorder, slot: int, members: int, first: int, count: int) -> None:
        self._recorder, self._slot = recorder, slot
        self.head, self._place = members, (first, count)
        self._last = (0, 0)  # kind and fingerprint of the last one enqueued
        self._step = recorder.step
        self._marks = [0] * (2 * len(schema.MARK_STRIDES))
        self.enqueued = 0
        self.begun: Begun | None = None
        self.followed = True  # whether it will be known when each is done
        self.follow: Callable[[], None] | None = None  # counts what nobody was seen to enqueue
        self.pending: deque[tuple[Work, Begun | None]] = deque()
        self._done = 0
        self._looked = 0  # the step in which it was looked at what is reduced
        self._store()

    def enqueue(self, kind: int, fingerprint: int) -> None:
        self.enqueued += 1
        self._last = (kind, fingerprint)
        self._step = self._recorder.step
        self._recorder.clock.enqueued()
        self._recorder.ring.collective(self._slot, self.enqueued, kind, fingerprint)
        told = None
        if (tracer := self._recorder.tracer) is not None:
            self.begun = tracer.enqueued(kind, self.enqueued)
            told = tracer.collective(self.head, self.begun) if not self.followed else None
        if not self._recorder.gpu.enqueued(told) and told is not None:
            told(time.monotonic_ns(), 0, 0)
        self._store()

    def unseen(self, enqueued: int) -> None:
        """So many were, some of them by C++: of which kind the last one is nobody knows."""
        self.enqueued, self._last, self._step = enqueued, (0, 0), self._recorder.step
        self._store()

    def looks(self, tensors: Sequence[Tensor]) -> None:
        """Whether it is numbers that the rank brings into the reduction that was enqueued last."""
        step = self._recorder.step + 1
        if step == self._looked or (numbers := looks.numbers(tensors)) is None:
            return
        self._looked = step
        bad_step = None if numbers else step
        self._recorder.ring.brought(self._slot, self.enqueued, bad_step=bad_step)

    def count_done(self) -> None:
        """Count what has completed, in order; called by one thread at a time."""
        while self.pending and self._is_done(self.pending[0][0]):
            self._done += 1
            self._recorder.ring.done(self._slot, self._done)
            _, begun = self.pending.popleft()
            if begun is not None and (tracer := self._recorder.tracer) is not None:
                tracer.done(self.head, begun)

    def _is_done(self, work: Work) -> bool:
        return work.is_completed() or work in self._recorder.over

    def mark(self, step: int) -> None:
        """Keep how many had been enqueued when `step` ended."""
        if self.follow is not None:
            self.follow()
        for place, stride in enumerate(schema.MARK_STRIDES):
            if step % stride == 0:
                self._marks[2 * place : 2 * place + 2] = step, self.enqueued
        self._store()

    def _store(self) -> None:
        self._recorder.ring.group(
            self._slot,
            self.head,
            *self._last,
            self.enqueued,
            self._step,
            *self._place,
            *self._marks,
        )
