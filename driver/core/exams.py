"""Exams: nodes are tested, by orders that say which runs what with whom, and answer once each.

One machine for all who want to know of nodes: a job's diagnosis, an evicted node's requalification,
a standby's self-test. Pure. It begins exams, files what comes in and says when one is over; what
an exam means, and what follows, is its caller's: `exam_callers` tells them.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.state.model import Exam, Purpose
from holdfast.driver.core.turn import Turn


def begin(turn: Turn, exam: Exam) -> None:
    """Order the tests: each of its nodes takes part in this exam now, and in no other."""
    for node in exam.orders:
        leave(turn, node)
        turn.set_exam(node, exam.id)
    turn.put_exam(exam)


def file(turn: Turn, event: DiagnosticEnded) -> Exam | None:
    """Note what a node found; None where that is of no exam that it takes part in, or known."""
    node = turn.nodes.get(event.node)
    exam = turn.exams.get(event.id)
    if node is None or exam is None or node.exam != exam.id or node.name in exam.results:
        return None
    return turn.put_exam(replace(exam, results={**exam.results, node.name: event.results}))


def complete(turn: Turn, exam: Exam) -> bool:
    """Whether each node that still takes part has answered."""
    return all(node in exam.results or not _takes_part(turn, exam, node) for node in exam.orders)


def _takes_part(turn: Turn, exam: Exam, node: str) -> bool:
    return node in turn.nodes and turn.nodes[node].exam == exam.id


def leave(turn: Turn, node: str, *, but: Purpose | None = None) -> None:
    """The node takes part no longer, in whatever exam it is, `but` in one for that. An exam that
    has lost all whom it is about is dropped, or over at once where a person is to be told so."""
    exam = turn.exams.get(turn.nodes[node].exam or "")
    if exam is None or exam.purpose is but:
        return
    turn.set_exam(node, None)
    if any(_takes_part(turn, exam, suspect) for suspect in exam.suspects):
        return
    if exam.asked is None:
        drop(turn, exam.id)
    else:
        later(turn, exam, turn.now)


def later(turn: Turn, exam: Exam, until_s: float) -> None:
    """Wait for it until then."""
    turn.put_exam(replace(exam, until_s=until_s))
    for node in exam.orders:  # whose deadline it is, too
        if _takes_part(turn, exam, node):
            turn.put_node(turn.nodes[node])


def drop(turn: Turn, number: str | None) -> None:
    """The exam is over, or nobody wants to know any more."""
    if number is None or number not in turn.exams:
        return
    exam = turn.exams[number]
    turn.drop_exam(number)
    for node in exam.orders:
        if _takes_part(turn, exam, node):
            turn.set_exam(node, None)
