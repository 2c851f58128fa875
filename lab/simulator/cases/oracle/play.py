"""Plays a case by the oracle, in a loop of its own: an attempt, a fault, an action, the next one.

Called by the tests and by `holdfast bench evidence`.
"""

from holdfast.lab.simulator.cases.books import CaseBooks, Life
from holdfast.lab.simulator.cases.causes_code import CUDA_ERROR
from holdfast.lab.simulator.cases.drawing import CAUSES, Case, draw
from holdfast.lab.simulator.cases.oracle.choice import RESTART_S, Action, best, called, cures
from holdfast.lab.simulator.cases.oracle.hypotheses import Belief, Hypothesis
from holdfast.lab.simulator.cases.oracle.observed import Observed
from holdfast.lab.simulator.cases.trouble import PASSES, SETTLED_S, STEP_S, Attempt, Manner, Trouble

WARM_S, COLD_S = 2.0, 100.0
"""A move more than a restart: to save the last step; and until an executor is there."""
FOUND_S = {Manner.HANG: 15.0, Manner.EXIT_ZERO: 7.5, Manner.LOST: 3.0}
"""Until the detectors tell."""
UNMOVED = 0.01
"""A fault after which no chance differs by more has told nothing."""
SHORT, SHORT_S = 10, 60.0
"""So many attempts, on average shorter than that: the job crawls."""


class OraclePlay:
    """One life. `clocked`: it is told how often each cause strikes, which nobody observes."""

    def __init__(self, case: Case, *, clocked: bool = False) -> None:
        self.clocked = clocked
        self.case, self.cause = case, case.cause
        self.books = CaseBooks(case, self.cause)
        names = list(case.all_nodes)
        self.nodes, rest = names[: case.nodes], names[case.nodes :]
        self.warm, self.free = rest[: case.standbys], rest[case.standbys :]
        self.now = 0.0
        self.version = self.cause.versions
        self.start = 0
        self.points: list[int] = []  # in the store
        self.memory: int | None = None
        self.belief = Belief()
        self._chances: dict[Hypothesis, float] = {}  # at the fault before

    def life(self) -> Life:
        """Play it to its end."""
        ended = self._earlier()
        while not ended and self.now < self.cause.lasts_s:
            ended = self._attempt()
        named = called(self._looking_back(ended)) if self.books.faults else ""
        return self.books.close(
            failed=ended == "failed", cured=ended == "cured", named=named, now=self.now
        )

    def _looking_back(self, ended: str) -> dict[Hypothesis, float]:
        """What is likely, given also that nothing came any more."""
        chances = self.belief.posterior()
        quiet = {each: chance for each, chance in chances.items() if self._is_quiet(each)}
        return quiet if ended == "cured" and quiet else chances

    def _is_quiet(self, hypothesis: Hypothesis) -> bool:
        """Whether no more would come of it as things are."""
        if hypothesis.who:
            return not set(hypothesis.who) <= set(self.nodes)
        if hypothesis.case == "bad-version":
            return self.version < self.cause.versions
        if cures(Action("point"), hypothesis):
            return any(seen.at_start for seen in self.belief.history)
        return not CAUSES[hypothesis.case].hopeless

    def _earlier(self) -> str:
        """What an earlier version did is known to be well."""
        if self.version > 1:
            self._begins()
            self._train(600)
            self.books.rests(self.now)
            self._choose_start(self.memory)
        return ""

    def _begins(self) -> None:
        self.now += 0.0 if self.books.began_s is None else RESTART_S
        self.books.begins(tuple(self.nodes), self.start, self.now)

    def _train(self, steps: int) -> None:
        """So many steps from where it stands, with what is saved of them."""
        step = self.start + steps
        self.now += steps * STEP_S
        every, held = self.case.store_every, self.case.memory_every
        self.points = [point for point in self.points if point <= self.start]
        self.points += range((self.start // every + 1) * every, step + 1, every)
        newest = step // held * held
        self.memory = newest if newest > self.start else self.memory
        self.books.reached(step, self.now)

    def _attempt(self) -> str:
        """One attempt; how the life ended by it, "" where it goes on."""
        self._begins()
        attempt = Attempt(nodes=tuple(self.nodes), start=self.start, version=self.version)
        step = self.start
        while (trouble := self.cause.next(attempt, step)) is not None:
            self.cause.struck(trouble)
            self.books.faults += 1
            gap_s = step - self.start + trouble.after_s
            self._observe(trouble, attempt, gap_s)
            if trouble.manner not in PASSES:
                self._train(int(gap_s / STEP_S))
                return self._act(trouble)
            step += self._passes(trouble)
        self._train(int(step - self.start + SETTLED_S))
        return "cured"

    def _passes(self, trouble: Trouble) -> int:
        """It ends by itself: steps that are done by then."""
        if trouble.manner is Manner.PAUSE:
            self.now += trouble.lasts_s
            self.books.paused_s += trouble.lasts_s
            return int(trouble.after_s) + 1
        return int(trouble.after_s + trouble.lasts_s)

    def _observe(self, trouble: Trouble, attempt: Attempt, gap_s: float) -> None:
        node = trouble.node
        seen = Observed(
            manner=trouble.manner,
            node=node,
            place=attempt.nodes.index(node) if node is not None else None,
            nodes=attempt.nodes,
            step=self.start if trouble.at_start else self.start + int(gap_s / STEP_S),
            gap_s=gap_s,
            at_start=trouble.at_start,
            device=trouble.words == CUDA_ERROR,
            version=attempt.version,
            clocked=self.clocked,
        )
        self.belief.observe(seen)

    # ------------------------------------------------------------ acting

    def _act(self, trouble: Trouble) -> str:
        self.now += FOUND_S.get(trouble.manner, 0.1)
        action = best(self.belief.posterior(), self._actions(trouble), crawls=self._crawls())
        aim = self.memory
        match action.what:
            case "fail":
                return "failed"
            case "move":
                self._move(action.node or "")
                aim = None if trouble.manner is Manner.LOST else aim
            case "version":
                self.version -= 1
            case "point":
                self.memory, aim = None, None
                self.points = self.points[: self._older()]
            case _:
                self.now += trouble.lasts_s  # until its node is back
        self._choose_start(aim)
        return ""

    def _crawls(self) -> bool:
        """Whether its last attempts have been short."""
        lately = [seen.gap_s for seen in self.belief.history[-SHORT:]]
        return len(lately) == SHORT and sum(lately) < SHORT * SHORT_S

    def _choose_start(self, memory: int | None) -> None:
        """The newest that there is."""
        self.start = max(memory or 0, max(self.points, default=0))
        self.memory = self.start if memory == self.start else None

    def _actions(self, trouble: Trouble) -> dict[Action, float]:
        """What can be done now, and the seconds of each."""
        wait_s = trouble.lasts_s if trouble.manner is Manner.LOST else 0.0
        can = {Action("fail"): 0.0}
        if not self._tells_nothing():
            can[Action("restart")] = RESTART_S + wait_s
        if self.warm or self.free:
            move_s = RESTART_S + (WARM_S if self.warm else COLD_S)
            named = self.belief.named.keys() & {*self.nodes}
            can |= {Action("move", node): move_s for node in sorted(named)}
        if self.version > 1:
            can[Action("version")] = RESTART_S
        if self._older() < len(self.points) or self.memory is not None:
            back = self.points[self._older() - 1] if self._older() else 0
            can[Action("point")] = RESTART_S + (self.books.best - back) * STEP_S
        return can

    def _tells_nothing(self) -> bool:
        """Whether a restart would only show what the last one did, which left two causes as likely
        as before: `best` takes all to be known after it."""
        last = [(seen.node, seen.step, seen.manner) for seen in self.belief.history[-2:]]
        before, self._chances = self._chances, self.belief.posterior()
        moved = (abs(before.get(each, 0.0) - chance) for each, chance in self._chances.items())
        again = len(last) == 2 and last[0] == last[1] and not self.belief.history[-1].at_start
        return again and max(moved) < UNMOVED

    def _older(self) -> int:
        """How many points are older than where the last attempt began."""
        return sum(point < self.start for point in self.points)

    def _move(self, node: str) -> None:
        warm = bool(self.warm)
        other = self.warm.pop(0) if warm else self.free.pop(0)
        self.now += WARM_S if warm else COLD_S
        self.nodes[self.nodes.index(node)] = other
        if warm and self.free:
            self.warm.append(self.free.pop(0))


def play(name: str, seed: int) -> Life:
    """A seed of a case, by the oracle that sees what a driver sees."""
    return OraclePlay(draw(name, seed)).life()


def play_clocked(name: str, seed: int) -> Life:
    """The same by one that knows besides how often each cause strikes: no driver can be as good."""
    return OraclePlay(draw(name, seed), clocked=True).life()
