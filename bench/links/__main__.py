"""`python -m holdfast.bench.links record FILE [PHASE:SECONDS …]`, `judge FILE` and `sample …`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def record(
    path: Path,
    phases: Annotated[list[str] | None, typer.Argument(help="PHASE:SECONDS, in order.")] = None,
    nodes: int = 4,
    numbers: Annotated[int, typer.Option(help="Of a gradient, 4 bytes each.")] = 1_000_000,
    everywhere: Annotated[
        bool, typer.Option(help="Each node sends to each, not to the next.")
    ] = False,
) -> None:
    """Train over good and bad links and write down what was told."""
    from holdfast.bench.links import record as recorder

    command = recorder.EVERYWHERE if everywhere else ["python", "train.py", str(numbers)]
    recorder.record(path, phases or list(recorder.USUAL), nodes=nodes, command=command)


@app.command()
def judge(path: Path) -> None:
    """Play a trace into the detector; one line for each that it tells."""
    from holdfast.bench.links import trace

    for at_s, phase, finding in trace.told(trace.read(path)):
        print(f"{at_s:6.0f} s  {phase:<8} {finding.kind:<10} {finding.summary}")


@app.command(hidden=True)
def sample(pid: int, seconds: float) -> None:
    """What a daemon tells of one rank's flows, as lines of JSON, from within a node."""
    from holdfast.bench.links import record as recorder

    recorder.sample(pid, seconds)


if __name__ == "__main__":
    app()
