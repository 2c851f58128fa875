"""A driver in scripted time: events go in one by one, each is decided and committed at once.

Used by `story`. What is not scripted is real: the core, the detectors, a journal in SQLite, and the
REST application, which takes this for the driver's loop.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import httpx

from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.adapters.tokens import load_tokens
from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.batch.inbox import Refused
from holdfast.driver.core.events import AnyEvent, Ticked
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.follow.feed import expectation
from holdfast.driver.follow.webhooks.receivers import Receivers
from holdfast.driver.follow.webhooks.sender import Health
from holdfast.driver.formats.encode import encode
from holdfast.driver.journal.draft import Draft
from holdfast.driver.loop import Loop
from holdfast.driver.people.access import TokenHolders
from holdfast.driver.people.control import Control
from holdfast.driver.ports import Entry, Key
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Watch
from holdfast.protocol.messages import Desired, Hello, Observed
from holdfast.protocol.paths import RunPaths
from holdfast.traces.bursts.record import Burst, Rail
from holdfast.traces.bursts.record import encode as encode_burst

BEGAN = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
"""The time of day at which the driver of the story started."""

STACK = """Process {pid}: python train.py --lr 3e-4
Python v3.11.2 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2810)
    {where}
    <module> (/data/speech/train.py:71)"""
"""Of a rank, as py-spy prints it; rank 5 stands elsewhere."""

SAID = b"step 219  loss 3.12500\nstep 220  loss 3.12500\n"
"""By each rank."""


class StoryClock:
    """Goes on only when somebody says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now_s)


class Recorded:
    """Stands for the loop: what `Control` needs of it, and `happened` for whoever scripts."""

    accepting: str | None = None
    stale = False

    def __init__(self, folder: Path) -> None:
        self.state = State()
        self.sequence = 0
        self.clock = StoryClock()
        self.watch = Watch()
        self._policy = Policy()
        self._seated: dict[str, int] = {}
        self._journal = open_sqlite(folder / "journal.sqlite", reserve_bytes=0)
        self._journal.take_over()
        self._http = self._served(folder)

    def now(self) -> float:
        return self.clock.now_s

    async def happened(self, *events: AnyEvent, after_s: float = 0.01) -> None:
        """Let some time pass, then tell the core what happened."""
        for event in events:
            await self.until(self.now() + after_s)
            draft = self._draft()
            draft.add(event)
            await self._commit(draft)

    async def until(self, then_s: float) -> None:
        """Let time pass, and what falls due be done on time."""
        while (due_s := next_deadline(self.state)) is not None and due_s <= then_s:
            self.clock.now_s = max(self.now(), due_s)
            draft = self._draft()
            draft.add(Ticked())
            assert draft.entries, f"a deadline at {due_s} s that no tick takes away"
            await self._commit(draft)
        self.clock.now_s = round(then_s, 3)

    async def request(self, event: AnyEvent, *, key: Key | None = None) -> Entry:
        """See `Control.request`."""
        draft = self._draft()
        if refusal := draft.refusal(event):
            raise Refused(refusal)
        entry = draft.add_request(event, key)
        await self._commit(draft)
        return entry

    async def ask(self, method: str, path: str, **sent: object) -> httpx.Response:
        """What somebody with a token is answered."""
        return await self._http.request(method, path, **sent)  # type: ignore[arg-type]

    def entries(self) -> list[Entry]:
        return self._journal.entries()

    async def close(self) -> None:
        await self._http.aclose()
        self._journal.close()

    def _draft(self) -> Draft:
        at = self.clock.wall().isoformat(timespec="milliseconds")
        return Draft(
            state=self.state, now=self.now(), at=at, policy=self._policy, entries=[], claims=[]
        )

    async def _commit(self, draft: Draft) -> None:
        if not draft.entries:
            return
        await self._journal.commit(draft.entries, encode(draft.state), claims=draft.claims)
        self.state, self.sequence = draft.state, draft.state.sequence
        self._follow()

    def _follow(self) -> None:
        """The detectors expect what should run."""
        seated = {name: job.epoch for name, job in self.state.jobs.items() if job.seats}
        for name in self._seated.keys() - seated.keys():
            self.watch.forget(name)
        for name, epoch in seated.items():
            if self._seated.get(name) != epoch:
                self.watch.expect(expectation(self.state.jobs[name]))
        self._seated = seated

    def _served(self, folder: Path) -> httpx.AsyncClient:
        tokens = load_tokens(RunPaths(folder))
        control = Control(
            cast(Loop, self),
            journal=self._journal,
            last_lines=self._journal,
            nodes=ScriptedNodes(),
            watch=self.watch,
            people=TokenHolders(tokens),
            settings=Settings(state=folder, _cli_parse_args=[]),  # type: ignore[call-arg]
            clock=self.clock,
            webhooks=cast(Receivers, ScriptedReceivers()),
        )
        self.curves = control.curves
        token = RunPaths(folder).user_token.read_text().strip()
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(make_app(control)),
            base_url="http://driver/v1alpha1",
            headers={"Authorization": f"Bearer {token}"},
        )


class ScriptedNodes:
    """Executors that say nothing but a log."""

    def instruct(self, desired: Desired) -> None: ...

    def hello(self, node: str) -> Hello | None:
        return None

    def observed(self, node: str) -> Observed | None:
        return None

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        others, fifth = "backward (/data/speech/train.py:52)", "clip (/data/speech/train.py:58)"
        return {
            rank: STACK.format(pid=4_000 + rank, where=fifth if rank == 5 else others)
            for rank in ranks
        }

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        """Three samples: what one shows is no matter of how many there are."""
        moved = {"received": [125_000, 0], "sent": [118_000, 0]}
        rail = Rail(name="eth0", **moved, errors=[0, 0], drops=[0, 0])
        return encode_burst(
            Burst(
                node=node,
                seconds=seconds,
                missed=0,
                cpu_s=0.1,
                degraded="",
                at_us=[0, 1_000, 2_000],
                rails=[rail],
            )
        )

    async def log(
        self, node: str, job: str, *, attempt: int, rank: int, stream: str, offset: int
    ) -> tuple[bytes, int]:
        begin = len(SAID) + offset if offset < 0 else offset
        return SAID[max(0, begin) :], len(SAID)


class ScriptedReceivers:
    """One, who takes everything."""

    names = ("on-call",)

    def health(self) -> list[Health]:
        return [
            Health(
                name="on-call",
                format="json",
                signed=True,
                sent=7,
                given_up=0,
                behind=0,
                trouble="",
            )
        ]

    async def test(self, name: str) -> str:
        return ""
