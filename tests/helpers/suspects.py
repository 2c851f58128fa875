"""Nodes that are suspected and tested, in a life of the core."""

from holdfast.driver.core import events as e
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult

STORING = e.Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)


def hang(life, node: str) -> None:
    """It has lasted; its stacks are not to be had, and all that ran has ended since."""
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node=node, rank=2, epoch=life.job.epoch,
        summary="rank 2 hangs", evidence=(Evidence(source="detector", text="rank 2 hangs"),),
        step=7,
    )  # fmt: skip
    life.do(e.Found(finding=finding))
    life.wait()
    life.answer()


def settle(life) -> None:
    """The cluster does at once what it was asked for."""
    for name, node in life.state.nodes.items():
        if node.releasing:
            life.do(e.NodeReleased(node=name))
    life.tick()


def results(exam, member: str, *, bad: tuple[str, ...] = ()) -> tuple[DiagnosticResult, ...]:
    """What the node tells of its tests: those failed in which one of `bad` took part."""
    return tuple(
        DiagnosticResult(
            id=each.id, test=each.test, node=member, round=each.round, members=each.members,
            ok=not set(bad) & set(each.members or (member,)), value=50.0,
        )
        for each in exam.orders[member]
    )  # fmt: skip


def ends(life, node: str, *, bad: tuple[str, ...] = ()) -> None:
    """Its tests are over: those failed in which one of `bad` took part."""
    exam = life.state.exams[life.state.nodes[node].exam]
    for member in exam.orders:
        told = results(exam, member, bad=bad)
        life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
