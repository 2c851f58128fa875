"""Many who follow the journal cost as much as one, and none of them misses an entry."""

import asyncio
from threading import Event

import pytest
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.rest.pages import KEPT, PAGE_ENTRIES, Pages
from holdfast.driver.core.events import Ticked
from holdfast.driver.ports import Entry, TemporaryError


class Counting:
    """A journal of made-up entries, which are about two jobs in turn, and how often it was read."""

    def __init__(self, entries: int) -> None:
        self.entries_n = entries
        self.reads: list[int] = []
        self.written: list[int] = []
        self.may_read = Event()
        self.may_read.set()
        self.away = False

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        self.reads.append(after)
        assert self.may_read.wait(DEADLINE_S)
        if self.away:
            raise TemporaryError("the journal is away")
        last = min(after + limit, self.entries_n)
        return [self.entry(sequence) for sequence in range(after + 1, last + 1)]

    def entry(self, sequence: int) -> Entry:
        job = f"job-{sequence % 2}"
        return Entry(
            sequence=sequence,
            term=1,
            now=0.0,
            at="",
            policy=1,
            event=Ticked(),
            effects=(),
            why="",
            jobs=(job,),
        )

    def write(self, entry: Entry) -> bytes:
        self.written.append(entry.sequence)
        return b"%d " % entry.sequence


class Told:
    """A driver that has committed so much of its journal."""

    def __init__(self, journal: Counting) -> None:
        self.journal = journal
        self.sequence = journal.entries_n
        self._grown = asyncio.Event()
        self.waiting = 0

    def commits(self, entries: int) -> None:
        self.journal.entries_n = self.sequence = entries
        self._grown.set()
        self._grown = asyncio.Event()

    async def committed_beyond(self, sequence: int) -> None:
        while self.sequence <= sequence:
            self.waiting += 1
            await self._grown.wait()


def pages_of(journal: Counting, told: Told | None = None) -> Pages:
    return Pages(told or Told(journal), journal.write)  # type: ignore[arg-type]


async def read_through(pages: Pages, job: str | None = None, after: int = 0) -> list[int]:
    found: list[int] = []
    while (page := await pages.after(after)).last > after:
        found += map(int, page.of(job).split())
        after = page.last
    return found


async def test_a_crowd_reads_and_writes_each_entry_once() -> None:
    journal = Counting(5 * PAGE_ENTRIES + 7)
    pages = pages_of(journal)
    whole = list(range(1, journal.entries_n + 1))
    crowd = await asyncio.gather(*(read_through(pages) for _ in range(100)))
    assert all(found == whole for found in crowd)
    assert sorted(set(journal.written)) == whole
    assert len(journal.written) <= len(whole) + 7 * 100, "only the last page, which grows, again"
    assert journal.reads.count(0) == 1


async def test_of_one_job_only_its_own_come_from_the_same_pages() -> None:
    journal = Counting(3 * PAGE_ENTRIES)
    pages = pages_of(journal)
    assert await read_through(pages, "job-1") == list(range(1, journal.entries_n + 1, 2))
    read = len(journal.reads)
    assert await read_through(pages, "job-0") == list(range(2, journal.entries_n + 1, 2))
    assert len(journal.reads) == read + 1, "the end alone"


async def test_who_leaves_takes_the_page_from_nobody() -> None:
    journal = Counting(3)
    pages = pages_of(journal)
    journal.may_read.clear()
    one, other = (asyncio.create_task(pages.after(0)) for _ in range(2))
    await eventually_async(lambda: bool(journal.reads), "the journal is read")
    one.cancel()
    journal.may_read.set()
    assert (await other).last == 3
    assert journal.reads == [0]


async def test_a_journal_that_is_away_is_told_to_all_and_read_again() -> None:
    journal = Counting(3)
    pages = pages_of(journal)
    journal.away = True
    told = await asyncio.gather(*(pages.after(0) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [TemporaryError] * 3
    journal.away = False
    assert (await pages.after(0)).last == 3


async def test_a_crowd_that_waits_for_what_comes_waits_once_and_reads_it_once() -> None:
    journal = Counting(3)
    told = Told(journal)
    pages = pages_of(journal, told)
    assert (await pages.following(0)).last == 3
    journal.reads.clear()
    crowd = [asyncio.create_task(pages.following(3)) for _ in range(100)]
    await eventually_async(lambda: bool(told.waiting), "they wait")
    crowd[0].cancel()
    told.commits(5)
    came = await asyncio.gather(*crowd[1:])
    assert {page.last for page in came} == {5}
    assert {page.whole for page in came} == {b"4 5 "}
    assert (told.waiting, journal.reads) == (1, [3])
    assert pages._coming == {}


async def test_where_nothing_comes_nothing_is_told_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.driver.adapters.rest.pages.KEEP_ALIVE_S", 0.01)
    pages = pages_of(Counting(3))
    both = await asyncio.gather(pages.following(3), pages.following(3))
    assert [(page.last, page.whole) for page in both] == [(3, b"")] * 2


async def test_a_journal_that_is_away_is_told_to_all_who_follow() -> None:
    journal = Counting(3)
    pages = pages_of(journal)
    journal.away = True
    told = await asyncio.gather(*(pages.following(0) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [TemporaryError] * 3
    journal.away = False
    assert (await pages.following(0)).last == 3


@pytest.mark.parametrize("pages_n", [KEPT + 8])
async def test_no_more_pages_are_kept_than_a_crowd_needs(pages_n: int) -> None:
    journal = Counting(pages_n * PAGE_ENTRIES)
    pages = pages_of(journal)
    await read_through(pages)
    assert len(pages._kept) == KEPT
