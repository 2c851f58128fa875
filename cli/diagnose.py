"""`holdfast diagnose`: have nodes tested now, and say which part of which is bad."""

from threading import Event
from typing import Annotated, Any

import typer

from holdfast.cli.client import Client, Problem, path
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, complain, say, table
from holdfast.cli.shared import Json, State, Url, client, examples, text
from holdfast.protocol import exitcodes
from holdfast.protocol.counts import plural

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NODE]...", help="Which nodes; or --all.", callback=text),
]
All = Annotated[bool, typer.Option("--all", help="All that can be tested now.")]

LOOK_S = 0.5
"""Between two looks: a stage takes some seconds."""

_UNSAID = "-"
_REFUSED = {404: exitcodes.USAGE, 409: exitcodes.TRY_AGAIN}


def register(app: typer.Typer) -> None:
    typed = ("holdfast diagnose node-2 node-5", "holdfast diagnose --all --json")
    app.command("diagnose", epilog=examples(*typed))(diagnose)


def diagnose(
    nodes: Names = None,
    everyone: All = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> int:
    """Test nodes that run no ranks now, and say which part of which is bad. Nobody is evicted.

    Each is tested by itself and with others; who fails is tested again beside others before it is
    called bad. Exit code: 0 all are good, 1 one is bad, 75 of some it is not known. Ctrl-C ends the
    tests.
    """
    if bool(nodes) == everyone:
        why = "--all is every node, and NODE is one" if nodes else "no NODE is named"
        raise misused(f"{why}.", "Name nodes, or give --all.")
    asked = client(url, state)
    body: dict[str, Any] = {"all": True} if everyone else {"nodes": nodes}
    number = begun(asked, body)
    found = watched(asked, number)
    if json:
        as_json(found)
    else:
        _show(found)
    return exit_code(found)


def begun(asked: Client, body: dict[str, Any]) -> int:
    """The number of the diagnosis. A refusal has no exit code that says that a node is bad."""
    try:
        return int(asked.post(path("diagnoses"), body)["sequence"])
    except Problem as refused:
        refused.code = _REFUSED.get(refused.status, refused.code)
        raise


def watched(asked: Client, number: int) -> dict[str, Any]:
    """What came of it; what is under way meanwhile goes to stderr. Where the driver cannot say, no
    node is bad for it."""
    said, pause = "", Event()
    try:
        while True:
            found: dict[str, Any] = asked.get(path("diagnoses", str(number)))
            if found["state"] == "ended":
                return found
            if (now := _under_way(found)) != said:
                complain(said := now)
            pause.wait(LOOK_S)
    except Problem as refused:
        if refused.code == exitcodes.FAILED:
            refused.code = exitcodes.TRY_AGAIN
        raise
    except KeyboardInterrupt:
        asked.delete(path("diagnoses", str(number)))
        complain("holdfast: interrupted; the tests are ended, and the nodes are free")
        raise


def _under_way(found: dict[str, Any]) -> str:
    left = found["testing"]
    return f"stage {found['stage']}: {plural(len(left), 'node')} still in test ({_some(left)})"


def _some(nodes: list[str]) -> str:
    return ", ".join(nodes[:8]) + (f" … ({len(nodes)})" if len(nodes) > 8 else "")


def _show(found: dict[str, Any]) -> None:
    verdicts = {node: f"bad: {part}" for node, part in found["bad"].items()}
    verdicts |= dict.fromkeys(found["good"], "good")
    whys, sides = found.get("unknown", {}), found.get("sides")  # an older driver has neither
    verdicts |= {
        node: f"unknown: {whys[node]}" if node in whys else "unknown" for node in found["undecided"]
    }
    with_figures = (each for each in found["measurements"] if each["value"] is not None)
    tests = list(dict.fromkeys(each["test"] for each in with_figures))
    table(
        ("node", *tests, "verdict"),
        (
            (node, *(_best(found, node, test) for test in tests), verdict)
            for node, verdict in verdicts.items()
        ),
    )
    for line in found["evidence"] if found["bad"] or found["undecided"] else ():
        say(line)
    if sides:
        these, those = (_some(side) for side in sides)
        say(f"these reach each other, and not those, and none is bad for it: {these} | {those}")
    for one, other in found["apart"] if not sides else ():
        say(f"{one} and {other} cannot reach each other, and neither is bad")
    for node, why in found["left_out"].items():
        say(f"not tested: {node} ({why})")
    if found["why"]:
        say(f"ended early: {found['why']}")


def _best(found: dict[str, Any], node: str, test: str) -> str:
    """The best that the node reached in this test."""
    mine = [each for each in found["measurements"] if (each["node"], each["test"]) == (node, test)]
    reached = [each for each in mine if each["value"] is not None]
    best = max(reached, key=lambda each: float(each["value"]), default=None)
    return f"{best['value']:.1f} {best['unit']}" if best else _UNSAID


def exit_code(found: dict[str, Any]) -> int:
    if found["bad"]:
        return exitcodes.FAILED
    unknown = found["undecided"] or found["why"]
    return exitcodes.TRY_AGAIN if unknown else exitcodes.OK
