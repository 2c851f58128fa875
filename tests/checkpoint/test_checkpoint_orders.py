"""Orders that come faster than the store takes them: none is lost that something depends on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")

from waiting import eventually  # noqa: E402

from holdfast.checkpoint import storekeeper  # noqa: E402
from holdfast.checkpoint.agent_protocol import AgentOrder  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.pace import Pace  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.storekeeper import StoreKeeper  # noqa: E402
from holdfast.kit.clock import SystemClock  # noqa: E402
from holdfast.protocol.messages import Stored  # noqa: E402

pytestmark = pytest.mark.torch

STEP = 10


@pytest.fixture
def give(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Give orders to a keeper whose threads, an agent's two, begin with the test's last one."""
    clock = SystemClock()
    keeper = StoreKeeper(clock, print, Pace(clock, rest=bool))
    threads = [Thread(target=keeper.run), Thread(target=keeper.sweeper.run)]

    def given(*orders: AgentOrder) -> None:
        for order in orders:
            keeper.give(order)
        for thread in threads:
            thread.start()
        eventually(lambda: keeper.settled_id == orders[-1].id, "the last order is carried out")

    yield given
    keeper.close()
    for thread in threads:
        thread.join()


def test_a_job_of_which_another_node_never_writes_its_part_is_forgotten_in_the_end(
    tmp_path: Path,
    give: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(storekeeper, "FAREWELL_S", 0.3)
    rank = Checkpointer(Settings(job="job", epoch=1, world_size=2, slots=tmp_path / "r0"))
    assert rank.save(STEP, {"w": torch.ones(100)})
    ranks = replace(order(tmp_path, 1, ranks=(0,)), world_size=2)
    give(ranks, order(tmp_path, 2, ranks=(), forget="job"))
    assert "job job is forgotten before all that was due was written" in capsys.readouterr().out
    assert not (tmp_path / "r0").exists()


def order(root: Path, number: int, *, ranks: tuple[int, ...], forget: str = "") -> AgentOrder:
    return AgentOrder(
        id=number,
        job="job",
        epoch=1,
        ranks=ranks,
        world_size=1,
        slots={0: str(root / "r0")},
        store_url=f"file://{root}/store",
        store_interval_steps=STEP,
        forget_job=forget,
    )


@pytest.mark.parametrize("told", [True, False], ids=["told that they ended", "forgotten at once"])
def test_what_ranks_left_is_written_though_they_ended_before_their_order_was_taken(
    tmp_path: Path, give: Callable[..., None], told: bool
) -> None:
    rank = Checkpointer(Settings(job="job", epoch=1, slots=tmp_path / "r0"))
    assert rank.save(STEP, {"w": torch.ones(100)})
    ended = [order(tmp_path, 2, ranks=())] if told else []
    give(order(tmp_path, 1, ranks=(0,)), *ended, order(tmp_path, 3, ranks=(), forget="job"))
    written = [path.parent.name for path in tmp_path.glob("store/*/manifest.json")]
    assert written == [f"step-{STEP:08}-epoch-1"]
    assert not (tmp_path / "r0").exists(), "and then it is forgotten"


class Still(SystemClock):
    """Nothing that is waited for so long comes to its end by that."""

    def monotonic_s(self) -> float:
        return 0.0


def test_a_step_that_was_ordered_and_cannot_be_written_is_not_waited_for_at_the_end(
    tmp_path: Path,
) -> None:
    rank = Checkpointer(Settings(job="job", epoch=1, slots=tmp_path / "r0"))
    assert rank.save(STEP, {"w": torch.ones(100)})
    (tmp_path / "store").touch()
    keeper = StoreKeeper(clock := Still(), print, Pace(clock, rest=bool))
    thread = Thread(target=keeper.run)
    thread.start()
    try:
        wanted = Stored(step=STEP, epoch=1)
        keeper.give(replace(order(tmp_path, 1, ranks=()), epoch=2, save=wanted))
        eventually(lambda: "Not a directory" in keeper.error, "the store fails")
        keeper.give(replace(order(tmp_path, 2, ranks=(), forget="job"), epoch=2))
        eventually(lambda: keeper.settled_id == 2, "the job is forgotten")
    finally:
        keeper.close()
        thread.join()
    assert not (tmp_path / "r0").exists()
