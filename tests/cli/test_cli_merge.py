"""Lines of several ranks become one stream: prefixed only where the ranks differ."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.run.merge import SAME_LINE_S, Merge

LATER = SAME_LINE_S + 0.01


def test_one_rank_is_passed_on_at_once_lines_or_not() -> None:
    merge = Merge(1)
    merge.add(0, b"50 %\r", 0.0)
    merge.add(0, b"name? ", 0.0)
    assert merge.take(0.0) == b"50 %\rname? "


def test_a_line_that_all_ranks_print_is_shown_once() -> None:
    merge = Merge(2)
    merge.add(0, b"epoch 1\n", 0.0)
    assert merge.take(0.0) == b""
    merge.add(1, b"epoch 1\n", SAME_LINE_S / 2)
    assert merge.take(SAME_LINE_S / 2) == b"epoch 1\n"


def test_lines_that_differ_are_told_apart() -> None:
    merge = Merge(2)
    merge.add(0, b"loss 1\n", 0.0)
    merge.add(1, b"loss 2\n", 0.0)
    assert merge.take(LATER) == b"[r0] loss 1\n[r1] loss 2\n"


def test_while_only_one_rank_prints_nothing_is_prefixed() -> None:
    merge = Merge(4)
    merge.add(0, b"step 1\nstep 2\n", 0.0)
    assert merge.take(LATER) == b"step 1\nstep 2\n"
    merge.add(3, b"careful\n", LATER)
    merge.add(0, b"step 3\n", LATER)
    assert merge.take(2 * LATER) == b"[r0] step 3\n[r3] careful\n"


def test_a_piece_of_a_line_waits_for_its_rest_or_the_end() -> None:
    merge = Merge(2)
    merge.add(0, b"hal", 0.0)
    merge.add(1, b"other\n", 0.0)
    assert merge.take(LATER) == b"[r1] other\n"
    merge.add(0, b"f\nno end", LATER)
    assert merge.take(LATER, last=True) == b"[r0] half\n[r0] no end\n"


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=6)), max_size=30))
def test_no_line_of_a_rank_is_lost_or_made_up(writes: list[tuple[int, bytes]]) -> None:
    merge, shown = Merge(3), b""
    wrote = dict.fromkeys(range(3), b"")
    for place, (rank, data) in enumerate(writes):
        clean = data.replace(b"\r", b"").replace(b"[", b"") + b"%d" % rank
        merge.add(rank, clean, place * 0.1)
        wrote[rank] += clean
        shown += merge.take(place * 0.1)
    shown += merge.take(1e6, last=True)
    printed = [rank for rank in wrote if wrote[rank]]
    for rank in printed if len(printed) > 1 else []:
        mine = [line.removeprefix(b"[r%d] " % rank) for line in shown.split(b"\n")]
        assert all(line in mine for line in wrote[rank].split(b"\n") if line)
