"""`holdfast calibrate`: measure what healthy nodes reach, which is then asked of all."""

from typing import Annotated, Any

import typer

from holdfast.cli.client import Client, Problem, path
from holdfast.cli.diagnose import All, Names, begun, exit_code, watched
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, say, table
from holdfast.cli.shared import Json, State, Url, client, examples
from holdfast.page.words import duration
from holdfast.protocol import exitcodes

LEAST_NODES = 3
"""As `diagnostics.figures` has it, which takes longer to import than most commands take."""

Show = Annotated[bool, typer.Option("--show", help="Measure nothing: what was measured last.")]


def register(app: typer.Typer) -> None:
    typed = ("calibrate --all", "calibrate node-2 node-5 node-6", "calibrate --show --json")
    app.command("calibrate", epilog=examples(*(f"holdfast {each}" for each in typed)))(calibrate)


def calibrate(
    nodes: Names = None,
    everyone: All = False,
    show: Show = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> int:
    """Test nodes that run no ranks now; what the good ones reach is what nodes have to reach.

    Three good ones are needed, and no bad one: else nothing is kept. The bound that follows counts
    from then on where `holdfast diagnose` tests nodes. Exit code: as of `holdfast diagnose`.
    """
    if bool(nodes) + everyone + show != 1:
        why = "no NODE is named" if not (nodes or everyone or show) else "these contradict"
        raise misused(f"{why}.", "Name nodes, or give --all, or --show.")
    if nodes and len(set(nodes)) < LEAST_NODES:
        raise misused(f"{LEAST_NODES} nodes are needed.", "Name more, or give --all.")
    asked = client(url, state)
    code = exitcodes.OK if show else _measured(asked, everyone, nodes or [])
    found = asked.get(path("calibrations"))
    if json:
        as_json(found)
    else:
        _show(found["tests"])
    return code


def _measured(asked: Client, everyone: bool, nodes: list[str]) -> int:
    """Test them, and have what they reached kept. Where the driver keeps nothing, that alone has no
    exit code that says that a node is bad."""
    number = begun(asked, {"all": True} if everyone else {"nodes": nodes})
    found = watched(asked, number)
    try:
        asked.post(path("diagnoses", str(number), "calibrate"))
    except Problem as refused:
        if refused.code == exitcodes.FAILED:
            refused.code = exit_code(found) or exitcodes.TRY_AGAIN
        raise
    return exit_code(found)


def _show(found: list[dict[str, Any]]) -> None:
    if not found:
        say("Nothing is measured yet: holdfast calibrate --all")
        return
    columns = ("test", "nodes", "median", "spread", "bound", "drift", "measured")
    table(columns, (_row(each) for each in found))


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    when = f"{duration(each['ago_s'])} ago"
    return (
        each["test"],
        str(each["nodes"]),
        f"{each['median']:.4g} {each['unit']}",
        f"{each['spread']:.1%}",
        f"{each['bound']:.4g}",
        "-" if each["drift"] is None else f"{each['drift']:+.1%}",
        when if each["asked"] else f"{when}, by the way",
    )
