"""Where the time of simulated lives went: whatever goes wrong in them, their pieces add up."""

from itertools import pairwise

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from one_journal import OneJournal

from holdfast.driver.adapters.sql.journal import TURNING, _decode, _encode
from holdfast.driver.noted import What
from holdfast.driver.people.goodput.account import GOOD, NOT_KNOWN, known_pieces, summed
from holdfast.driver.people.goodput.ledger import Ledger
from holdfast.driver.people.goodput.marks import Life, take
from holdfast.driver.people.goodput.pieces import Bucket
from holdfast.driver.ports import Entry
from holdfast.lab.simulator.scenario import draw
from holdfast.lab.simulator.simulate import play
from holdfast.lab.simulator.world import World

LIVES = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
SEEDS = some.integers(0, 9_999)


def lives_of(entries: list[Entry]) -> dict[str, list[Life]]:
    lives: dict[str, list[Life]] = {}
    for entry in entries:
        take(lives, entry)
    return lives


def end_of(world: World, name: str) -> float:
    job = world.driver.state.jobs[name]
    return job.since_s if job.finished else world.agenda.now


@LIVES
@given(SEEDS)
def test_the_pieces_of_a_life_follow_each_other_from_its_submission_to_its_end(seed: int) -> None:
    world = play(draw(seed))
    lives, state = lives_of(world.driver.journal), world.driver.state
    for name, job in state.jobs.items():
        pieces = known_pieces(lives[name][-1], job, state.incidents, now=world.agenda.now)
        assert pieces[0].begin_s == job.submitted_s
        assert pieces[-1].end_s == end_of(world, name)
        assert all(one.end_s == other.begin_s for one, other in pairwise(pieces))
        assert all(piece.took_s > 0 for piece in pieces)
        account = summed(name, pieces, state.incidents)
        wall_s = end_of(world, name) - job.submitted_s
        assert abs(sum(account.buckets_s.values()) - wall_s) < 1e-6
        good = sum(account.buckets_s.get(each, 0.0) for each in GOOD | NOT_KNOWN)
        assert abs(account.lost_s + good - wall_s) < 1e-6
        assert Bucket.UNKNOWN not in account.buckets_s


@LIVES
@given(SEEDS)
def test_all_that_is_lost_in_incidents_was_lost_between_their_first_sign_and_the_end(
    seed: int,
) -> None:
    world = play(draw(seed))
    state, journal = world.driver.state, OneJournal(world.driver.journal)
    for job in state.jobs.values():
        account = Ledger().account(journal, state, job, now=world.agenda.now)
        for cost in account.costs:
            known = state.incidents[cost.incident]
            assert job.name in known.jobs
            seen_s = known.found_s - max(known.stalled_s, 0.0)
            assert cost.begin_s >= min(seen_s, known.seen_s or seen_s) - 5.0
            assert cost.lost_s <= end_of(world, job.name) - cost.begin_s + 1e-6


@LIVES
@given(SEEDS, some.floats(0.0, 1.0))
def test_what_was_read_before_is_not_read_again_and_adds_up_to_the_same(
    seed: int, share: float
) -> None:
    world = play(draw(seed))
    state, now = world.driver.state, world.agenda.now
    whole, journal = Ledger(), OneJournal(world.driver.journal)
    piecewise = Ledger()
    early = state.sequence * share // 1
    half = OneJournal([entry for entry in journal.kept if entry.sequence <= early])
    for job in state.jobs.values():
        piecewise.account(half, state, job, now=now)
        break
    piecewise._after = int(early)
    for job in state.jobs.values():
        told = whole.account(journal, state, job, now=now)
        assert piecewise.account(journal, state, job, now=now) == told
    read = journal.reads
    for job in state.jobs.values():
        whole.account(journal, state, job, now=now)
    assert journal.reads == read


@LIVES
@given(SEEDS)
def test_few_entries_are_turning_points_and_a_database_finds_the_same(seed: int) -> None:
    for entry in play(draw(seed)).driver.journal:
        assert (TURNING in _encode(entry).decode()) == bool(entry.doing)


@LIVES
@given(SEEDS, some.integers(1, 200))
def test_of_a_journal_that_lacks_its_beginning_or_its_end_the_rest_is_unknown(
    seed: int, cut: int
) -> None:
    world = play(draw(seed))
    state, now = world.driver.state, world.agenda.now
    turning = [entry for entry in world.driver.journal if entry.doing]
    for left in (turning[cut:], turning[:-cut]):
        for name, job in state.jobs.items():
            own = lives_of(left).get(name)
            pieces = known_pieces(own[-1] if own else None, job, state.incidents, now=now)
            wall_s = end_of(world, name) - job.submitted_s
            assert abs(sum(piece.took_s for piece in pieces) - wall_s) < 1e-6
            whole = lives_of(turning)[name][-1]
            if own is None or len(own[-1].marks) < len(whole.marks):
                assert any(piece.bucket is Bucket.UNKNOWN for piece in pieces)


def test_entries_of_an_earlier_holdfast_are_read_and_tell_nothing() -> None:
    world = play(draw(1))
    earlier = []
    for entry in world.driver.journal:
        body = msgspec.json.decode(_encode(entry))
        del body["doing"]
        earlier.append(_decode(msgspec.json.encode(body)))
    state, now = world.driver.state, world.agenda.now
    for name, job in state.jobs.items():
        account = Ledger().account(OneJournal(earlier), state, job, now=now)
        assert account.buckets_s == {Bucket.UNKNOWN: end_of(world, name) - job.submitted_s}
        assert (account.ettr, account.lost_s) == (0.0, 0.0)


def test_a_fleet_is_the_sum_of_its_jobs_and_of_a_part_of_the_time_less() -> None:
    world = play(draw(1))
    state, now, journal = world.driver.state, world.agenda.now, OneJournal(world.driver.journal)
    ledger = Ledger()
    fleet = ledger.fleet(journal, state, now=now, since_s=0.0)
    accounts = [ledger.account(journal, state, job, now=now) for job in state.jobs.values()]
    assert abs(fleet.wall_s - sum(account.wall_s for account in accounts)) < 1e-6
    lost_s = sum(account.lost_s for account in accounts)
    assert abs(sum(share.lost_s for share in fleet.by_kind) - lost_s) < 1e-6
    assert fleet.by_kind[0].name == "hang"
    late = ledger.fleet(journal, state, now=now, since_s=now - 20.0)
    assert late.wall_s < fleet.wall_s


def test_each_start_of_ranks_but_the_first_is_counted_once_by_its_cause() -> None:
    world = play(draw(1))
    ledger, journal = Ledger(), OneJournal(world.driver.journal)
    for _ in range(2):
        ledger.fleet(journal, world.driver.state, now=world.agenda.now, since_s=0.0)
    again = sum(job.attempt - 1 for job in world.driver.state.jobs.values())
    assert again > 0
    assert ledger.restarts == {"hang": again}


def test_each_thing_that_a_job_can_do_comes_about_in_some_life() -> None:
    seen = {
        doing.what
        for seed in range(60)
        for entry in play(draw(seed)).driver.journal
        for doing in entry.doing.values()
    }
    assert seen == set(What) - {What.REPEAT}  # its scripts all number their steps
