"""What can be done about a fault, and what that costs. Pure."""

from enum import StrEnum


class Act(StrEnum):
    """One way to act on a hypothesis."""

    WAIT = "wait"
    RESTART = "restart the ranks on the same nodes"
    MOVE_WARM = "give its place to a warm standby"
    EXAM = "test the node and its neighbours"
    MOVE_COLD = "try its place on another node"
    REPLACE = "replace the node"
    STEP_BACK = "start from an older restore point"
    VERSION_BEFORE = "run the version before"
    EXAM_ALL = "test every node of the job"
    GIVE_UP = "give the job up"

    @property
    def default_s(self) -> float:
        """What it costs in seconds while it was not measured."""
        return _DEFAULT_S[self]


_DEFAULT_S = {
    Act.WAIT: 0.0,
    Act.RESTART: 5.0,
    Act.MOVE_WARM: 15.0,
    Act.EXAM: 20.0,
    Act.MOVE_COLD: 135.0,
    Act.REPLACE: 15.0,
    Act.STEP_BACK: 300.0,
    Act.VERSION_BEFORE: 60.0,
    Act.EXAM_ALL: 40.0,
    Act.GIVE_UP: 0.0,
}
"""From the prototype behind second-pass.md; a job's own medians take their place. They say how to
act on one hypothesis, never which."""
