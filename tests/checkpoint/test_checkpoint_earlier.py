"""What an earlier job left is found beside what a job has saved itself, and never taken for it."""

from pathlib import Path

import pytest

from holdfast.checkpoint import earlier
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fetch import Refused
from holdfast.checkpoint.layout import MANIFEST, REFUSED, folder_name
from holdfast.checkpoint.lookup import TRIES, LookUp
from holdfast.checkpoint.manifest import File, Part, encode, merge
from holdfast.checkpoint.stores import StoreError
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import EARLIER, Stored

SHARD = "shard-00000-of-00001.safetensors"


def write(root: Path, step: int, epoch: int) -> None:
    """A checkpoint of which a look asks no more than manifest and size."""
    store, name = FileStore(str(root)), folder_name(step, epoch)
    store.put(f"{name}/{SHARD}", [bytes(100)])
    part = Part(rank=0, step=step, epoch=epoch, world_size=1, shard=File(SHARD, 100, "0"))
    store.put(f"{name}/{MANIFEST}", [encode(merge("earlier", [part]))])


@pytest.fixture
def life(tmp_path: Path) -> Path:
    """An earlier job's: two attempts of it wrote step 20."""
    for step, epoch in ((10, 4), (20, 4), (20, 6)):
        write(tmp_path / "earlier", step, epoch)
    return tmp_path / "earlier"


def look(tmp_path: Path, begin_from: str) -> LookUp:
    own = (tmp_path / "own").as_uri()
    fields = {"store_url": own, "begin_from": begin_from, "look_up_store": True}
    return LookUp(AgentOrder(id=1, job="job", epoch=2, **fields), lambda _: None)


def found(tmp_path: Path, begin_from: str) -> list[tuple[int, int]]:
    asked = look(tmp_path, begin_from)
    asked.advance(lambda: None)
    assert asked.done
    return [(one.step, one.epoch) for one in asked.found]


def test_each_step_of_the_earlier_one_is_found_once_by_our_name_for_it(
    tmp_path: Path, life: Path
) -> None:
    assert found(tmp_path, life.as_uri()) == [(20, EARLIER), (10, EARLIER)]


def test_of_one_checkpoint_that_is_named_no_other_is_found(tmp_path: Path, life: Path) -> None:
    named = f"{life.as_uri()}/{folder_name(10, 4)}"
    assert found(tmp_path, named) == [(10, EARLIER)]


def test_what_the_job_saved_itself_is_found_first(tmp_path: Path, life: Path) -> None:
    write(tmp_path / "own", 30, 1)
    assert found(tmp_path, life.as_uri()) == [(30, 1), (20, EARLIER), (10, EARLIER)]


def test_where_nothing_can_be_begun_from_the_look_never_ends(tmp_path: Path, life: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere", life / folder_name(15, 4)):
        asked = look(tmp_path, wrong.as_uri())
        for _ in range(2 * TRIES):
            with pytest.raises(StoreError, match="beginFrom: there is no checkpoint at file"):
                asked.advance(lambda: None)
        assert not asked.done


def test_where_all_are_damaged_it_is_said_of_which(tmp_path: Path, life: Path) -> None:
    for shard in life.glob(f"*/{SHARD}"):
        shard.write_bytes(b"x")
    asked = look(tmp_path, life.as_uri())
    with pytest.raises(StoreError, match=r"can be believed: step-00000020-epoch-6/shard.* 1 byte"):
        asked.advance(lambda: None)


def test_it_is_no_hindrance_once_the_job_has_its_own(tmp_path: Path, life: Path) -> None:
    write(tmp_path / "own", 30, 1)
    assert found(tmp_path, (tmp_path / "nowhere").as_uri()) == [(30, 1)]


def test_a_rank_reads_the_newest_of_that_step_that_is_believed(tmp_path: Path, life: Path) -> None:
    store, url = FileStore(str(life)), life.as_uri()
    named = f"{url}/{folder_name(20, 4)}"
    assert earlier.folder(store, named, 20) == folder_name(20, 4), "though there is a newer one"
    assert earlier.folder(store, url, 20) == folder_name(20, 6)
    (life / folder_name(20, 6) / SHARD).write_bytes(b"x")
    assert earlier.folder(store, url, 20) == folder_name(20, 4)
    with pytest.raises(Refused, match="step 99 is no longer there, or damaged"):
        earlier.folder(store, url, 99)


def test_what_a_rank_refused_is_read_through(tmp_path: Path, life: Path) -> None:
    """Its checksum is not that of the manifest: another one takes its place."""
    (life / folder_name(20, 6) / REFUSED).touch()
    (life / folder_name(20, 4) / REFUSED).touch()
    assert found(tmp_path, life.as_uri()) == [(10, EARLIER)]


def test_nothing_is_written_where_the_earlier_one_is(tmp_path: Path, life: Path) -> None:
    before = sorted(life.rglob("*"))
    found(tmp_path, life.as_uri())
    assert sorted(life.rglob("*")) == before
    assert earlier.parse(f"{life.as_uri()}/").only is None
    assert earlier.parse(f"{life.as_uri()}/{folder_name(10, 4)}/").only == Stored(step=10, epoch=4)
