"""That a fault was there, by what others saw of it. Witnesses as in `witnesses`.

Named by scenarios whose score does not say it: nothing is to be found, or what is found is another
fault that comes besides. One that did not take effect has shown nothing, and fails. Pure.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import inf

from holdfast.driver.core.events import ExecutorConnected, ExecutorDisconnected, Stalled
from holdfast.lab.chaos.kubernetes import effects
from holdfast.lab.chaos.kubernetes.seen import Object, Seen, at_s
from holdfast.lab.chaos.kubernetes.witnesses import Witness, by_audit_log
from holdfast.lab.emulator.kubelet.joined import WATCHER

LED_NOWHERE = re.compile(r"did not receive a valid HTTP response.*no driver")
"""What an executor says whose connection is taken and ended at once: nobody is behind it."""
FORGOTTEN = re.compile(r'"path": "([^"]+)".*\(410\).*cannot see')
"""What a driver says of a collection that it has to list anew, and why."""
FOLLOWED = ("nodes", "pods", "trainingjobs")
"""Collections that a driver watches."""
NEARLY = 0.8
"""Of how long a fault lasts: who notices late, or what comes back first, takes some of it."""


def driver_was_killed(times: int = 1) -> Witness:
    """By who starts it: it had to, so many times more than once."""

    def holds(seen: Seen) -> list[str]:
        again = seen.driver_starts - 1
        return (
            [] if again >= times else [f"the driver was started again {again} times, not {times}"]
        )

    return holds


def driver_stood_still(for_s: float) -> Witness:
    """By its journal: it was told so before all that waited in its sockets, for its job recovered
    and something was waited for.
    """

    def holds(seen: Seen) -> list[str]:
        stood = [each.event.stood_s for each in seen.entries if isinstance(each.event, Stalled)]
        longest_s = max(stood, default=0.0)
        enough = longest_s >= for_s * NEARLY
        return [] if enough else [f"the driver stood still for {longest_s:.1f} s, not {for_s:g}"]

    return holds


@by_audit_log
def kubelet_began_anew(seen: Seen) -> list[str]:
    """By the audit log: what watches pods for all nodes listed them once more."""
    lists = [
        each
        for each in seen.audited
        if each["user"].get("username") == WATCHER and effects.did(each) == "list pods"
    ]
    return [] if len(lists) > 1 else ["the kubelet of all nodes never began anew"]


def nodes_were_cut_off(for_s: float) -> Witness:
    """By executors, each of which was led nowhere, and by how long the driver was without each."""

    def holds(seen: Seen) -> list[str]:
        found = []
        for node in sorted({fork.node for fork in seen.forked}):
            if not any(LED_NOWHERE.search(line) for line in seen.printed.get(node, ())):
                found.append(f"{node} was never led nowhere on its way to the driver")
            if (away_s := _away_s(seen, node)) < for_s * NEARLY:
                found.append(f"the driver was without {node} for {away_s:.1f} s, not {for_s:g}")
        return found or ([] if seen.forked else ["there was no executor to be cut off"])

    return holds


def way_to_api_stood_still(for_s: float) -> Witness:
    """By the proxy that is the driver's only way to the API server."""

    def holds(seen: Seen) -> list[str]:
        still_s = seen.answered.longest_pause_s
        enough = still_s >= for_s * NEARLY
        return [] if enough else [f"the way to the API server stood still for {still_s:.1f} s only"]

    return holds


def api_server_was_away(for_s: float) -> Witness:
    """By its audit log, in which every node writes every second."""

    @by_audit_log
    def holds(seen: Seen) -> list[str]:
        written_s = sorted(at_s(each["stageTimestamp"]) for each in seen.audited)
        silent_s = max((after - before for before, after in pairwise(written_s)), default=0.0)
        return [] if silent_s >= for_s else [f"the API server was away for {silent_s:.1f} s only"]

    return holds


@by_audit_log
def watches_began_anew(seen: Seen) -> list[str]:
    """By the driver's log, why: what it went on from was forgotten (410). By the audit log, that it
    listed each collection again.
    """
    told = {found[1] for line in seen.driver_said if (found := FORGOTTEN.search(line))}
    began_s = max((began_s for began_s, _ in seen.api_starts), default=inf)
    again = _listed_after(seen.audited, began_s)
    return [
        *(f"no watch of {what} was answered 410" for what in FOLLOWED if not _names(told, what)),
        *(f"{what} were not listed anew" for what in FOLLOWED if what not in again),
    ]


def answers_were_bad(seen: Seen) -> list[str]:
    """By the proxy that gave them."""
    return [] if seen.answered.bad else ["the driver was given no bad answer"]


def answers_were_slow(seen: Seen) -> list[str]:
    """By the proxy that kept them back."""
    slow = seen.answered.late + seen.answered.never
    return [] if slow else ["no answer to the driver came late or never"]


def clock_was_stepped(by_s: float) -> Witness:
    """By the driver's journal, in which each entry has both of its clocks."""

    def holds(seen: Seen) -> list[str]:
        off_s = [at_s(entry.at) - entry.now for entry in seen.entries]
        step_s = max((abs(after - before) for before, after in pairwise(off_s)), default=0.0)
        return (
            [] if step_s >= by_s * NEARLY else [f"the driver's clock was {step_s:.1f} s off only"]
        )

    return holds


def others_carry_nothing(seen: Seen) -> list[str]:
    """By what executors wrote down: no rank of the newest epoch is on a node that was hurt, too."""
    newest = max((fork.epoch for fork in seen.forked), default=0)
    there = {fork.node for fork in seen.forked if fork.epoch == newest} & {*seen.done.also}
    none = [] if seen.done.also else ["no other node was hurt"]
    return none + [f"{node} was hurt, and carries ranks to the end" for node in sorted(there)]


def _away_s(seen: Seen, node: str) -> float:
    """The longest that the driver was without the node's executor, by its journal."""
    longest_s, lost_s = 0.0, None
    for entry in seen.entries:
        match entry.event:
            case ExecutorDisconnected(node=which) if which == node:
                lost_s = entry.now
            case ExecutorConnected(node=which) if which == node and lost_s is not None:
                longest_s, lost_s = max(longest_s, entry.now - lost_s), None
            case _:
                pass
    return longest_s


def _listed_after(audited: Sequence[Object], began_s: float) -> set[str]:
    """Collections that the driver listed once the API server was started again."""
    return {
        each["objectRef"]["resource"]
        for each in audited
        if effects.by_driver(each)
        and each["verb"] == "list"
        and effects.was_done(each)
        and at_s(each["stageTimestamp"]) >= began_s
    }


def _names(paths: Collection[str], what: str) -> bool:
    return any(path.rpartition("/")[2] == what for path in paths)
