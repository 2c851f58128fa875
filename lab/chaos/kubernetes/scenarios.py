"""The faults that are done on Kubernetes, and what must follow. As `chaos.scenarios`, which see.

Those that are the same on a laptop are done by the same injectors; what must follow is what others
than the driver saw.
"""

import signal

import msgspec

from holdfast.lab.chaos.injectors import (
    api_server,
    clock,
    driver,
    kubelet,
    leader,
    lease,
    node,
    nothing,
    people,
    rank,
    repeated,
    returning,
    supply,
)
from holdfast.lab.chaos.kubernetes import blows, leading, witnesses
from holdfast.lab.chaos.kubernetes.witnesses import Witness
from holdfast.lab.chaos.scenarios import STORE_EVERY, Expected, Scenario, Shape

GONE = "Gone"
"""In the place of a phase: there is no TrainingJob any more."""


class OnKubernetes(Scenario, frozen=True):
    """A row of the table. `there`: that its fault was, where the score does not say it. `holds`:
    what else has to be so, besides what always has.
    """

    there: tuple[Witness, ...] = ()
    holds: tuple[Witness, ...] = ()
    starts_api: bool = False  # the API server is started anew, and forbids all until it is ready
    proxied: bool = False  # the driver reaches the API server by a proxy of its own
    shared: bool = False  # its journal is in a PostgreSQL, and it leads by a Lease
    two: bool = False  # another driver shares that journal, and stands by
    relayed: bool = False  # nodes reach the driver by a relay that can repeat messages
    driver: str = "holdfast.driver.main"  # the module that is run as the driver


LEFT_ALONE = OnKubernetes(0, "left-alone", "nothing at all", nothing)

_IN_PLACE = Expected(names_rank=True)
_UNSEEN = Expected(incident=False, most_steps_lost=0)
_LOST = Expected(may_evict=True, must_evict=True, most_steps_lost=3 * STORE_EVERY)
_STANDBY = Expected(
    blame=("infrastructure",), may_evict=True, must_evict=True, most_steps_lost=0, incidents=1
)
_TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,
)
_AGAIN = Expected(
    names_rank=True,
    most_steps_lost=6,  # two each time
    told_within_steps=STORE_EVERY,
)
_ONE_INCIDENT = msgspec.structs.replace(
    _LOST,
    incidents=1,
    told_within_steps=STORE_EVERY,  # nobody is left who saw the last steps
)
_EACH = msgspec.structs.replace(
    _LOST,
    names_node=False,  # the first one names the rank that was killed
    incidents=2,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,
)
_MOVED = Expected(
    names_node=False,
    blame=("unknown",),
    most_steps_lost=1,  # one that was completed and not yet sealed when its ranks were ended
)
_GONE = Expected(phase=GONE, incident=False, most_steps_lost=0, compares_losses=False)

_MIDDLE, _LONG, _LONGEST = 5, 10, 20
"""Times the steps of the others, where the job has to outlast what is done to it."""
_RACKS = Shape(nodes=2, standbys=2, others=2, racks=3)
"""A job has its nodes in one rack where one has room for all of it: that one is lost."""

_kill = rank.signalled(signal.SIGKILL)
_kill_first = rank.signalled(signal.SIGKILL, rank=0)
_OFTEN = 10
_STRIKES = 3
"""Deaths on one node after which that is tested."""

SCENARIOS: tuple[OnKubernetes, ...] = (
    OnKubernetes(3, "node-lost", "a node is lost, its connections are reset", node.lost, _LOST),
    OnKubernetes(
        3,
        "node-unplugged",
        "the link of a node goes down without a single reset",
        node.unplugged,
        _LOST,
    ),
    OnKubernetes(
        3,
        "kubelet-frozen",
        "the kubelet of a node is frozen until that is NotReady, its ranks go on",
        kubelet.frozen,
        _UNSEEN,
        longer=_MIDDLE,
        there=(witnesses.was_not_ready,),
    ),
    OnKubernetes(
        3,
        "kubelets-stopped",
        "the kubelets of all nodes are stopped until none is Ready, the ranks go on",
        kubelet.all_stopped,
        _UNSEEN,
        longer=_MIDDLE,
        there=(witnesses.was_not_ready,),
    ),
    OnKubernetes(
        3,
        "kubelet-killed",
        "the kubelet of all nodes is killed",
        kubelet.killed,
        _UNSEEN,
        longer=_MIDDLE,  # it has to be back before the job is over
        there=(blows.kubelet_began_anew,),
    ),
    OnKubernetes(
        3,
        "pod-deleted",
        "a person deletes a pod whose ranks train",
        people.pod_deleted,
        _MOVED,
        longer=_MIDDLE,
    ),
    OnKubernetes(
        3,
        "namespace-deleted",
        "a person deletes the namespace of the job",
        people.namespace_deleted,
        _GONE,
        holds=(witnesses.nothing_is_left, witnesses.driver_lived),
    ),
    OnKubernetes(
        3,
        "foreign-taint",
        "another controller taints a node whose ranks train",
        people.tainted,
        _UNSEEN,
        there=(witnesses.taint_stays(people.TAINT),),
    ),
    OnKubernetes(
        3,
        "foreign-taint-lost",
        "another controller taints the nodes of the job, then one is lost",
        people.tainted_before(node.lost),
        _LOST,
        there=(witnesses.taint_stays(people.TAINT),),
    ),
    OnKubernetes(
        35,
        "driver-killed",
        "the driver is killed while all is well",
        driver.killed,
        _UNSEEN,
        there=(blows.driver_was_killed(),),
    ),
    *(
        OnKubernetes(
            35,
            f"driver-killed-{phase.lower()}",
            f"a rank is killed, then the driver while its job is {phase}",
            driver.killed_in(phase, _kill),
            _IN_PLACE,
            there=(blows.driver_was_killed(),),
        )
        for phase in ("Suspending", "Restoring", "Starting", "Running")
    ),
    OnKubernetes(
        35,
        "driver-killed-diagnosing",
        "a rank is killed three times, then the driver while its job is Diagnosing",
        driver.killed_in("Diagnosing", *[_kill_first] * _STRIKES),
        _AGAIN,
        longer=_MIDDLE,
        there=(blows.driver_was_killed(),),
    ),
    OnKubernetes(
        35,
        "driver-killed-replacing",
        "a node is lost, and the driver killed while its job waits for another (Replacing)",
        people.uncordoned_after(driver.killed_in("Replacing", node.lost)),
        _LOST,
        longer=_MIDDLE,
        shape=Shape(standbys=0, others=1),
        first=people.cordoned,
        there=(blows.driver_was_killed(),),
    ),
    OnKubernetes(
        35,
        "driver-killed-often",
        "the driver is killed ten times at random moments, and a rank meanwhile",
        driver.killed_often(_OFTEN),
        _IN_PLACE,
        longer=_LONG,
        there=(blows.driver_was_killed(_OFTEN),),
    ),
    OnKubernetes(
        35,
        "leader-killed",
        "of two drivers the leader is killed for good, and a rank once the other leads",
        leader.killed_and(_kill),
        _IN_PLACE,
        longer=_LONG,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "leader-stopped",
        "of two drivers the leader is stopped, a rank killed once the other leads, and it wakes",
        leader.stopped_while(_kill),
        _IN_PLACE,
        longer=_LONG,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "leader-killed-recovering",
        "a rank is killed, and of two drivers the leader for good while its job is Restoring",
        driver.killed_in("Restoring", _kill, kill=leader.killed),
        _IN_PLACE,
        longer=_MIDDLE,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "lease-stolen",
        "a stranger takes and renews the driver's Lease, and a rank is killed meanwhile",
        lease.stolen_while(_kill),
        _IN_PLACE,
        longer=_MIDDLE,
        there=(leading.theft_was_borne,),
        holds=(witnesses.driver_lived, leading.lease_is_back),
        shared=True,
    ),
    OnKubernetes(
        35,
        "lease-deleted",
        "somebody deletes the driver's Lease, and a rank is killed",
        lease.deleted_and(_kill),
        _IN_PLACE,
        longer=_MIDDLE,
        holds=(witnesses.driver_lived, leading.lease_is_back),
        shared=True,
        there=(blows.lease_was_deleted,),
    ),
    OnKubernetes(
        36,
        "driver-cut-off",
        "no node reaches the driver for a while",
        driver.cut_off,
        _UNSEEN,
        longer=_LONG,
        there=(blows.nodes_were_cut_off(driver.CUT_OFF_S),),
    ),
    OnKubernetes(
        34,
        "clock-stepped",
        "the driver's wall clock is stepped by five minutes, and a node is lost",
        clock.stepped_and(node.lost),
        _LOST,
        driver=clock.DRIVER,
        there=(blows.clock_was_stepped(clock.STEP_S),),
    ),
    OnKubernetes(
        36,
        "driver-alone",
        "the driver reaches neither the API server nor any node for a while",
        driver.alone,
        _UNSEEN,
        longer=_LONG,
        proxied=True,
        there=(
            blows.nodes_were_cut_off(driver.CUT_OFF_S),
            blows.way_to_api_stood_still(driver.CUT_OFF_S),
        ),
    ),
    OnKubernetes(
        37,
        "api-down",
        "the API server is down for two minutes",
        api_server.stopped,
        _UNSEEN,
        longer=_LONGEST,
        there=(blows.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-down-rank-killed",
        "a rank is killed while the API server is down",
        api_server.stopped_while(_kill),
        _IN_PLACE,
        longer=_LONGEST,
        there=(blows.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-down-node-lost",
        "a node is lost while the API server is down",
        api_server.stopped_while(node.lost),
        _LOST,
        longer=_LONGEST,
        there=(blows.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-compacted",
        "etcd is compacted and the API server started again: watches have to begin anew",
        api_server.compacted,
        _UNSEEN,
        longer=_LONGEST,  # an API server takes its time to start
        there=(blows.watches_began_anew,),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-bad-answers",
        "every second request of the driver is answered 429, 500, 502 or 409, and a node is lost",
        api_server.answering_badly_while(node.lost),
        _LOST,
        longer=_MIDDLE,
        proxied=True,
        there=(blows.answers_were_bad,),
    ),
    OnKubernetes(
        37,
        "api-slow",
        "every second answer to the driver comes late or never, and a node is lost",
        api_server.answering_slowly_while(node.lost),
        _LOST,
        longer=_LONG,
        proxied=True,
        there=(blows.answers_were_slow,),
    ),
    OnKubernetes(
        38,
        "never-scheduled",
        "no node has the devices that the job's pods ask for, until some have",
        supply.devices_come,
        _UNSEEN,
        first=supply.devices_are_out,
        spec={"pod": {"rdmaDevices": {supply.DEVICE: "1"}}},
        at_once=True,
    ),
    OnKubernetes(
        38,
        "image-missing",
        "the image of the job's pods does not exist, until somebody pushes it",
        supply.image_comes,
        _UNSEEN,
        spec={"pod": {"image": supply.IMAGE}},
        at_once=True,
    ),
    OnKubernetes(
        40,
        "standby-bad",
        "a node is lost, and the standby that should take its place is cut off",
        node.standby_bad,
        _TWICE,
        shape=Shape(others=1),
        there=(blows.others_carry_nothing,),
    ),
    OnKubernetes(
        40,
        "standby-fails-test",
        "a node that comes to stand by computes wrong",
        node.standby_fails_test,
        _STANDBY,
        longer=_LONG,
        shape=Shape(others=1),
        holds=(witnesses.ranks_went_on,),
    ),
    OnKubernetes(
        41,
        "rank-twice",
        "a rank is killed, and another while the job recovers",
        driver.followed(_kill, _kill),
        _TWICE,
    ),
    OnKubernetes(
        41,
        "node-after-rank",
        "a rank is killed, and a node is lost while the job recovers",
        driver.followed(_kill, node.lost),
        _TWICE,
        there=(blows.others_carry_nothing,),
    ),
    OnKubernetes(
        41,
        "driver-after-node",
        "a node is lost, and the driver is killed while the job recovers",
        driver.followed(node.lost, driver.killed),
        _LOST,
        there=(blows.driver_was_killed(),),
    ),
    OnKubernetes(
        43,
        "rack-lost",
        "a third of the nodes, all of a rack, is lost at once",
        node.rack_lost,
        _ONE_INCIDENT,
        shape=_RACKS,
    ),
    OnKubernetes(
        44,
        "node-returns",
        "a node is cut off in the middle of a save, given up, and comes back as it was",
        returning.returned,
        _LOST,
        longer=_MIDDLE,
        holds=(witnesses.dead_epochs_wrote_nothing, witnesses.left_over_was_refused),
    ),
    OnKubernetes(
        44,
        "ranks-return",
        "a node stands still until it is given up, and its ranks try to meet their peers again",
        returning.ranks_returned,
        _LOST,
        script="holdfast.lab.chaos.scripts.clinging",
        longer=_LONG,
        holds=(witnesses.dead_epochs_wrote_nothing, witnesses.left_overs_met_nobody),
    ),
    OnKubernetes(
        44,
        "messages-replayed",
        "messages come twice, and some late; a rank is killed meanwhile, and then a node is lost",
        repeated.while_repeated(_kill, node.lost),
        _EACH,
        longer=_MIDDLE,
        there=(witnesses.messages_were_repeated,),
        holds=(witnesses.dead_epochs_wrote_nothing,),
        relayed=True,
    ),
    OnKubernetes(
        50,
        "maintenance-notice",
        "there is notice that a node is to be free in a minute",
        people.maintained,
        _MOVED,
        longer=_MIDDLE,
        holds=(witnesses.nobody_trains_there,),
    ),
    OnKubernetes(
        50,
        "node-drained",
        "a person drains a node",
        people.drained,
        _MOVED,
        longer=_MIDDLE,
        holds=(witnesses.nobody_trains_there,),
    ),
)
