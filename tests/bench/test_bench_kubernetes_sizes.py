"""How large the benchmark on Kubernetes is, from what a person asks for."""

import subprocess
import sys

import pytest

pytest.importorskip("kubernetes")

from holdfast.bench.counts import BadSizes
from holdfast.bench.kubernetes.sizes import Size, chosen


def test_sizes_come_smallest_first_and_the_gang_in_proportion() -> None:
    assert chosen("2000, 500,1000", 1500, quick=False) == [
        Size(500, 375, 100),
        Size(1000, 750, 100),
        Size(2000, 1500, 100),
    ]


def test_the_gang_has_three_quarters_where_nobody_says_how_many() -> None:
    assert chosen("100", None, quick=True) == [Size(100, 75, 10)]


def test_no_more_conditions_are_written_than_there_are_free_nodes() -> None:
    assert chosen("100", 96, quick=False) == [Size(100, 96, 4)]


@pytest.mark.parametrize(
    ("nodes", "gang", "said"),
    [
        ("500,many", None, "numbers with commas"),
        ("", None, "numbers with commas"),
        ("510", None, "racks of 20"),
        ("20", None, "at least two"),
        ("100", 100, "have to be free"),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_a_fix(
    nodes: str, gang: int | None, said: str
) -> None:
    with pytest.raises(BadSizes, match=said) as refused:
        chosen(nodes, gang, quick=False)
    assert refused.value.fix.startswith("Give ")


def test_a_plain_run_needs_nothing_of_a_driver_as_it_is_shipped() -> None:
    look = "import sys; import holdfast.bench.kubernetes.benchmark; print('psycopg' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
