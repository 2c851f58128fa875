"""Whether a node may be used is decided in `fit` alone: who else looks at a facet says what for."""

import ast
from pathlib import Path

from holdfast import driver

DRIVER = Path(driver.__file__).parent
FACETS = {"trust", "against", "presence", "quarantine", "quarantined", "stranger", "notice"}
OWN = {"core/state/node.py", "core/state/fit.py"}

LOOKS = {
    "core/deadlines.py": "when it is due",
    "core/decide.py": "strangers are forgotten by a driver that takes over",
    "core/defects.py": "puts off what is due of it",
    "core/handlers/admission.py": "whether a person's word would change anything",
    "core/handlers/executors.py": "strangers are forgotten when they go",
    "core/handlers/findings.py": "whose finding it is: an exam's, or an incident",
    "core/handlers/nodes.py": "what the cluster says is compared with what is known",
    "core/handlers/requests.py": "does what `admission` let pass",
    "core/handlers/ticks.py": "a rest that is over is taken away",
    "core/job/maintenance.py": "notices: when a job has to leave a node that it has",
    "core/state/census.py": "counts them, for who waits and for the brake",
    "core/placing/eviction.py": "moves the facet",
    "core/state/outstanding.py": "which calls are open",
    "core/testing/diagnosis.py": "whether tests acquit it",
    "core/testing/afterwards.py": "moves the facet; whose tests they were",
    "core/testing/off_the_job.py": "whose tests they are",
    "core/testing/suspicion.py": "moves the facet",
    "core/turn.py": "moves the facets",
    "adapters/rest/nodes.py": "words",
    "adapters/rest/telling.py": "words",
    "adapters/rest/views.py": "words; the state is asked of `fit`",
    "follow/feed.py": "facts on their way to the core, no nodes",
}
"""Files, and which other question they ask there. A new one belongs into `fit`, or here."""

CALLS = {"adapters/kubernetes/cluster.py", "adapters/kubernetes/marking.py"}
CALLS |= {"cluster/effect_runner.py"}
"""`trust` is the call of the cluster there."""


def looks(path: Path) -> bool:
    read = (
        each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Attribute)
    )
    return any(each.attr in FACETS and isinstance(each.ctx, ast.Load) for each in read)


def test_who_looks_at_a_facet_is_named_with_what_for() -> None:
    found = {str(path.relative_to(DRIVER)) for path in DRIVER.rglob("*.py") if looks(path)}
    assert found == LOOKS.keys() | OWN | CALLS


def test_what_kubernetes_says_against_a_test_is_its_own_word_and_no_state_of_a_node() -> None:
    """`untestable` reads the Node object as it is at that moment, not what the driver knows."""
    source = (DRIVER / "adapters/kubernetes/facts.py").read_text()
    assert "driver.core" not in source
