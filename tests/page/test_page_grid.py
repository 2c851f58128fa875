"""Where ranks are in the 3D view, who waits for whom in it."""

import itertools
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.bench.page import made as made_ranks
from holdfast.page.draw import grid, grid_svg

SVG = "{http://www.w3.org/2000/svg}"
SIZES = st.integers(1, 9)


@settings(deadline=None, max_examples=60)
@given(dp=st.integers(1, 150), pp=SIZES, tp=SIZES, width=st.integers(20, 1500))
def test_every_rank_has_one_place_and_none_hides_another(
    dp: int, pp: int, tp: int, width: int
) -> None:
    found = grid.grid(made_ranks.view3d(dp, pp, tp), width=float(width))
    assert sorted(spot.rank for spot in found.spots) == list(range(dp * pp * tp))
    straight = {
        (round(spot.y / found.cell, 3), round((spot.x - grid.SLANT * off) / found.cell, 3))
        for spot in found.spots
        for off in [spot.y - found.planes[spot.at[1]][2]]
    }
    assert len(straight) == dp * pp * tp
    for spot in found.spots:
        _, _, top, _, tall = found.planes[spot.at[1]]
        assert top - 1e-6 <= spot.y <= top + tall - found.cell + 1e-6
        assert spot.x + found.cell <= found.width + found.cell
    for (_, x, y, wide, tall), (_, right, below, _, _) in itertools.pairwise(found.planes):
        assert (right, below) >= (x + wide, y) if below == y else below > y + tall


def test_the_chain_of_waits_ends_at_who_holds_them_up() -> None:
    answer = made_ranks.view3d(4, 4, 2, stopped=13)
    found = grid.chosen(answer, 3)
    assert found.chain == (3, 12, 13)
    assert grid.chosen(answer, 13).chain == (13,)
    assert [len(found.groups[axis]) for axis in ("dp", "pp", "tp")] == [4, 4, 2]
    assert all(3 in group for group in found.groups.values())


def test_a_circle_of_waits_is_followed_once() -> None:
    answer = made_ranks.view3d(2, 1, 1)
    answer["waits"] = [
        {"where": "a message of rank 1", "waiting": [0], "lacking": [1]},
        {"where": "a message of rank 0", "waiting": [1], "lacking": [0]},
    ]
    assert grid.chain(answer, 0) == (0, 1)


@pytest.mark.parametrize("shape", [(4, 4, 2), (192, 8, 8)], ids=["small", "large"])
def test_the_picture_has_arrows_to_who_is_waited_for_and_says_so(
    shape: tuple[int, int, int],
) -> None:
    answer = made_ranks.view3d(*shape, stopped=13)
    root = ElementTree.fromstring(grid_svg.drawn(answer, rank=3))
    arrows = [each for each in root.iter(f"{SVG}path") if each.get("class") == "arrow"]
    assert len(arrows) >= 2
    text = " ".join(root.itertext())
    assert "end at rank 13" in text
    assert "rank 3 waits for rank" in text
    spots = [each for each in root.iter(f"{SVG}path") if each.get("class") == "spot"]
    assert len(spots) == (32 if shape[0] == 4 else 0)


def test_a_job_that_does_not_say_how_it_is_parallel_is_told_so() -> None:
    answer = made_ranks.view3d(6, 1, 1) | {"declared": False}
    assert "the job does not say how it is parallel" in grid_svg.drawn(answer)
