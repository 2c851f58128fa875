"""What NCCL says stands beside what rings show: the same, otherwise, or alone; and never acts."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.watch.nccl import STANDS_S, NcclWords
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Nccl, NcclRank

BEHIND = NcclRank(
    what="behind",
    host="172.16.64.211",
    pid=1_002,
    rank=2,
    communicator="0xcf264af53edbe986",
    size=4,
    operation="AllReduce",
    launched=49,
    furthest=50,
    furthest_ranks=3,
)
SENTENCE = (
    "rank 2 (process 1002 on 172.16.64.211) has launched 49 AllReduce of communicator "
    "0xcf264af53edbe986, 3 of its 4 ranks 50"
)


def says(*ranks: NcclRank, epoch: int = 1, world: int = 4, more: int = 0) -> Nccl:
    return Nccl(
        job="job",
        epoch=epoch,
        version="2.30.7",
        communicators=2,
        world=world,
        ranks=ranks,
        more=more,
    )


@pytest.fixture
def running(cluster: Any) -> Any:
    """Two nodes, four ranks, ten seconds of steps of .2 s."""
    two = cluster(2)
    assert two.go(10) == []
    return two


def stands(cluster: Any, rank: int | None, said: Nccl | None, **more: Any) -> None:
    """`rank` does not enter the next collective, or all do; the node of rank 0 tells `said`."""
    cluster.running = False

    def alter(seen: Any) -> Any:
        (group,) = seen.groups
        ahead = seen.rank != rank
        return replace(seen, groups=(replace(group, enqueued=group.enqueued + ahead),), **more)

    cluster.alter = alter
    cluster.extra["node-0"] = {"nccl": said}


def lines(finding: Finding) -> list[str]:
    return [each.text for each in finding.evidence if each.source.startswith("NCCL")]


def test_what_it_says_of_the_rank_that_rings_name_is_evidence(running: Any) -> None:
    stands(running, 2, says(BEHIND))
    said, acted = running.go(18)
    assert (said.kind, acted.kind, acted.rank, acted.weight) == (
        *(Kind.STANDSTILL, Kind.HANG),
        *(2, Weight.RESTART),
    )
    assert lines(said) == lines(acted) == [f"NCCL says the same: {SENTENCE}"]


def test_where_it_says_otherwise_whom_rings_name_stays_named(running: Any) -> None:
    stands(running, 1, says(BEHIND))
    _, acted = running.go(18)
    assert (acted.kind, acted.rank, acted.weight) == (Kind.HANG, 1, Weight.RESTART)
    assert lines(acted) == [f"NCCL says otherwise: {SENTENCE}"]


def test_where_rings_name_nobody_it_speaks_and_names_nobody_for_them(running: Any) -> None:
    stands(running, None, says(BEHIND, more=3), waiting=True)
    _, acted = running.go(18)
    assert (acted.kind, acted.rank, acted.weight) == (Kind.NO_PROGRESS, None, Weight.RESTART)
    assert lines(acted) == [f"NCCL says: {SENTENCE}, and 3 ranks more"]


def test_that_nobody_stands_out_is_said(running: Any) -> None:
    stands(running, 2, says())
    said, _ = running.go(18)
    assert lines(said) == [
        "NCCL says that all ranks of its 2 communicators answer and that none is behind"
    ]


@pytest.mark.parametrize("said", [None, says(BEHIND, epoch=0)], ids=["nothing", "of before"])
def test_without_an_answer_of_this_attempt_nothing_is_said_of_it(running: Any, said: Any) -> None:
    stands(running, 2, said)
    found = running.go(18)
    assert [lines(each) for each in found] == [[], []]


def test_an_answer_ends_with_the_standstill_that_it_was_of(running: Any) -> None:
    stands(running, 2, says(BEHIND))
    running.go(3)
    running.alter, running.running, running.extra = (lambda seen: seen), True, {}
    running.go(2)
    stands(running, 2, None)
    said, *_ = running.go(7)
    assert lines(said) == []


def test_ranks_are_named_only_where_one_communicator_has_them_all(running: Any) -> None:
    """A rank of a smaller one is no rank of the job."""
    stands(running, 2, says(BEHIND, world=2))
    said, _ = running.go(18)
    assert lines(said)[0].startswith("NCCL says: process 1002 on 172.16.64.211 has launched 49")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"what": "dead"}, "is dead: nothing reached it for a minute"),
        ({"what": "silent"}, "does not answer"),
        ({"what": "failed", "error": 6}, "met an error of another process, or of the network"),
        ({"what": "failed", "error": 99}, "met error 99"),
        ({"what": "left"}, "answers, and is no member of communicator 0xcf264af53edbe986"),
    ],
    ids=lambda each: each.get("what", "") if isinstance(each, dict) else "",
)
def test_each_thing_has_its_words(running: Any, what: dict[str, Any], words: str) -> None:
    stands(running, 2, says(replace(BEHIND, **what)))
    said, _ = running.go(18)
    head = "NCCL says" if what["what"] == "failed" else "NCCL says the same"
    assert lines(said) == [f"{head}: rank 2 (process 1002 on 172.16.64.211) {words}"]


# ---------------------------------------------------------------- alone


def unseen(cluster: Any, said: Nccl) -> Any:
    """A job before its first step, whose hooks count no collectives and no steps."""
    alone = cluster(2)
    alone.running, alone.step = False, 0
    alone.alter = lambda seen: replace(
        seen, groups=(), partial=("collectives", "step"), process="S"
    )
    alone.extra["node-0"] = {"nccl": said}
    return alone


def test_where_no_ring_counts_collectives_it_alone_is_a_report(cluster: Any) -> None:
    alone = unseen(cluster, says(BEHIND))
    assert alone.go(STANDS_S - 1) == []
    (told,) = alone.go(100)
    assert (told.kind, told.weight, told.rank, told.node) == (
        *(Kind.STANDSTILL, Weight.REPORT),
        *(2, "node-1"),
    )
    assert SENTENCE in told.summary
    assert "hooks see the collectives of half of its ranks at most" in told.summary
    alone.extra["node-0"] = {"nccl": None}
    (over,) = alone.go(1)
    assert over.kind is Kind.GOES_ON


def test_counts_that_move_are_no_standstill(cluster: Any) -> None:
    alone = unseen(cluster, says(BEHIND))
    for launched in range(10):
        alone.extra["node-0"] = {"nccl": says(replace(BEHIND, launched=launched))}
        assert alone.go(STANDS_S / 2) == []


def test_where_rings_count_it_makes_no_report_of_its_own(cluster: Any) -> None:
    alone = unseen(cluster, says(BEHIND))
    alone.alter = lambda seen: seen
    assert alone.go(STANDS_S + 20) == []


def test_a_job_that_is_over_leaves_nothing(running: Any) -> None:
    stands(running, 2, says(BEHIND))
    running.go(3)
    running.watch.forget("job")
    running.watch.keep(set())
    (words,) = (each for each in running.watch.detectors if isinstance(each, NcclWords))
    assert words._words == {}
