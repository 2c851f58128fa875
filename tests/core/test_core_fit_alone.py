"""Whether a node may be used is decided in `fit` alone: who else looks at a facet says what for."""

import ast
from collections.abc import Collection
from pathlib import Path

from holdfast import driver

DRIVER = Path(driver.__file__).parent
FACETS = {"trust", "against", "presence", "quarantine", "quarantined", "stranger", "notice"}
AT_WORK = {"exam", "link", "connected", "present", "holding", "held", "allocated", "releasing"}
READY = {"ready"}
OWN = {"core/state/node.py", "core/state/fit.py"}

LOOKS = {
    "batch/deadlines.py": "who waits for tests, and when it is due",
    "core/decide.py": "strangers are forgotten by a driver that takes over",
    "people/admission.py": "whether a person's word would change anything",
    "core/handlers/executors.py": "strangers are forgotten when they go",
    "core/handlers/findings.py": "whose finding it is: an exam's, or an incident",
    "core/handlers/nodes.py": "what the cluster says is compared with what is known",
    "core/handlers/requests.py": "does what `admission` let pass",
    "core/handlers/ticks.py": "a rest that is over is taken away",
    "core/handlers/told.py": "whether tests of one that a person clears are due",
    "core/job/maintenance.py": "notices: when a job has to leave a node that it has",
    "core/state/census.py": "counts them, for who waits and for the brake",
    "core/job/eviction.py": "moves the facet",
    "core/handlers/parking.py": "puts off what is due of it",
    "core/state/orders.py": "which calls are open",
    "core/testing/diagnosis.py": "whether tests acquit it",
    "core/testing/afterwards.py": "moves the facet; whose tests they were",
    "core/testing/off_the_job.py": "whose tests they are",
    "core/turn.py": "moves the facets",
    "noted.py": "whether people are to be told that it turned",
    "adapters/rest/against.py": "words",
    "adapters/rest/nodes.py": "words",
    "adapters/rest/telling.py": "words",
    "adapters/rest/views.py": "words; the state is asked of `fit`",
    "follow/feed.py": "facts on their way to the core, no nodes",
}
"""Files, and which other question they ask there. A new one belongs into `fit`, or here."""

AT_WORK_LOOKS = {
    "core/advance.py": "the exam of a job; whether it can start, all its executors being there",
    "core/attempt/quiet.py": "moves what a node told in its epoch",
    "core/attempt/tally.py": "moves what a node told of its ranks",
    "core/decide.py": "a driver takes over: nobody is connected to it",
    "core/exams.py": "moves the field",
    "core/faults/fault.py": "what its ranks told",
    "core/handlers/exam_callers.py": "the exam of who is silent",
    "core/handlers/executors.py": "moves the facets; whether it came to its job in time",
    "core/handlers/findings.py": "the fault that a job holds back",
    "core/handlers/journal_restored.py": "whether it was connected to an earlier driver",
    "core/handlers/node_loss.py": "whether it is gone",
    "core/handlers/nodes.py": "moves the facets",
    "core/handlers/oom_killed.py": "what the cluster told of its ranks",
    "core/handlers/parking.py": "puts off what is due of it, its exam too; the exam of a job",
    "core/handlers/stalls.py": "what is due while the driver stands still",
    "core/handlers/ticks.py": "which did not end their ranks, or come, in time",
    "core/job/epochs.py": "the exam of a job; whether its nodes are there, or follow a lost epoch",
    "core/job/maintenance.py": "whether those that take places are warm",
    "core/job/allocation.py": "moves the facets; which standby is the best",
    "core/job/eviction.py": "of how many nodes the shares are",
    "core/recovery/case_of.py": "since when its node is silent; whether a job's nodes are heard",
    "core/state/census.py": "which are free, those with an executor first; which come back",
    "core/state/orders.py": "what it runs in its exam; which calls are open",
    "core/testing/asked.py": "which nodes that a person named have an executor",
    "core/testing/diagnosis.py": "the exam of a job",
    "core/testing/off_the_job.py": "whether its tests are under way, and wait for its executor",
    "core/testing/standbys.py": "notes what its tests told",
    "core/turn.py": "moves the facets",
}
"""The same of what a node does at the moment, in the core, where nodes are chosen."""

CALLS = {"adapters/kubernetes/cluster.py", "adapters/kubernetes/marking.py"}
CALLS |= {"cluster/effect_runner.py"}
"""`trust` is the call of the cluster there."""


def looks(path: Path, facets: set[str], names: Collection[str] = ()) -> bool:
    """Whether any of the attributes is read there, or any of the functions called by name."""
    found = list(ast.walk(ast.parse(path.read_text())))
    read = {each.attr for each in found if _is_read(each, ast.Attribute)}
    called = {each.id for each in found if _is_read(each, ast.Name)}
    return bool(read & facets or called & set(names))


def _is_read(node: ast.AST, kind: type[ast.Attribute | ast.Name]) -> bool:
    return isinstance(node, kind) and isinstance(node.ctx, ast.Load)


def test_who_looks_at_a_facet_is_named_with_what_for() -> None:
    found = {str(path.relative_to(DRIVER)) for path in DRIVER.rglob("*.py") if looks(path, FACETS)}
    assert found == LOOKS.keys() | OWN | CALLS


def test_so_is_who_looks_at_what_it_does_where_nodes_are_chosen() -> None:
    core = (DRIVER / "core").rglob("*.py")
    found = {str(path.relative_to(DRIVER)) for path in core if looks(path, AT_WORK, READY)}
    assert found == AT_WORK_LOOKS.keys() | OWN


def test_what_kubernetes_says_against_a_test_is_its_own_word_and_no_state_of_a_node() -> None:
    """`untestable` reads the Node object as it is at that moment, not what the driver knows."""
    source = (DRIVER / "adapters/kubernetes/facts.py").read_text()
    assert "driver.core" not in source
