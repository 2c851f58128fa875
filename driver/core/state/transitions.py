"""THE table of a job's phases: every way from one to another, and when it happens in the world.

Checked by `Turn.move`, drawn by `lab.lifecycle`. Must hold no condition: when a way is taken is
decided elsewhere, whether it exists is decided here.
"""

from holdfast.driver.core.state.model import Job, Phase

P = Phase


class IllegalTransition(Exception):
    """A machine wanted a way that does not exist: a defect of ours. The message has the story."""

    def __init__(self, job: Job, to: Phase, story: str) -> None:
        super().__init__(f"job {job.name}: {job.phase} -> {to} is not in the table.\n{story}")
        self.job = job.name


TRANSITIONS: dict[tuple[Phase, Phase], str] = {
    # ------------------------------------------------------------ getting nodes
    (P.PENDING, P.ALLOCATING): "enough free nodes are there",
    (P.PENDING, P.SUSPENDED): "a person suspends it before it had nodes",
    (P.PENDING, P.STOPPED): "a person stops it before it had nodes",
    (P.PENDING, P.FAILED): "its deadline passes before it had nodes",
    (P.ALLOCATING, P.STARTING): "every executor is connected",
    (P.ALLOCATING, P.PENDING): "a node went away and no other is free: it gives all of them back",
    (P.ALLOCATING, P.SUSPENDED): "a person suspends it before a rank ran",
    (P.ALLOCATING, P.STOPPED): "a person stops it before a rank ran",
    (P.ALLOCATING, P.FAILED): "its deadline passes while executors start",
    # ------------------------------------------------------------ the first start
    (P.STARTING, P.RUNNING): "every rank runs",
    (P.STARTING, P.SUSPENDING): "a rank dies or a node fails as it starts, or a person ends it",
    (P.STARTING, P.REPLACING): "a node is lost before its ranks were started",
    (P.STARTING, P.FAILED): "its budget is spent or its deadline passes as it starts",
    (P.STARTING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ training
    (P.RUNNING, P.SUSPENDING): "a fault, a person suspends or stops it, or it is over and saves",
    (P.RUNNING, P.SUCCEEDED): "every rank ended with exit code 0",
    (P.RUNNING, P.FAILED): "a fault was found and the budget is spent, or its deadline passes",
    (P.RUNNING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ ranks are being ended
    (P.SUSPENDING, P.DIAGNOSING): "no earlier rank is left and there are suspects to be tested",
    (P.SUSPENDING, P.REPLACING): "no earlier rank is left and a node is missing or on its way",
    (P.SUSPENDING, P.RESTORING): "no earlier rank is left and every place has its node",
    (P.SUSPENDING, P.SUSPENDED): "no earlier rank is left and a person wants it suspended",
    (P.SUSPENDING, P.STOPPED): "no earlier rank is left and a person wants it stopped",
    (P.SUSPENDING, P.SUCCEEDED): "every rank ended with exit code 0, and its last step is saved",
    (P.SUSPENDING, P.FAILED): "it is given up, and its last step is saved, or its deadline passes",
    # ------------------------------------------------------------ finding the bad node
    (P.DIAGNOSING, P.REPLACING): "the tests named a node, or one was lost meanwhile",
    (P.DIAGNOSING, P.RESTORING): "the tests found every node good",
    (P.DIAGNOSING, P.SUSPENDING): "a node is to be left, the next fault comes, or a person ends it",
    (P.DIAGNOSING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.DIAGNOSING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ getting another node
    (P.REPLACING, P.RESTORING): "every place has its node again, and no earlier rank is left",
    (P.REPLACING, P.SUSPENDING): "the next fault comes, or a person ends it",
    (P.REPLACING, P.PENDING): "no node came for long and others wait: it gives its nodes back",
    (P.REPLACING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.REPLACING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ coming back
    (P.RESTORING, P.RUNNING): "every rank runs, from the step that all agreed on",
    (P.RESTORING, P.SUSPENDING): "the next fault comes, or a person ends it",
    (P.RESTORING, P.REPLACING): "a node is lost before its ranks were started",
    (P.RESTORING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.RESTORING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ set aside
    (P.SUSPENDED, P.PENDING): "a person resumes it",
    (P.SUSPENDED, P.STOPPED): "a person stops it",
    (P.SUSPENDED, P.FAILED): "its deadline passes while it is suspended",
}


def check(job: Job, to: Phase, story: str) -> None:
    """Raise `IllegalTransition` unless the job may go to `to`."""
    if (job.phase, to) not in TRANSITIONS:
        raise IllegalTransition(job, to, story)
