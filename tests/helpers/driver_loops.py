"""A driver's loop with nothing around it but a journal.

Used by the tests of the loop.
"""

import asyncio
from collections.abc import Sequence

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.core.events import (
    JobSubmitted,
    Plan,
)
from holdfast.driver.core.policy import Policy
from holdfast.driver.formats.encode import fold
from holdfast.driver.loop import Loop
from holdfast.driver.ports import (
    Claim,
    Entry,
    InDoubt,
    Taken,
    TemporaryError,
)
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Task

POLICY = Policy()
PLAN = Plan(task=Task(command=("train",), workdir="."), nodes=2, ranks_per_node=1)


async def idle(loop: Loop, group: asyncio.TaskGroup) -> asyncio.Task[None]:
    """A driver without nodes: jobs stay pending."""
    await loop.start(perform=lambda effect: None, follow=lambda state: None)
    return group.create_task(loop.run())


def submitted(job: str = "job") -> JobSubmitted:
    return JobSubmitted(job=job, plan=PLAN)


class Flaky:
    """A journal whose next commits fail."""

    def __init__(self, journal: SqlJournal, *, failures: int = 0, short: str | None = None) -> None:
        self._journal = journal
        self.failures = failures
        self.lost_answers = 0
        self.short = short
        self.entries, self.claim = journal.entries, journal.claim
        self.take_over, self.check_term = journal.take_over, journal.check_term

    async def commit(
        self,
        entries: Sequence[Entry],
        state: bytes,
        *,
        change: bool = False,
        claims: Sequence[Claim] = (),
    ) -> None:
        if self.failures:
            self.failures -= 1
            raise TemporaryError("journal: nothing could be written. Free some disk space.")
        await self._journal.commit(entries, state, change=change, claims=claims)
        if self.lost_answers:
            self.lost_answers -= 1
            raise InDoubt("journal: the database is away")

    def shortage(self) -> str | None:
        return self.short


class LoopClock(SystemClock):
    """The event loop's own time, which tests make virtual."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class InMemory:
    """A journal for virtual time, in which a thread would be an eternity."""

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.state: bytes | None = None

    def take_over(self) -> Taken:
        last = self.committed[-1] if self.committed else None
        return Taken(
            term=last.term + 1 if last else 1,
            state=self.state,
            sequence=last.sequence if last else 0,
            now=last.now if last else 0.0,
        )

    def check_term(self) -> None:
        """Nobody else is there."""

    async def commit(
        self,
        entries: Sequence[Entry],
        state: bytes,
        *,
        change: bool = False,
        claims: Sequence[Claim] = (),
    ) -> None:
        self.committed += entries
        self.state = fold(self.state or b"", [state]) if change else state

    def entries(self, **_: object) -> list[Entry]:
        return self.committed

    def claim(self, key: str) -> Claim | None:
        return None

    def shortage(self) -> str | None:
        return None
