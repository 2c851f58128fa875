"""What has to hold of what others saw: each a function from `Seen` to what is wrong, in sentences.

`ALWAYS` holds of every scenario; a scenario names what else does. Those in `BY_AUDIT_LOG` can say
nothing where that log is not to be had, as on a cluster that a person gives. Pure.
"""

import re
from collections.abc import Callable, Sequence

from holdfast.checkpoint.layout import folder_name
from holdfast.driver.adapters.kubernetes import facts, names
from holdfast.driver.core.effects import Instruct
from holdfast.lab.chaos.kubernetes import effects, intentions
from holdfast.lab.chaos.kubernetes.seen import Object, Seen, at_s
from holdfast.lab.demo.writers import writers_of

REFUSED = re.compile(r"writing to the store has ended: a later attempt of the job has begun")

REFUSALS = {
    "its peers": re.compile(r"attempt \d+: peers refused: "),
    "the rendezvous of others": re.compile(
        r"attempt \d+: new rendezvous refused, nobody there meets us"
    ),
    "its own rendezvous": re.compile(r"attempt \d+: old rendezvous refused, nobody listens"),
}
"""By whom a rank that is left over has to be refused, and in which words it says so."""
MET = re.compile(r"attempt \d+: .*MET AGAIN")

Witness = Callable[[Seen], Sequence[str]]

BY_AUDIT_LOG: set[Witness] = set()
"""Those that can say nothing where the API server's audit log is not to be had."""


def by_audit_log(witness: Witness) -> Witness:
    """Marks one of them."""
    BY_AUDIT_LOG.add(witness)
    return witness


@by_audit_log
def nothing_was_forbidden(seen: Seen) -> list[str]:
    """By the audit log: the driver never asked for what its role does not allow.

    An API server that the scenario starts again knows no roles until it is ready, and forbids all.
    """
    asked = [each for each in seen.audited if effects.by_driver(each)]
    refused = [each for each in asked if effects.forbidden(each) and not _is_starting(seen, each)]
    return [f"the driver may not {what}" for what in sorted({*map(effects.did, refused)})]


@by_audit_log
def only_nodes_wrote_of_their_pods(seen: Seen) -> list[str]:
    """By the audit log: a pod's status is its node's to write, and the control plane's."""
    strangers = writers_of(seen.audited).strangers
    return [f"the status of pods was written by {user}" for user in strangers]


@by_audit_log
def each_call_once(seen: Seen) -> list[str]:
    """The journal joined with the audit log."""
    calls = effects.calls(seen.audited)
    return intentions.wrong(calls, seen.entries, settled=seen.settled, left=seen.pods)


def each_fork_once(seen: Seen) -> list[str]:
    """The journal joined with what executors wrote down."""
    return effects.wrong_forks(seen.forked, seen.entries)


def terms_follow_each_other(seen: Seen) -> list[str]:
    """In the journal: nothing of a term after the first of a later one."""
    journaled = [entry.term for entry in seen.entries]
    return [f"the journal has {late}" for late in effects.late_terms(journaled)]


@by_audit_log
def calls_of_terms_follow_each_other(seen: Seen) -> list[str]:
    """In the audit log likewise."""
    wrote = [effects.term_of(each) for each in seen.audited if effects.changed(each)]
    said = [term for term in wrote if term is not None]
    return [f"the API server did what {late} asked" for late in effects.late_terms(said)]


ALWAYS: tuple[Witness, ...] = (
    nothing_was_forbidden,
    only_nodes_wrote_of_their_pods,
    each_call_once,
    each_fork_once,
    terms_follow_each_other,
    calls_of_terms_follow_each_other,
)


def driver_lived(seen: Seen) -> list[str]:
    """Nothing that was done to the cluster ended the driver."""
    return [] if seen.driver_starts == 1 else [f"the driver was started {seen.driver_starts} times"]


def taint_stays(key: str) -> Witness:
    """The victim still has this taint, which is another's."""

    def holds(seen: Seen) -> list[str]:
        node = seen.nodes[seen.done.node or ""]
        there = any(taint["key"] == key for taint in facts.taints(node))
        return [] if there else [f"{seen.done.node} has lost the taint {key}"]

    return holds


def nobody_trains_there(seen: Seen) -> list[str]:
    """By what executors wrote down: no rank of the newest epoch is on the victim."""
    newest = max(fork.epoch for fork in seen.forked)
    there = [f for f in seen.forked if (f.epoch, f.node) == (newest, seen.done.node)]
    return [f"rank {fork.rank} was forked on {fork.node} again" for fork in there]


def ranks_went_on(seen: Seen) -> list[str]:
    """By what executors wrote down: no rank was forked but for the first epoch."""
    first = min(fork.epoch for fork in seen.forked)
    again = [fork for fork in seen.forked if fork.epoch != first]
    return [f"rank {fork.rank} was forked again, on {fork.node}" for fork in again]


def dead_epochs_wrote_nothing(seen: Seen) -> list[str]:
    """By the store: what an epoch began from is the newest whole checkpoint of those before it.

    One of an older epoch and a later step was written by who no longer had a say.
    """
    began = {
        effect.desired.epoch: effect.desired.restore.step
        for entry in seen.entries
        for effect in entry.effects
        if isinstance(effect, Instruct) and effect.desired.seats and effect.desired.restore
    }
    late = [
        f"{folder_name(step, epoch)} was committed after a later attempt had begun at {begun_at}"
        for step, epoch in seen.stored
        for newer, begun_at in began.items()
        if epoch < newer and step > begun_at
    ]
    return late if began else ["no attempt began from a checkpoint"]


def left_over_was_refused(seen: Seen) -> list[str]:
    """By its own log: it went on after a later epoch had begun, and the store said no to it.

    The sentence is `Upload`'s where it meets the fence, not of an agent that is told by its
    executor that it is not wanted any more.
    """
    printed = seen.printed.get(seen.done.node or "", ())
    refused = any(REFUSED.search(line) for line in printed)
    return [] if refused else [f"nothing on {seen.done.node} went on and met the fence"]


def left_overs_met_nobody(seen: Seen) -> list[str]:
    """By their own logs: ranks that were left over tried to meet others, and nobody had them."""
    missing = [
        f"no rank that was left over was refused by {whom}"
        for whom, words in REFUSALS.items()
        if not any(words.match(line) for line in seen.told)
    ]
    return missing + [f"a rank of a dead {line}" for line in seen.told if MET.match(line)]


def messages_were_repeated(seen: Seen) -> list[str]:
    """By whoever repeated them: both ways, at once and late, some of it of an epoch that was over.

    That no rank was forked for one of them `each_fork_once` says.
    """
    ways = {"to the driver": seen.repeated.to_driver, "to nodes": seen.repeated.to_nodes}
    kinds = {"again": "", "late": " late", "outdated": " late and of an older attempt"}
    return [
        f"no message {way} was repeated{how}"
        for way, count in ways.items()
        for kind, how in kinds.items()
        if getattr(count, kind) == 0
    ]


def nothing_is_left(seen: Seen) -> list[str]:
    """Neither the job nor a pod of it."""
    left = [str(pod["metadata"]["name"]) for pod in seen.pods]
    return [f"{name} is left" for name in left] + ["the job is left"] * bool(seen.job)


@by_audit_log
def was_not_ready(seen: Seen) -> list[str]:
    """By the audit log: the control plane had said of the victim that it is silent."""
    said = [each for each in seen.audited if _says_unknown(each, seen.done.node or "")]
    return [] if said else [f"{seen.done.node} was never NotReady"]


def marked(seen: Seen) -> list[str]:
    """Nodes that the driver put its taint on, at any time, by the audit log."""
    found = [
        each["objectRef"]["name"]
        for each in seen.audited
        if effects.by_driver(each)
        and each["objectRef"].get("resource") == "nodes"
        and effects.was_done(each)
        and is_marked(each.get("responseObject") or {})
    ]
    return sorted({*found})


def marked_now(seen: Seen) -> list[str]:
    """Those that have it still: all that can be seen without the audit log."""
    return sorted(name for name, node in seen.nodes.items() if is_marked(node))


def is_marked(node: Object) -> bool:
    """Whether a Node object has the taint of a distrusted one."""
    return any(taint["key"] == names.TAINT for taint in facts.taints(node))


def _is_starting(seen: Seen, event: Object) -> bool:
    """Whether the API server was asked before it said that it is ready."""
    asked_s = at_s(event["requestReceivedTimestamp"])
    return any(began_s <= asked_s <= ready_s for began_s, ready_s in seen.api_starts)


def _says_unknown(event: Object, node: str) -> bool:
    about = event.get("objectRef", {})
    written = (about.get("resource"), about.get("name")) == ("nodes", node)
    if not (written and effects.was_done(event)):
        return False
    conditions = (event.get("responseObject") or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "Unknown" for each in conditions)
