"""NCCL's RAS: spoken to over TCP, its answers in few words, and whatever else is on its port.

The answers in `nccl/` were written by hand after NCCL's source, but for `alone-2.28.9`, which NCCL
said of one rank on an H100.
"""

import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from ras_server import listening, ras, says
from waiting import eventually, eventually_async

from holdfast.daemon.samplers import nccl, ras_answer
from holdfast.daemon.samplers import ras as client
from holdfast.daemon.samplers.nccl import ASKED_EVERY_S, STILL_S, NcclWords
from holdfast.daemon.samplers.ras import Ras, Unreadable
from holdfast.kit.clock import SystemClock
from holdfast.protocol import wire
from holdfast.protocol.messages import Heartbeat, Nccl, NcclRank, RankProgress

RECORDS = Path(__file__).parent / "nccl"
OWN = {483072: 0, 483073: 1}
"""Ranks of the node that asks, in all records."""
WORLD = "0xcf264af53edbe986"


def record(name: str) -> bytes:
    return (RECORDS / f"{name}.json").read_bytes()


def told(data: bytes, pids: dict[int, int] = OWN) -> Nccl:
    return ras_answer.told(ras_answer.read(data), "job", 1, pids)


def asked(behave: Any) -> bytes | None:
    with listening(behave) as address:
        return Ras(SystemClock(), address).ask()


# ---------------------------------------------------------------- what it tells


def test_of_a_job_that_is_well_nobody_stands_out() -> None:
    well = told(record("well"))
    assert (well.version, well.communicators, well.world, well.ranks) == ("2.30.7", 1, 4, ())


def test_what_nccl_really_says_is_read() -> None:
    alone = told(record("alone-2.28.9"), {862: 0})
    assert (alone.version, alone.communicators, alone.world, alone.ranks) == ("2.28.9", 1, 1, ())


def test_who_is_behind_is_told_of_the_largest_communicator_with_its_rank_in_the_job() -> None:
    (behind,) = told(record("behind")).ranks
    assert behind == NcclRank(
        what="behind",
        host="172.16.64.211",
        pid=507286,
        rank=3,
        communicator=WORLD,
        size=4,
        operation="AllReduce",
        launched=6649,
        furthest=6650,
        furthest_ranks=3,
    )


def test_who_does_not_answer_comes_before_who_met_an_error() -> None:
    silent, failed = told(record("silent")).ranks
    assert (silent.what, silent.rank, failed.what, failed.rank, failed.error) == (
        *("silent", 2),
        *("failed", 3, 6),
    )


def test_the_comma_that_some_versions_leave_out_is_put_in() -> None:
    (dead,) = told(record("dead-without-comma")).ranks
    assert (dead.what, dead.rank, dead.pid) == ("dead", 3, 507286)


def test_a_communicator_of_other_ranks_names_no_rank_of_the_job() -> None:
    """Its first process has another rank in the job than in it."""
    (behind,) = told(record("behind"), {483072: 0, 483073: 5}).ranks
    assert behind.rank is None


def test_an_answer_of_another_job_on_this_node_is_none() -> None:
    with pytest.raises(Unreadable, match="none of this node's ranks"):
        told(record("well"), {1: 0})


def test_of_many_that_stand_out_some_are_told_and_the_others_counted() -> None:
    lost = ", ".join(
        f'{{"rank": {n}, "host": "h", "pid": {n}, "status": {{"unresponsive": true}}}}'
        for n in range(20)
    )
    data = f"""{{"nccl_version": "2.30.7", "communicators": [
        {{"hash": "0x1", "size": 20, "ranks": [], "missing_ranks": [{lost}]}}]}}"""
    many = told(data.encode(), {7: 7})
    assert (len(many.ranks), many.more) == (ras_answer.TOLD, 20 - ras_answer.TOLD)


# ---------------------------------------------------------------- how it is spoken to


def test_its_protocol_is_spoken_over_tcp() -> None:
    assert asked(ras(record("well"))) == record("well")


def test_nobody_listening_is_no_complaint() -> None:
    with listening(ras(b"")) as address:
        pass
    assert Ras(SystemClock(), address).ask() is None


def test_a_stopped_process_that_takes_the_connection_is_passed_over() -> None:
    """All processes of a node share the port."""
    answers = iter([says(b""), ras(record("well"))])
    assert asked(lambda link: next(answers)(link)) == record("well")


WRONG = {
    "a mail server": (says(b"220 ready\r\n"), "is not NCCL: it said '220 ready'"),
    "one line without an end, of 10 MB": (says(b"x" * 10_000_000), "is not NCCL"),
    "another protocol": (ras(b"", protocol=3), "speaks version 3 of its protocol, not 2"),
    "an older NCCL": (ras(b"", json=False), "older than 2.28.7"),
    "half a line": (says(b"SERVER PROT"), "nobody answers within"),
    "an end at once": (lambda _: None, "nobody answers within|reset by peer"),
    "10 MB": (ras(b"x" * 10_000_000), "longer than 8 MiB"),
}


@pytest.mark.parametrize(("behave", "why"), WRONG.values(), ids=WRONG)
def test_what_else_is_on_the_port_is_said_in_a_sentence(
    behave: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "GREETING_S", 0.2)
    with pytest.raises(Unreadable, match=why):
        asked(behave)


def test_an_answer_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "DEADLINE_S", 0.5)

    def behave(link: Any) -> None:
        ras(b'{"nccl_version"')(link)
        link.recv(1)

    with pytest.raises(Unreadable, match=r"no whole answer in time|timed out"):
        asked(behave)


# ---------------------------------------------------------------- whatever it says

PIECES = st.sampled_from(
    [
        *(b"[", b"]", b"{", b"}", b",", b"1e400", b"null"),
        *(b'"nccl_version": "2"', b'"communicators": ', b'"ranks": []', b'"size": 4'),
        *(b'"hash": "\\ud800"', b'"pid": 99999999999999999999'),
    ]
)


@given(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=9).map(b"".join)))
@profile(max_examples=200, deadline=None)
def test_bytes_are_an_answer_or_a_sentence(data: bytes) -> None:
    with suppress(Unreadable):
        sent(told(data))


@given(st.integers(0, 2_400), st.binary(min_size=1, max_size=4), st.sampled_from(("cut", "put")))
@profile(max_examples=300, deadline=None)
def test_an_answer_that_was_spoilt_is_an_answer_or_a_sentence(
    at: int, with_: bytes, how: str
) -> None:
    data = record("silent")
    with suppress(Unreadable):
        sent(told(data[:at] if how == "cut" else data[:at] + with_ + data[at + len(with_) :]))


@pytest.mark.parametrize("data", [b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"{}"])
def test_what_is_no_answer_is_said(data: bytes) -> None:
    with pytest.raises(Unreadable, match="no answer of RAS"):
        told(data)


def sent(nccl: Nccl) -> None:
    wire.encode(Heartbeat(node="n", incarnation="i", sequence=1, uptime_s=1.0, nccl=nccl))


# ---------------------------------------------------------------- when it is asked


class Recorded:
    """A source that counts."""

    def __init__(self, *answers: bytes | Exception | None) -> None:
        self._answers, self.asked = list(answers), 0

    def ask(self) -> bytes | None:
        self.asked += 1
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def pid(tmp_path: Path) -> Iterator[int]:
    """Of this process, which has NCCL's library mapped while the test runs."""
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        yield os.getpid()


def first(pid: int, **more: Any) -> tuple[RankProgress, ...]:
    fields = {"rank": 0, "epoch": 1, "job": "job", "pid": pid, "still_s": STILL_S}
    return (RankProgress(**{**fields, "partial": ("done",), **more}),)


def answer_of(pid: int) -> bytes:
    return record("well").replace(b"483072", str(pid).encode())


def test_a_job_that_stands_is_asked_and_what_was_said_ends_as_it_goes_on(pid: int) -> None:
    source = Recorded(answer_of(pid), answer_of(pid))
    words = NcclWords(source)
    assert words.sample(first(pid), 0.0) is None, "the heartbeat does not wait"
    eventually(lambda: words.sample(first(pid), 1.0) is not None, "it answers")
    assert words.sample(first(pid, epoch=2), 1.0) is None
    assert words.sample(first(pid, still_s=0.0), 2.0) is None
    assert source.asked == 1
    eventually(lambda: words.sample(first(pid), ASKED_EVERY_S) is not None, "it answers again")
    assert source.asked == 2


@pytest.mark.parametrize(
    "more",
    [{"still_s": STILL_S - 0.1}, {"partial": ()}, {"rank": 1}, {"process": "gone"}],
    ids=["it goes on", "gloo", "another node asks", "rank 0 has ended"],
)
def test_nobody_is_asked_without_need(pid: int, more: dict[str, Any]) -> None:
    source = Recorded(record("well"))
    assert NcclWords(source).sample(first(pid, **more), 0.0) is None
    assert source.asked == 0


def test_a_process_without_the_library_is_not_asked_for() -> None:
    """Not this one: where torch was loaded by another test it has the library."""
    source = Recorded(record("well"))
    words = NcclWords(source)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as plain:
        words.sample(first(plain.pid), 0.0)
        eventually(lambda: not words._is_asking(), "it has looked")
    assert (source.asked, words.unreadable) == (0, ())


def test_why_it_cannot_be_read_is_said_until_it_can(pid: int) -> None:
    words = NcclWords(Recorded(Unreadable("port 1: a mail server"), OSError("ours"), None))
    words.sample(first(pid), 0.0)
    eventually(lambda: words.unreadable == ("NCCL: port 1: a mail server",), "it is said")
    words.sample(first(pid), ASKED_EVERY_S)
    defect = ("NCCL: OSError, a defect of Holdfast's daemon",)
    eventually(lambda: words.unreadable == defect, "so is this")
    words.sample(first(pid), 2 * ASKED_EVERY_S)
    eventually(lambda: words.unreadable == (), "nobody listens any more")


def test_one_question_is_under_way_at_most_and_a_late_answer_of_what_went_on_is_dropped(
    pid: int,
) -> None:
    free, source = threading.Event(), Recorded(answer_of(pid))

    class Hangs:
        def ask(self) -> bytes | None:
            free.wait()
            return source.ask()

    words = NcclWords(Hangs())
    try:
        for n in range(4):
            words.sample(first(pid), n * ASKED_EVERY_S)
        assert words.sample(first(pid, still_s=0.0), 4 * ASKED_EVERY_S) is None
    finally:
        free.set()
    eventually(lambda: not words._is_asking(), "it answers at last")
    assert source.asked == 1
    assert words.sample(first(pid), 4 * ASKED_EVERY_S - 1) is None


# ---------------------------------------------------------------- through the daemon


async def test_a_heartbeat_carries_what_it_says_and_what_cannot_be_read(
    daemon: Any, driver: Any, make_rank: Any, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon on a real port, of a ring that stands still and counts no end of collectives."""
    monkeypatch.setattr(nccl, "STILL_S", 0.3)
    monkeypatch.setattr(nccl, "ASKED_EVERY_S", 0.5)
    make_rank(0).missing("done")
    on_the_port = [says(b"220 ready\r\n")]
    with listening(lambda link: on_the_port[0](link)) as address:
        daemon._nccl = NcclWords(Ras(SystemClock(), address))
        why = "NCCL: what listens on its port is not NCCL: it said '220 ready'"
        await eventually_async(lambda: driver.beats and why in driver.beats[-1].unreadable, "why")
        on_the_port[0] = ras(answer_of(pid))
        await eventually_async(lambda: driver.beats[-1].nccl is not None, "it is asked again")
    assert driver.beats[-1].unreadable == ()
    assert driver.beats[-1].nccl.version == "2.30.7"
