"""Facts that people tell: of a node, a link, or a version of a job. Pure.

Called by `decide`. A person's word is a fact among others: "it is bad" is one accuser, "nothing is
wrong with it" voids what was held against it, as if another machine had its name. Neither evicts a
node, nor ends what a person keeps out.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import JobFactTold, NodeFactTold
from holdfast.driver.core.state.fact import Bearing, Fact, OfLink, Subject
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.turn import Turn

BEARINGS = {"accuses": Bearing.ACCUSES, "clears": Bearing.ACQUITS, "context": Bearing.CONTEXT}

Told = JobFactTold | NodeFactTold


def on_node_fact(turn: Turn, event: NodeFactTold) -> None:
    node, other = turn.nodes.get(event.node), turn.nodes.get(event.to)
    if node is None or (event.to and other is None):
        return
    of = f"the link from {node.name} to {event.to}" if event.to else node.name
    turn.say(f"{event.who} {_says(event.says)} {of}: {_words(event)}")
    if other is not None:
        _of_link(turn, event, node, other)
        return
    if event.says == "clears":
        node = _clear(turn, node)
    _add(turn, event, node.subject)


def _of_link(turn: Turn, event: NodeFactTold, node: Node, other: Node) -> None:
    """A cable that was replaced is another one both ways; all else is of the way that is named."""
    turn.about[other.name] = None
    link = OfLink(source=node.subject, target=other.subject)
    if event.says == "clears":
        both = (link, OfLink(source=link.target, target=link.source))
        turn.put_facts(each for each in turn.facts if each.subject not in both or _stays(each))
    _add(turn, event, link)


def _stays(fact: Fact) -> bool:
    """What people said, but for what they accused it of."""
    return bool(fact.by) and fact.bearing is not Bearing.ACCUSES


def _clear(turn: Turn, node: Node) -> Node:
    """What is known of it from before is void; its tests are due. What people said stays."""
    kept = tuple(filter(_stays, node.record.facts))
    if kept != node.record.facts:
        turn.say(f"what was held against {node.name} counts no more")
    record = replace(node.record, facts=kept, cleared=node.record.cleared + 1)
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
    bearing = BEARINGS[event.says]
    turn.add_fact(Fact(subject=subject, what=event.words, bearing=bearing, by=event.who))


def _says(says: str) -> str:
    return "notes of" if says == "context" else says


def _words(event: Told) -> str:
    """As one reason."""
    return event.words.replace("; ", ", ")
