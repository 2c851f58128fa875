"""What healthy nodes reach is kept, and asked of all that a person has tested. Pure.

Called by `asked`. What a person had measured counts first; where nobody had, what the diagnoses of
healthy nodes told by the way helps where too few are tested to be each other's measure.
"""

from holdfast.diagnostics.figures import Figure, Figures, bounds, figures, priors
from holdfast.diagnostics.registry import TESTS
from holdfast.diagnostics.thresholds import Known
from holdfast.driver.core.state.model import Asked
from holdfast.driver.core.testing.unknown import good
from holdfast.driver.core.turn import Turn


def keep(turn: Turn, of: Asked) -> str:
    """A person wants what its good nodes reached to be the measure; the sentence about it."""
    made = _figures(turn, of, asked=True)
    turn.figures = {**turn.figures, **made}
    told = (f"{each.bound:.4g} {TESTS[test].unit} in {test}" for test, each in made.items())
    return ", ".join(told)


def learn(turn: Turn, of: Asked) -> None:
    """By the way, of a diagnosis in which all are good."""
    if of.verdict is None or of.verdict.bad or of.verdict.unsettled:
        return
    made = _figures(turn, of, asked=False)
    kept = {test: figure for test, figure in turn.figures.items() if figure.asked}
    turn.figures = {**turn.figures, **made, **kept}


def known(figures: Figures) -> Known:
    """What nodes have to reach."""
    return Known(bounds(figures), priors(figures))


def _figures(turn: Turn, of: Asked, *, asked: bool) -> dict[str, Figure]:
    return figures(of.stages, good(of), turn.figures, now=turn.now, asked=asked)
