"""Two nodes that cannot reach each other, while all others reach both: each way is cut."""

from random import Random
from typing import Any, NamedTuple

import pytest

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import link


class Host(NamedTuple):
    name: str


def test_both_ways_are_cut_between_two_nodes_of_the_job_and_both_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts, cut = [Host(f"node-{at}") for at in range(4)], []
    monkeypatch.setattr(target, "hosts_of", lambda lab, job: hosts)
    monkeypatch.setattr(target, "cluster", lambda lab: None)
    monkeypatch.setattr(link, "cut_one_way", lambda state, one, two: cut.append((one, two)))
    lab: Any = None
    done = link.both_ways(lab, "job", Random(7))
    assert done.node is not None
    (other,) = done.also
    assert {(one.name, two.name) for one, two in cut} == {(done.node, other), (other, done.node)}
    assert done.said == f"{done.node} and {other} cannot reach each other"
