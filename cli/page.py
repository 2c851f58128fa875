"""`holdfast page`: an address of the driver's page, or the page of a run that is over."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import find
from holdfast.cli.client import path
from holdfast.cli.errors import Stopped, misused, not_reachable
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json, State, Url, client, examples, text
from holdfast.protocol.paths import RunPaths

Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="A run's name or folder. Default: what runs here, else the newest.",
        show_default=False,
        callback=text,
    ),
]
Port = Annotated[
    int,
    typer.Option(
        min=0, max=65_535, metavar="N", help="Of a run that is over: where. Default: any free."
    ),
]


def register(app: typer.Typer) -> None:
    app.command(
        "page",
        epilog=examples(
            "holdfast page",
            "holdfast page runs/train-7f3a",
            "holdfast page --driver https://driver:7480",
        ),
    )(page)


def page(
    run: Run = None, port: Port = 0, url: Url = None, state: State = None, json: Json = False
) -> int | None:
    """Print an address of the page, which is good once, within a minute.

    The browser may see then what your token may. Of a run that is over the page is served from its
    folder on this machine, until Ctrl-C.
    """
    if run is not None and (url or state):
        raise misused("RUN is named, and --driver or --state as well.", "Leave out one of them.")
    root = _folder(run) if run is not None else find.state_folder(_target(url, state), alive=False)
    if url or (root is not None and find.awaited(root) is not None):
        _print_address(url, root, json=json)
        return None
    if root is None:
        raise not_reachable(
            "no driver is running here, and there is no run under ./runs.",
            "Name one: holdfast page RUN, --state DIR, or --driver URL",
        )
    if json:
        raise Stopped(f"no driver runs on {root}: its page is served until Ctrl-C, without --json.")
    from holdfast.cli.page_of_run import serve

    return serve(root, port=port)


def _target(url: str | None, state: Path | None) -> find.Target:
    return find.Target(url=url, state=state)


def _print_address(url: str | None, root: Path | None, *, json: bool) -> None:
    driver = client(url, root)
    made = driver.post(path("codes"))
    address = f"{driver.url}{made['path']}"
    if json:
        as_json({"url": address, "within_s": made["within_s"]})
    else:
        say(f"page {address}")


def _folder(run: str) -> Path:
    """Of a run, by its name below ./runs or by its folder. Raises `Stopped` (2)."""
    for root in (Path(run), find.RUNS / run):
        try:
            if RunPaths(root).journal.exists():
                return root
        except OSError as error:
            raise misused(f"RUN: {run!r}: {error.strerror}.", "See: holdfast runs") from error
    known = ", ".join(root.name for root in find.runs()[:3])
    here = f"Here there are {known}." if known else f"There are none in {find.RUNS}."
    raise misused(f"RUN: {run!r} is no run.", f"{here} See: holdfast runs")
