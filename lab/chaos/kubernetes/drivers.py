"""Faults of drivers: their lives, their lead, their clock, their ways (34 to 36). As `kubelets`."""

from holdfast.lab.chaos.injectors import clock, driver, leader, lease, node, people
from holdfast.lab.chaos.kubernetes import fault_witnesses, leading, rows, witnesses
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes
from holdfast.lab.chaos.scenario import Shape

OFTEN = 10
STRIKES = 3
"""Deaths on one node after which that is tested."""

DRIVERS: tuple[OnKubernetes, ...] = (
    OnKubernetes(
        35,
        "driver-killed",
        "the driver is killed while all is well",
        driver.killed,
        rows.UNSEEN,
        there=(fault_witnesses.driver_was_killed(),),
    ),
    *(
        OnKubernetes(
            35,
            f"driver-killed-{phase.lower()}",
            f"a rank is killed, then the driver while its job is {phase}",
            driver.killed_in(phase, rows.kill),
            rows.IN_PLACE,
            longer=rows.MIDDLE,
            there=(fault_witnesses.driver_was_killed(),),
        )
        for phase in ("Suspending", "Restoring", "Starting", "Running")
    ),
    OnKubernetes(
        35,
        "driver-killed-diagnosing",
        "a rank is killed three times, then the driver while its job is Diagnosing",
        driver.killed_in("Diagnosing", *[rows.kill_first] * STRIKES),
        rows.AGAIN,
        longer=rows.MIDDLE,
        there=(fault_witnesses.driver_was_killed(),),
    ),
    OnKubernetes(
        35,
        "driver-killed-replacing",
        "a node is lost, and the driver killed while its job waits for another (Replacing)",
        people.uncordoned_after(driver.killed_in("Replacing", node.lost)),
        rows.LOST,
        longer=rows.MIDDLE,
        shape=Shape(standbys=0, others=1),
        first=people.cordoned,
        there=(fault_witnesses.driver_was_killed(),),
    ),
    OnKubernetes(
        35,
        "driver-killed-often",
        "the driver is killed ten times at random moments, and a rank meanwhile",
        driver.killed_often(OFTEN),
        rows.IN_PLACE,
        longer=rows.LONG,
        there=(fault_witnesses.driver_was_killed(OFTEN),),
    ),
    OnKubernetes(
        35,
        "driver-stalled",
        "a rank is killed, and the driver is stopped for 5 to 45 s while the job recovers",
        driver.followed(rows.kill, driver.stalled),
        rows.IN_PLACE,
        longer=rows.LONG,
        there=(fault_witnesses.driver_stood_still(min(driver.STALLED_S)),),
    ),
    OnKubernetes(
        35,
        "leader-killed",
        "of two drivers the leader is killed for good, and a rank once the other leads",
        leader.killed_and(rows.kill),
        rows.IN_PLACE,
        longer=rows.LONG,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "leader-stopped",
        "of two drivers the leader is stopped, a rank killed once the other leads, and it wakes",
        leader.stopped_while(rows.kill),
        rows.IN_PLACE,
        longer=rows.LONG,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "leader-killed-recovering",
        "a rank is killed, and of two drivers the leader for good while its job is Restoring",
        driver.killed_in("Restoring", rows.kill, kill=leader.killed),
        rows.IN_PLACE,
        longer=rows.MIDDLE,
        holds=(leading.only_who_leads_is_up,),
        shared=True,
        two=True,
    ),
    OnKubernetes(
        35,
        "lease-stolen",
        "a stranger takes and renews the driver's Lease, and a rank is killed meanwhile",
        lease.stolen_while(rows.kill),
        rows.IN_PLACE,
        longer=rows.MIDDLE,
        there=(leading.theft_was_borne,),
        holds=(witnesses.driver_lived, leading.lease_is_back),
        shared=True,
    ),
    OnKubernetes(
        35,
        "lease-deleted",
        "somebody deletes the driver's Lease, and a rank is killed",
        lease.deleted_and(rows.kill),
        rows.IN_PLACE,
        longer=rows.MIDDLE,
        holds=(witnesses.driver_lived, leading.lease_is_back),
        shared=True,
        there=(leading.lease_was_deleted,),
    ),
    OnKubernetes(
        36,
        "driver-cut-off",
        "no node reaches the driver for a while",
        driver.cut_off,
        rows.UNSEEN,
        longer=rows.LONG,
        there=(fault_witnesses.nodes_were_cut_off(driver.CUT_OFF_S),),
    ),
    OnKubernetes(
        34,
        "clock-stepped",
        "the driver's wall clock is stepped by five minutes, and a node is lost",
        clock.stepped_and(node.lost),
        rows.LOST,
        driver=clock.DRIVER,
        there=(fault_witnesses.clock_was_stepped(clock.STEP_S),),
    ),
    OnKubernetes(
        36,
        "driver-alone",
        "the driver reaches neither the API server nor any node for a while",
        driver.alone,
        rows.UNSEEN,
        longer=rows.LONG,
        proxied=True,
        there=(
            fault_witnesses.nodes_were_cut_off(driver.CUT_OFF_S),
            fault_witnesses.way_to_api_stood_still(driver.CUT_OFF_S),
        ),
    ),
)
