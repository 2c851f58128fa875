"""The picture of a job's life for docs/lifecycle.md, made from the table of transitions. Pure.

`python -m holdfast.driver.core.diagram` prints the page; a test holds the page to it.
"""

import sys

from holdfast.driver.core.model import FINISHED, Phase
from holdfast.driver.core.transitions import TRANSITIONS

PREFACE = """# A job's life

Made from `driver/core/transitions.py` by `python -m holdfast.driver.core.diagram`; do not edit.

A recovery goes Suspending, Diagnosing, Replacing, Restoring, Running and leaves out what the
finding makes unnecessary. Ends by a person or a deadline are in the table, not in the picture.
"""

ENDS = FINISHED | {Phase.SUSPENDED}


def mermaid() -> str:
    """The state diagram, without the ways to an end that start nearly everywhere."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.PENDING}"]
    lines += [
        f"    {start} --> {end}"
        for start, end in TRANSITIONS
        if end not in ENDS or start is Phase.RUNNING
    ]
    lines += [f"    {end} --> [*]" for end in Phase if end in FINISHED]
    return "\n".join(lines)


def table() -> str:
    """Every way, and when it is taken."""
    rows = [f"| {start} | {end} | {when} |" for (start, end), when in TRANSITIONS.items()]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])


def page() -> str:
    """docs/lifecycle.md, whole."""
    return f"{PREFACE}\n```mermaid\n{mermaid()}\n```\n\n{table()}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
