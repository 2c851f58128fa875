"""All rules about one decision. Called at each commit of the simulated driver."""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import State
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.rules import brakes, exams, incidents, jobs, nodes
from holdfast.lab.simulator.world import World


def check(world: World, before: State, event: e.AnyEvent, decision: Decision, now: float) -> None:
    """All rules about one decision."""
    after = decision.state
    jobs.numbers_only_grow(before, after)
    nodes.orders_are_newer(before, decision)
    for name in decision.jobs:
        old, new = before.jobs.get(name), after.jobs.get(name)
        jobs.finished_stays_finished(name, old, new)
        if new is not None:
            jobs.epochs_only_grow(old, new)
            jobs.ranks_have_good_nodes(after, new)
            jobs.no_suspect_is_seated(old, new, after)
            jobs.table_is_whole(new)
            jobs.the_newest_version_runs(new)
            jobs.budget_is_kept(new, now)
            jobs.who_came_first_starts_first(world, old, new, after)
            jobs.who_can_meet_is_seated(old, new, after, now)
            jobs.what_ends_is_saved(world, old, new)
    for job in after.jobs.values():
        jobs.suspend_ends(job, now - world.driver.stood_since(job.since_s))
    nodes.unfit_nodes_are_not_asked_for(before, decision, now)
    nodes.nodes_with_a_notice_are_not_asked_for(decision)
    if isinstance(event, e.AllocationFailed) and event.unfit:
        nodes.only_its_job_does_without_it(before, after, event.node)
    for name in decision.nodes:
        nodes.holder_and_held_agree(after, name)
        nodes.only_the_guilty_are_evicted(world, before, after, name)
        nodes.only_the_evicted_are_tried(after, name)
        nodes.trust_is_earned(world, event, before, after, name)
        exams.who_fails_again_waits_longer(world, event, before, after, name, now)
        nodes.only_standbys_test_themselves(after, name)
        exams.who_takes_part_is_known_to(after, name)
        exams.one_failure_convicts_nobody(before, after, event, name)
    nodes.a_standbys_test_costs_nothing(before, after, event)
    exams.who_answers_was_tested(world, before, after, event)
    brakes.brake_is_a_persons_to_release(before, after, event)
    if decision.nodes:
        brakes.brake_holds(world, before, after, decision, now)
    jobs.acknowledged_is_remembered(world, event, before, after)
    if isinstance(event, e.CheckpointStored):
        checkpoints.acknowledged(world, event)
    if decision.incident is not None:
        incidents.one_incident_a_cause(after)
        incidents.complainers_are_not_named(world, after, after.incidents.get(decision.incident))
