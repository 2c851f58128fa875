"""`python -m holdfast.bench.slow record PATH …` and `judge QUIET BUSY [SLOW]`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def record(
    path: Path,
    ranks: int = 8,
    seconds: float = 180.0,
    work: Annotated[int, typer.Option(help="Rows of a batch.")] = 256,
    neighbours: Annotated[int, typer.Option(help="Processes that spin at times.")] = 0,
    percents: Annotated[list[float], typer.Option(help="How much slower ranks are.")] = [],  # noqa: B006
) -> None:
    """Run real ranks and write down what they told."""
    from holdfast.bench.slow import record as recorder

    recorder.record(
        path, ranks=ranks, seconds=seconds, work=work, neighbours=neighbours, percents=percents
    )


@app.command()
def judge(
    quiet: Annotated[Path, typer.Argument(help="That the limit is taken from.")],
    busy: Annotated[Path, typer.Argument(help="That is judged, healthy.")],
    slow: Annotated[Path | None, typer.Argument(help="In which ranks were slow at times.")] = None,
    steps: int = 100_000,
    runs: Annotated[int, typer.Option(help="Of each size of slowness.")] = 100,
) -> None:
    """Play traces into the detector."""
    from holdfast.bench.slow import judge as judged

    judged.judge(quiet, busy, slow, steps=steps, runs=runs)


if __name__ == "__main__":
    app()
