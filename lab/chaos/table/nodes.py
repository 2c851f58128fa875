"""Faults 3, 14, 16, 19, 33, 40, 42, 46, 47 and 50: nodes are lost, or left, or have a bad link."""

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import lemon, link, node, stalled
from holdfast.lab.chaos.scenario import Scenario, Shape
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import (
    APART,
    HOLDERS_LOST,
    LEMON,
    LEMONS,
    LINK,
    LOST,
    MOVED,
    NEVER_MET,
    OF_LINK,
    PEERS_ALONE,
    SENDS_MUCH,
    STANDBY,
    UNKILLABLE,
)

_FOUR = Shape(nodes=4)
"""So many that a bad link can be told from the others."""

ROWS: tuple[Scenario, ...] = (
    Scenario(3, "node-lost", "a node is lost, its connections are reset", node.lost, LOST),
    Scenario(
        3,
        "node-lost-peers",
        "a node is lost, no store has anything, and another node has copies",
        node.lost,
        LOST,
        spec={"checkpoint": PEERS_ALONE},
    ),
    Scenario(
        3,
        "node-unplugged",
        "the link of a node goes down without a single reset",
        node.unplugged,
        LOST,
        needs_links=True,
    ),
    Scenario(
        14,
        "link-slow",
        "a node's link is slow, and one of its ranks dies each time it is back",
        link.slow_and_deadly(),
        LINK,
        needs_links=True,
        shape=Shape(standbys=0, others=1),  # a warm standby would take the place before its tests
    ),
    Scenario(
        14,
        "link-slows",
        "a node's link is slow, each way, and nothing else is",
        link.slow("400mbit"),
        OF_LINK,
        needs_links=True,
        shape=_FOUR,
        spec=SENDS_MUCH,
    ),
    Scenario(
        16,
        "packets-late",
        "packets of a node stand in a queue for up to .2 s, each way",
        link.packets_late("200mbit", "200ms"),
        replace(OF_LINK, untold=("slow",)),
        needs_links=True,
        shape=_FOUR,
        spec=SENDS_MUCH,
    ),
    Scenario(
        19,
        "cut-one-way",
        "what one node of the job sends to another is lost, and nothing else is",
        link.one_way,
        APART,
        needs_links=True,
    ),
    Scenario(
        19,
        "cut-one-way-at-start",
        "the two nodes that a job gets first cannot meet, for one way is cut",
        link.still_cut,
        NEVER_MET,
        needs_links=True,
        first=link.one_way_from_the_start,
        at_once=True,
    ),
    Scenario(
        33,
        "rank-unkillable",
        "a rank waits for a disk that does not answer, and SIGKILL does not end it",
        stalled.rank_unkillable,
        UNKILLABLE,
        script=BUGGY,
        needs_links=True,
    ),
    Scenario(
        40,
        "standby-fails-test",
        "a node that comes to stand by computes wrong",
        node.standby_fails_test,
        STANDBY,
        needs_links=True,
        longer=5,
        shape=Shape(standbys=2, others=1),
    ),
    Scenario(
        42,
        "holders-lost",
        "all nodes that have snapshots of a job in memory are lost at once",
        node.all_lost,
        HOLDERS_LOST,
        shape=Shape(standbys=2),
    ),
    Scenario(
        46,
        "standby-test-hangs",
        "the test of a node that comes to stand by does not end, and then its place is needed",
        node.standby_test_hangs,
        replace(LOST, incidents=1),
        needs_links=True,
        longer=10,
        shape=Shape(others=1),
    ),
    Scenario(
        47,
        "node-lemon",
        "ranks die on a node (SIGSEGV) some seconds after each start, and its tests pass",
        lemon.segfaulting(),
        LEMON,
        longer=10,
    ),
    Scenario(
        47,
        "two-lemons",
        "ranks die on two of four nodes (SIGSEGV), and the tests of both pass",
        lemon.segfaulting(2),
        LEMONS,
        longer=10,
        shape=Shape(nodes=4, standbys=2),
    ),
    Scenario(
        50,
        "maintenance-asked",
        "a person wants a node free within a minute",
        node.asked_for,
        MOVED,
        longer=5,
    ),
)
