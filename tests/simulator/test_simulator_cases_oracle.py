"""The oracle: it finds what there is to find, and is no part of the core."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.lab.simulator.cases import oracle
from holdfast.lab.simulator.cases.drawing import CAUSES
from holdfast.lab.simulator.cases.oracle.choice import Action, best, called, cures
from holdfast.lab.simulator.cases.oracle.hypotheses import Belief, Hypothesis
from holdfast.lab.simulator.cases.oracle.observed import Observed
from holdfast.lab.simulator.cases.oracle.play import play, play_clocked
from holdfast.lab.simulator.cases.trouble import Manner

NODES = ("n0", "n1", "n2", "n3")
SEEDS = range(60)


def _seen(manner: Manner, node: str | None, gap_s: float, step: int, **more: object) -> Observed:
    usual: dict[str, object] = {"at_start": False, "device": False, "version": 1}
    place = NODES.index(node) if node is not None else None
    known: dict[str, object] = {**usual, **more}
    return Observed(
        manner=manner,
        node=node,
        place=place,
        nodes=NODES,
        step=step,
        gap_s=gap_s,
        **known,  # type: ignore[arg-type]
    )


def _believed(*seen: Observed) -> dict[Hypothesis, float]:
    belief = Belief()
    for each in seen:
        belief.observe(each)
    chances = belief.posterior()
    assert sum(chances.values()) == pytest.approx(1.0)
    return chances


def test_two_deaths_of_one_node_an_hour_apart_are_a_lemon() -> None:
    seen = (_seen(Manner.SIGNAL, "n1", 3_600.0, 3_600 * k, clocked=True) for k in (1, 2))
    chances = _believed(*seen)
    assert chances[Hypothesis("lemon-hourly", ("n1",))] > 0.9


def test_deaths_each_five_minutes_of_any_node_are_the_code_s() -> None:
    seen = (_seen(Manner.SIGNAL, node, 300.0, 300 * k) for k, node in enumerate(NODES))
    assert _believed(*seen)[Hypothesis("crashing-code")] > 0.9


def test_hangs_that_name_two_nodes_in_turn_are_their_link() -> None:
    named = ("n0", "n2", None, "n0", "n2", "n2", "n0", None)
    seen = (_seen(Manner.HANG, node, 200.0, 200 * k) for k, node in enumerate(named))
    assert _believed(*seen)[Hypothesis("bad-link", ("n0", "n2"))] > 0.9


def test_hangs_that_name_any_node_are_the_code_s() -> None:
    seen = (_seen(Manner.HANG, node, 300.0, 300 * k) for k, node in enumerate(NODES))
    assert _believed(*seen)[Hypothesis("hanging-code")] > 0.9


def test_the_same_exception_at_the_same_step_is_the_user_s_and_at_another_the_node_s() -> None:
    first = _seen(Manner.EXCEPTION, "n1", 500.0, 500)
    assert called(_believed(first, _seen(Manner.EXCEPTION, "n1", 0.0, 500))) == "user"
    assert called(_believed(first, _seen(Manner.EXCEPTION, "n1", 900.0, 1_400))) == "node"


def test_the_cheapest_cure_of_what_is_likely_is_chosen_and_nobody_is_given_up_for_little() -> None:
    lemon, user = Hypothesis("lemon", ("n1",)), Hypothesis("user-always")
    can = {Action("restart"): 5.0, Action("move", "n1"): 15.0, Action("fail"): 0.0}
    assert best({lemon: 1.0}, can) == Action("move", "n1")
    assert best({lemon: 0.02, Hypothesis("passing"): 0.98}, can) == Action("restart")
    assert best({user: 0.9, lemon: 0.1}, can) != Action("fail")
    assert best({user: 0.9999, lemon: 0.0001}, can) == Action("fail")


def test_each_case_but_that_which_ends_by_itself_has_a_cure_of_its_own() -> None:
    can = [Action(what) for what in ("restart", "version", "point", "fail", "wait")]
    cured = {
        case
        for case in CAUSES
        for action in (*can, Action("move", "n1"))
        if cures(action, Hypothesis(case, ("n1",) if CAUSES[case].places else ()))
    }
    assert set(CAUSES) - cured == {"crashing-code", "hanging-code"}


def test_who_does_not_know_the_rhythm_waits_for_a_second_death_of_a_lemon() -> None:
    lives = [(play_clocked("lemon", seed), play("lemon", seed)) for seed in SEEDS]
    moved = [(one, other) for one, other in lives if one.moves and other.moves]
    assert len(moved) > 40
    assert sum(one.faults == 1 for one, _ in moved) > 0.9 * len(moved)
    assert sum(other.faults > 1 for _, other in moved) > 0.9 * len(moved)


ALIKE = {"lemon-at-step", "hanging-node", "bad-link", "passing"}
"""Causes that are often gone, or cannot be left, before they can be told from another one."""


@pytest.mark.parametrize("name", CAUSES)
def test_it_reaches_and_names_nearly_all_that_can_be(name: str) -> None:
    lives = [play(name, seed) for seed in SEEDS]
    assert sum(life.right for life in lives) >= 0.95 * len(lives)
    assert sum(life.named_right for life in lives) >= (0.6 if name in ALIKE else 0.9) * len(lives)
    assert sum(life.innocent_quarantined for life in lives) == 0


def _always(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever plays takes this action whenever it can, else it restarts."""

    def chosen(chances: object, actions: Mapping[Action, float], **more: object) -> Action:
        return next((each for each in actions if each.what == what), Action("restart"))

    monkeypatch.setattr("holdfast.lab.simulator.cases.oracle.play.best", chosen)


def test_who_moves_at_each_fault_is_seen_to_move_the_innocent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _always("move", monkeypatch)
    lives = [play("passing", seed) for seed in SEEDS]
    assert sum(life.innocent_moves for life in lives) > 0.5 * len(lives)


def test_who_only_restarts_is_seen_to_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    _always("restart", monkeypatch)
    for name in ("lemon", "two-lemons", "poisoned-point", "user-always"):
        lives = [play(name, seed) for seed in range(3)]
        assert not any(life.right for life in lives if life.curable), name


def test_who_gives_up_at_once_is_right_only_where_nothing_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _always("fail", monkeypatch)
    for name in CAUSES.keys() - {"evaluation", "silence"}:
        lives = [life for life in (play(name, seed) for seed in range(10)) if life.curable]
        assert {life.right for life in lives} == {CAUSES[name].hopeless}, name


def test_it_uses_nothing_of_the_driver() -> None:
    (folder,) = oracle.__path__
    for path in Path(folder).glob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ImportFrom):
                assert not (each.module or "").startswith("holdfast.driver"), path
