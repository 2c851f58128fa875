"""Which action has the least expected loss, given the chances of all hypotheses. Pure.

An action costs what it takes; where it does not cure what is really wrong, one more fault follows
and after that the best cure. So an action is judged as if all were known after it, which is enough
here: no action of these worlds tells more than the next fault does. (Exams mostly find nothing.)
"""

from collections.abc import Mapping

import msgspec

from holdfast.lab.simulator.cases.drawing import CAUSES
from holdfast.lab.simulator.cases.oracle.hypotheses import Hypothesis

RESTART_S = 5.0
FAULT_S = 20.0
"""What one more fault costs: until it is found, a restart, and steps done again."""
MANY = 5
"""Faults that follow instead of one where the job crawls: to put a cure off is dear then."""
INNOCENT_S = 60.0
"""What it is worth not to move a node that is well."""
OLD_CODE_S = 600.0
"""And not to run the version before where the newest is well."""
GIVEN_UP_S = 14_400.0
"""A job that could run stands until a person looks."""


class Action(msgspec.Struct, frozen=True):
    """`what`: restart, move, version, point, fail or wait; `node`: to move off."""

    what: str
    node: str | None = None


def best(
    chances: Mapping[Hypothesis, float], actions: Mapping[Action, float], *, crawls: bool = False
) -> Action:
    """The action of least expected loss. `actions`: those that can be taken, and seconds of each.
    `crawls`: attempts are short, whatever the cause is like elsewhere.
    """

    def expected_s(action: Action) -> float:
        losses = (
            chance * _loss_s(action, each, actions, crawls) for each, chance in chances.items()
        )
        return sum(losses)

    return min(actions, key=expected_s)


def _loss_s(
    action: Action, hypothesis: Hypothesis, actions: Mapping[Action, float], crawls: bool
) -> float:
    blocks = crawls or CAUSES[hypothesis.case].blocks
    fault_s = FAULT_S * (MANY if crawls else 1)
    cost_s = actions[action] + _harm_s(action, hypothesis, actions, blocks)
    if cures(action, hypothesis) or action.what == "fail":
        return cost_s
    ways = [actions[each] for each in actions if cures(each, hypothesis)]
    if ways:
        return cost_s + fault_s + min(ways)
    return cost_s + (2 * fault_s if blocks else 0.0)


def cures(action: Action, hypothesis: Hypothesis) -> bool:
    """Whether nothing more comes of it after the action."""
    case = hypothesis.case
    match action.what:
        case "move":
            return action.node in hypothesis.who
        case "version":
            return case == "bad-version"
        case "point":
            return case in ("poisoned-point", "poisoned-step")
        case "fail":
            return CAUSES[case].hopeless
        case _:
            return case in ("passing", "user-once", "evaluation", "silence")


def _harm_s(
    action: Action, hypothesis: Hypothesis, actions: Mapping[Action, float], blocks: bool
) -> float:
    case = hypothesis.case
    if action.what == "move":
        return 0.0 if action.node in hypothesis.who else INNOCENT_S
    if action.what == "version":
        return 0.0 if case == "bad-version" else OLD_CODE_S
    if action.what != "fail" or CAUSES[case].hopeless:
        return 0.0
    stuck = blocks and not any(cures(each, hypothesis) for each in actions)
    return FAULT_S if stuck else GIVEN_UP_S


def called(chances: Mapping[Hypothesis, float]) -> str:
    """The cause that is the likeliest, in the word of `naming`."""
    words: dict[str, float] = {}
    for hypothesis, chance in chances.items():
        names = CAUSES[hypothesis.case].names
        word = "passing" if "passing" in names else min(names)
        words[word] = words.get(word, 0.0) + chance
    return max(words, key=lambda word: words[word])
