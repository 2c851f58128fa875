"""Stacks of many ranks: those that are equal are told once, whatever their pids."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.telemetry.analysis.alike_stacks import alike, without_numbers


def dumped(pid: int, line: str) -> str:
    """As py-spy prints it."""
    return (
        f"Process {pid}: python train.py --rank {pid}\n"
        "Python v3.11.2 (/usr/bin/python3.11)\n\n"
        f'Thread {pid} (idle): "MainThread"\n'
        f"    {line}\n"
        f'Thread 0x7F{pid:X} (active): "loader"\n'
        "    get (/usr/lib/python3.11/queue.py:171)"
    )


WAITS, STEPS = "all_reduce (dist.py:10)", "step (train.py:52)"


def test_a_thousand_ranks_in_one_line_are_one_block_and_the_other_two_are_another() -> None:
    stacks = {rank: dumped(4_000 + rank, WAITS) for rank in range(1_000)}
    stacks |= {17: dumped(99, STEPS), 401: dumped(7, STEPS)}
    most, others = alike(stacks)
    assert (len(most.ranks), others.ranks) == (998, (17, 401))
    assert WAITS in most.text
    assert STEPS in others.text
    assert "Process" not in most.text
    assert 'Thread (idle): "MainThread"' in most.text


def test_a_child_process_stays_apart_from_the_ranks_own() -> None:
    text = without_numbers(dumped(1, WAITS) + "\n\n" + dumped(2, STEPS))
    own, child = text.split("Child process\n")
    assert WAITS in own
    assert STEPS in child


@given(st.dictionaries(st.integers(0, 50), st.sampled_from([WAITS, STEPS, "", "no stack: gone"])))
def test_each_rank_is_in_one_block_and_blocks_come_by_size(lines: dict[int, str]) -> None:
    groups = alike({rank: dumped(rank, line) for rank, line in lines.items()})
    assert sorted(rank for each in groups for rank in each.ranks) == sorted(lines)
    sizes = [len(each.ranks) for each in groups]
    assert sizes == sorted(sizes, reverse=True)
    assert len(groups) == len(set(lines.values()))
