"""Presence is judged by leases alone, and a pause of the machine accuses nobody."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.keeper.leases import LONGEST_TICK_S, Leases
from holdfast.protocol import lease

TICK_S = 0.1


def a_present_node() -> Leases:
    leases = Leases()
    leases.expect("n", within_s=10)
    assert leases.renewed("n", "i").present
    return leases


def test_nothing_is_known_of_a_node_that_was_never_heard_of_until_its_time_is_up():
    leases = Leases()
    leases.expect("n", within_s=1.0)
    changes = [change for _ in range(9) for change in leases.passed(TICK_S)]
    assert changes == []
    assert leases.present("n") is None
    changes = [change for _ in range(2) for change in leases.passed(TICK_S)]
    assert [(change.present, change.why) for change in changes] == [
        (False, "its host has not come up")
    ]


def test_a_node_is_absent_once_and_comes_back_once():
    leases = a_present_node()
    changes = [change for _ in range(60) for change in leases.passed(TICK_S)]
    assert [change.present for change in changes] == [False]
    assert leases.renewed("n", "j").present
    assert leases.renewed("n", "j") is None
    assert leases.incarnation("n") == "j"


def test_a_node_whose_host_has_ended_is_absent_sooner_than_one_that_may_be_cut_off():
    leases = a_present_node()
    leases.host_ended("n")
    leases.host_ended("n")
    assert [change for _ in range(14) for change in leases.passed(TICK_S)] == []
    (gone,) = [change for _ in range(2) for change in leases.passed(TICK_S)]
    assert gone.why == "its host has ended, and its lease was not renewed for 1.5 s"
    leases.renewed("n", "j")
    assert [change for _ in range(40) for change in leases.passed(TICK_S)] == []


def test_a_pause_of_the_keeper_itself_accuses_nobody():
    leases = a_present_node()
    assert leases.passed(3_600) == []
    assert leases.present("n")


def test_renewals_of_unknown_nodes_are_ignored():
    assert Leases().renewed("stranger", "i") is None


@given(st.lists(st.floats(0, 2 * LONGEST_TICK_S), max_size=60))
def test_a_lease_is_over_exactly_when_its_time_without_a_renewal_is(elapsed):
    leases = a_present_node()
    left_s = lease.CUT_OFF_AFTER_S
    for each in elapsed:
        leases.passed(each)
        left_s -= min(each, LONGEST_TICK_S)
        assert leases.present("n") is (left_s > 0)


@given(st.binary(max_size=200) | st.just(b'{"node": 1, "incarnation": "", "token": ""}'))
def test_a_datagram_that_is_not_ours_is_none(datagram):
    assert lease.unpack(datagram) is None


@given(st.text(max_size=50), st.text(max_size=50), st.text(max_size=50))
def test_a_renewal_survives_its_datagram(node, incarnation, token):
    renewal = lease.Renewal(node, incarnation, token)
    assert lease.unpack(lease.pack(renewal)) == renewal
