"""Facts that people tell: of a node, or of a version of a job. Pure.

Called by `decide`. A person's word is a fact among others: "it is bad" is one accuser, "nothing is
wrong with it" voids what was held against it, as if another machine had its name. Neither evicts a
node, nor ends what a person keeps out.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import JobFactTold, NodeFactTold
from holdfast.driver.core.state.fact import Bearing, Fact, Subject
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.turn import Turn

BEARINGS = {"accuses": Bearing.ACCUSES, "clears": Bearing.ACQUITS, "context": Bearing.CONTEXT}

Told = JobFactTold | NodeFactTold


def on_node_fact(turn: Turn, event: NodeFactTold) -> None:
    node = turn.nodes.get(event.node)
    if node is None:
        return
    turn.say(f"{event.who} {_says(event.says)} {event.node}: {_words(event)}")
    if event.says == "clears":
        node = _clear(turn, node)
    _add(turn, event, node.subject)


def _clear(turn: Turn, node: Node) -> Node:
    """What is known of it from before is void; its tests are due. What people said stays."""
    if any(not fact.by or fact.bearing is Bearing.ACCUSES for fact in node.record.facts):
        turn.say(f"what was held against {node.name} counts no more")
    kept = (fact for fact in node.record.facts if fact.by and fact.bearing is not Bearing.ACCUSES)
    record = replace(node.record, facts=tuple(kept), cleared=node.record.cleared + 1)
    cleared = turn.set_record(node.name, record)
    if (out := node.quarantine) is None:
        return cleared
    if out.by_person:
        turn.say(f"a person keeps {node.name} out, and alone restores it")
    elif out.exam_s is not None:
        turn.say(f"the tests of {node.name} are due")
        cleared = turn.set_trust(node.name, replace(out, exam_s=turn.now))
    return cleared


def on_job_fact(turn: Turn, event: JobFactTold) -> None:
    job = turn.jobs.get(event.job)
    if job is None:
        return
    number = job.version.number if event.version is None else event.version
    subject = replace(job.subject, number=number)
    of = f"version {number} of {event.job}"
    turn.say(f"{event.who} {_says(event.says)} {of}: {_words(event)}", event.job)
    _add(turn, event, subject)


def _add(turn: Turn, event: Told, subject: Subject) -> None:
    turn.add_fact(
        Fact(
            subject=subject,
            what=event.words,
            bearing=BEARINGS[event.says],
            at_s=turn.now,
            by=event.who,
            entry=turn.sequence,
        )
    )


def _says(says: str) -> str:
    return "notes of" if says == "context" else says


def _words(event: Told) -> str:
    """As one reason."""
    return event.words.replace("; ", ", ")
