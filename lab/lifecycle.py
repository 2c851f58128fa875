"""The pictures of a job's and a node's life for docs/lifecycle.md, made from the tables.

`python -m holdfast.lab.lifecycle` prints the page; a test holds the page to it.
"""

import sys

from holdfast.driver.core.state.edges import FACETS, TRANSITIONS, Edges
from holdfast.driver.core.state.model import FINISHED, Phase
from holdfast.driver.core.state.node import Node

PREFACE = """# A job's life, and a node's

Made from `driver/core/state/edges.py` by `python -m holdfast.lab.lifecycle`; do not edit.

## A job

A recovery goes Suspending, Diagnosing, Replacing, Restoring, Running and leaves out what the
finding makes unnecessary. A job that is over saves its last step first, in Suspending. Ends from
other phases than Running and Suspending are in the table, not in the picture.
"""

NODES = """## A node

It has four facets, each in one state at a time. Beside them stand what sources have against its use
(at most one reason each: a person, a drain, its executor, a cordon, a rest) and what was counted
against it and for it. Whether it may be used for something, `driver/core/state/fit.py` alone says.
"""

MOVED_BY = {
    "presence": "whether the cluster has it",
    "link": "whether its executor is connected",
    "holding": "who has it",
    "trust": "whether it may be used",
}

ENDS = FINISHED | {Phase.SUSPENDED}


def mermaid() -> str:
    """The state diagram, without the ways to an end that start nearly everywhere."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.PENDING}"]
    lines += [
        f"    {start} --> {end}"
        for start, end in TRANSITIONS
        if end not in ENDS or start in (Phase.RUNNING, Phase.SUSPENDING)
    ]
    lines += [f"    {end} --> [*]" for end in Phase if end in FINISHED]
    return "\n".join(lines)


def table() -> str:
    """Every way, and when it is taken."""
    rows = [f"| {start} | {end} | {when} |" for (start, end), when in TRANSITIONS.items()]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])


def facet(name: str, edges: Edges) -> str:
    """One facet of a node: its picture, and its table."""
    ways = [(start.__name__, end.__name__, when) for (start, end), when in edges.items()]
    first = type(getattr(Node(name=""), name)).__name__
    drawn = [f"    {start} --> {end}" for start, end, _ in ways if start != end]
    picture = "\n".join(["stateDiagram-v2", f"    [*] --> {first}", *drawn])
    rows = [f"| {start} | {end} | {when} |" for start, end, when in ways]
    told = "\n".join(["| from | to | when |", "|---|---|---|", *rows])
    title = f"### {name.capitalize()}: {MOVED_BY[name]}"
    return f"{title}\n\n```mermaid\n{picture}\n```\n\n{told}\n"


def page() -> str:
    """docs/lifecycle.md, whole."""
    job = f"{PREFACE}\n```mermaid\n{mermaid()}\n```\n\n{table()}\n"
    return "\n".join([job, NODES, *(facet(name, edges) for name, edges in FACETS.items())])


if __name__ == "__main__":
    sys.stdout.write(page())
