"""Text and sampler: the same bytes in the same order, each sample once."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.topology import Topology
from holdfast.workload.data import corpus
from holdfast.workload.data.batch import StepBatch
from holdfast.workload.data.sampler import Sampler
from holdfast.workload.settings import Shape

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def sampler(length: int, seq: int, seed: int = 1) -> Sampler:
    return Sampler(torch.arange(length).to(torch.uint8), seq=seq, seed=seed, device=CPU)


def test_files_come_in_an_order_that_the_disk_does_not_choose(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, content in {"b.txt": "bb", "sub/c.txt": "cc", "a.txt": "aa"}.items():
        (tmp_path / name).write_text(content)
    assert bytes(corpus.read([tmp_path], least_bytes=1).tolist()) == b"aabbcc"
    one = [tmp_path / "b.txt", tmp_path / "a.txt"]
    assert bytes(corpus.read(one, least_bytes=1).tolist()) == b"bbaa"


def test_the_default_text_is_this_pythons_standard_library() -> None:
    found = corpus.files(())
    names = {path.relative_to(corpus.default_paths()[0]).as_posix() for path in found}
    assert {"abc.py", "asyncio/events.py"} <= names
    assert not any(corpus.LEFT_OUT & set(Path(name).parts) for name in names)


def test_a_path_that_is_not_there_and_a_text_too_short_are_told(tmp_path: Path) -> None:
    with pytest.raises(corpus.BadData, match="nowhere does not exist"):
        corpus.read([tmp_path / "nowhere"], least_bytes=1)
    (tmp_path / "short").write_text("abc")
    with pytest.raises(corpus.BadData, match="3 bytes of text, one step needs 4"):
        corpus.read([tmp_path], least_bytes=4)


def test_unigram_entropy_of_known_texts() -> None:
    assert corpus.unigram_entropy_bits(torch.zeros(10, dtype=torch.uint8)) == 0
    assert corpus.unigram_entropy_bits(torch.arange(256).to(torch.uint8)) == pytest.approx(8)
    half = torch.tensor([1, 1, 2, 3], dtype=torch.uint8)
    assert corpus.unigram_entropy_bits(half) == pytest.approx(1.5)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 3))
def test_each_pass_draws_every_sample_once(samples: int, seq: int, number: int) -> None:
    drawn = sampler(samples * seq + 1, seq)
    positions = range(number * samples, (number + 1) * samples)
    assert sorted(drawn.sample_at(p) for p in positions) == list(range(samples))


def test_the_order_changes_with_the_pass_and_the_seed_only() -> None:
    one, again, other = sampler(501, 5), sampler(501, 5), sampler(501, 5, seed=2)
    order = [one.sample_at(p) for p in range(100)]
    assert [again.sample_at(p) for p in reversed(range(100))] == order[::-1]
    assert [other.sample_at(p) for p in range(100)] != order
    assert [one.sample_at(p) for p in range(100, 200)] != order


@pytest.mark.parametrize("dp", [1, 2, 4])
def test_the_replicas_share_a_steps_samples_out(dp: int) -> None:
    shape = Shape(seq=5, micro_batch=1, global_batch=8)
    topology = Topology(dp=dp)
    batches = [
        StepBatch(sampler(201, 5), position=16, replica=r, topology=topology, shape=shape)
        for r in range(dp)
    ]
    expected = [sampler(201, 5).sample_at(p) for p in range(16, 24)]
    assert [sample for batch in batches for sample in batch.samples] == expected
    assert batches[0].tokens(0).tolist() == [[expected[0] * 5 + i for i in range(5)]]
    assert batches[0].targets(0).tolist() == [[expected[0] * 5 + i + 1 for i in range(5)]]
