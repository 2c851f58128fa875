"""The agent's store side, one round or order at a time, without its thread: what makes an upload
another one, what is waited for before a job is forgotten, and when a failing store is asked again.
"""

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_slots import made_seal, put_snapshot
from msgspec.structs import replace

from holdfast.checkpoint import storekeeper
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fence import Superseded
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.storekeeper import POLL_S, StoreKeeper
from holdfast.checkpoint.stores import TemporaryStoreError
from holdfast.checkpoint.words import Seal
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Stored, UploadLimits


class Clock(SystemClock):
    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def keeper(clock: Clock, told: list[str]) -> StoreKeeper:
    return StoreKeeper(clock, told.append, Pace(clock, rest=bool))


@pytest.fixture
def order(tmp_path: Path) -> AgentOrder:
    return AgentOrder(
        id=1,
        job="job",
        epoch=1,
        ranks=(0,),
        slots={rank: str(tmp_path / f"r{rank}") for rank in (0, 1)},
        store_url=f"file://{tmp_path}/store",
        store_interval_steps=10,
    )


# ---------------------------------------------------------------- what makes another upload


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 2},
        {"job": "other"},
        {"ranks": (0, 1)},
        {"world_size": 2},
        {"store_url": "file:///elsewhere"},
        {"store_interval_steps": 20},
        {"retention": 3},
        {"keep_every_steps": 100},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_task_is_another_upload(
    keeper: StoreKeeper, order: AgentOrder, change: dict[str, Any]
) -> None:
    keeper._take(order)
    before = keeper._upload
    keeper._take(replace(order, id=2, **change))
    assert keeper._upload is not before


@pytest.mark.parametrize(
    "change",
    [{}, {"ranks": ()}, {"upload": UploadLimits(mb_per_s=5)}, {"look_up_store": True}],
    ids=["nothing", "its ranks have ended", "bounds", "a look"],
)
def test_the_upload_of_an_attempt_goes_on(
    keeper: StoreKeeper, order: AgentOrder, change: dict[str, Any]
) -> None:
    keeper._take(order)
    before = keeper._upload
    assert before is not None
    keeper._take(replace(order, id=2, **change))
    assert keeper._upload is before
    assert keeper.settled_id == 2


def test_deletions_of_an_attempt_end_with_it(keeper: StoreKeeper, order: AgentOrder) -> None:
    stopped: list[bool] = []
    keeper.sweeper = SimpleNamespace(  # type: ignore[assignment]
        stop=lambda: stopped.append(True), give=print
    )
    keeper._take(order)
    assert stopped == [True]
    keeper._take(replace(order, id=2))
    assert stopped == [True]
    keeper._take(replace(order, id=3, epoch=2))
    assert stopped == [True, True]


def test_a_step_that_is_to_be_saved_is_saved_once_and_held_back_by_nothing(
    keeper: StoreKeeper, order: AgentOrder
) -> None:
    put_snapshot(Path(order.slots[0]), made_seal(7))
    saves = replace(order, ranks=(), save=Stored(step=7, epoch=1))
    keeper._take(order)
    keeper._take(replace(saves, id=2))
    upload = keeper._upload
    assert upload is not None
    assert upload._pace is None
    keeper._take(replace(saves, id=3))
    assert keeper._upload is upload
    keeper._take(replace(saves, id=4, save=Stored(step=8, epoch=1)))
    assert keeper._upload is not upload


def test_who_asked_what_there_is_hears_of_a_step_that_was_saved(
    keeper: StoreKeeper, order: AgentOrder
) -> None:
    put_snapshot(Path(order.slots[0]), made_seal(7))
    keeper._take(replace(order, ranks=(), save=Stored(step=7, epoch=1), look_up_store=True))
    looks = [keeper._look_up]
    for done in (False, True, True):
        keeper._look_again(SimpleNamespace(done=done))  # type: ignore[arg-type]
        looks.append(keeper._look_up)
    assert looks[0] is looks[1], "it is on its way"
    assert looks[2] is not looks[1], "it is there: a look that had ended is not the last"
    assert looks[3] is looks[2], "once"


@pytest.mark.parametrize(
    ("seal", "due"),
    [
        (made_seal(10), 10),
        (made_seal(10, job="other"), None),
        (made_seal(10, epoch=2), None),
        (made_seal(11), None),
    ],
    ids=["due", "another job's", "another attempt's", "not due"],
)
def test_only_what_is_due_of_this_attempt_is_written(
    keeper: StoreKeeper, order: AgentOrder, seal: Seal, due: int | None
) -> None:
    put_snapshot(Path(order.slots[0]), seal)
    keeper._take(order)
    assert keeper._upload is not None
    assert keeper._upload._newest_due() == due
    assert keeper._upload.idle is (due is None)


def test_a_slot_that_was_written_over_before_it_was_locked_is_not_written_as_what_it_was(
    keeper: StoreKeeper, order: AgentOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = put_snapshot(Path(order.slots[0]), made_seal(10))
    keeper._take(order)
    upload = keeper._upload
    assert upload is not None
    before = upload._seals(0)
    slot.break_seal()
    put_snapshot(Path(order.slots[0]), made_seal(20))
    monkeypatch.setattr(upload, "_seals", lambda _: before)
    assert not upload._write(10)
    assert not list(tmp_path.glob("store/**/*.safetensors"))


# ---------------------------------------------------------------- its end


def test_a_job_is_forgotten_though_another_order_follows_at_once(
    keeper: StoreKeeper, order: AgentOrder
) -> None:
    put_snapshot(Path(order.slots[0]), made_seal(7))
    keeper.give(replace(order, ranks=(), store_url="", forget_job="job"))
    keeper.give(replace(order, id=2, job="other", store_url="", slots={}))
    keeper._round()
    assert keeper.settled_id == 2
    assert not Path(order.slots[0]).exists()


def test_a_job_is_forgotten_once_its_upload_and_its_deletions_are_done(
    keeper: StoreKeeper, order: AgentOrder
) -> None:
    keeper._take(order)
    ends = replace(order, id=2, ranks=(), forget_job="job")
    for upload, sweeper, waits in ((False, True, True), (True, False, True), (True, True, False)):
        keeper._upload = SimpleNamespace(idle=upload)  # type: ignore[assignment]
        keeper.sweeper = SimpleNamespace(idle=sweeper)  # type: ignore[assignment]
        assert keeper._has_to_finish(ends) is waits
    assert not keeper._has_to_finish(replace(ends, forget_job="other"))


def test_each_job_has_the_same_time_for_its_end(
    keeper: StoreKeeper, order: AgentOrder, clock: Clock, told: list[str]
) -> None:
    for job in ("first", "second"):
        keeper._take(replace(order, job=job))
        keeper._upload = SimpleNamespace(idle=False)  # type: ignore[assignment]
        ends = replace(order, job=job, forget_job=job, ranks=())
        assert keeper._has_to_finish(ends)
        clock.now_s += storekeeper.FAREWELL_S - 1
        assert keeper._has_to_finish(ends)
        clock.now_s += 2
        assert not keeper._has_to_finish(ends)
    assert told == [
        f"job {job} is forgotten before all that was due was written" for job in ("first", "second")
    ]


def test_an_order_that_could_not_be_carried_out_is_tried_again(
    keeper: StoreKeeper, order: AgentOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise OSError("not now")

    keeper._take(order)
    keeper._upload = None
    keeper.give(replace(order, id=2, ranks=(), forget_job="job"))
    with monkeypatch.context() as patch:
        patch.setattr(storekeeper, "forget", fails)
        keeper._round()
    assert (keeper.settled_id, keeper.error) == (1, "OSError: not now")
    keeper._round()
    assert (keeper.settled_id, keeper.error) == (2, "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"epoch": 2}, "a new attempt of job job has begun"),
        ({"job": "other"}, "a new attempt of job other has begun"),
        ({"id": 2}, ""),
        ({"forget_job": "job"}, ""),
    ],
    ids=["another attempt", "another job", "the same", "its end"],
)
def test_what_is_written_goes_on_while_it_is_wanted(
    keeper: StoreKeeper, order: AgentOrder, given: dict[str, Any], why: str
) -> None:
    keeper._take(order)
    keeper.give(replace(order, **given))
    if not why:
        keeper._go_on()
        return
    with pytest.raises(Superseded, match=why):
        keeper._go_on()


def test_nothing_is_written_by_an_agent_that_ends(keeper: StoreKeeper, order: AgentOrder) -> None:
    keeper._take(order)
    keeper.close()
    with pytest.raises(Superseded, match="the agent ends"):
        keeper._go_on()


# ---------------------------------------------------------------- a store that fails


def test_waits_grow_while_a_store_fails_and_begin_anew_once_it_is_well(
    keeper: StoreKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storekeeper, "full_jitter", lambda **_: count(1.0))
    keeper._waits = count(1.0)  # type: ignore[assignment]
    fails = True

    def settle() -> None:
        if fails:
            raise TemporaryStoreError("away")

    monkeypatch.setattr(keeper, "_settle", settle)
    assert [keeper._round() for _ in range(3)] == [1, 2, 3]
    assert keeper.error == "away"
    fails = False
    assert [keeper._round(), keeper._round()] == [POLL_S, POLL_S]
    assert keeper.error == ""
    fails = True
    assert keeper._round() == 1
