"""Commands about nodes: list, evict, restore, maintain."""

from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli import worst as worst_
from holdfast.cli.client import path
from holdfast.cli.output import as_json, last_word, say, table, toned
from holdfast.cli.shared import Json, State, Url, client, examples, group, text
from holdfast.cli.tabular import As, Format, write
from holdfast.page.words import outcome, ranks
from holdfast.protocol.counts import plural

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the journal.", callback=text)]
Within = Annotated[
    float | None,
    typer.Option(
        "--within",
        metavar="SECONDS",
        help="By when it has to be free. Default: once another is ready.",
    ),
]
Worst = Annotated[
    int | None,
    typer.Option(
        metavar="[N]",
        min=1,
        max=500,
        help=f"Those against which most is held, with links and versions. Default: {worst_.MOST}.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NODE", callback=text)]


def register(app: typer.Typer) -> None:
    nodes = group(
        "List nodes, evict one, have one free for maintenance, or use one again.",
        shows=_nodes,
        parser=worst_.Parser,
        epilog=examples(
            "holdfast nodes",
            "holdfast nodes --worst 5",
            "holdfast nodes --worst --format csv",
            'holdfast nodes restore node-2 --reason "new cable"',
        ),
    )
    nodes.command(
        "list", epilog=examples("holdfast nodes list", "holdfast nodes list --format csv")
    )(list_nodes)
    for name, act, reason in (("evict", evict, "loud fan"), ("restore", restore, "new cable")):
        for place, words in ((nodes, f"nodes {name}"), (app, name)):
            typed = f'holdfast {words} node-2 --reason "{reason}"'
            place.command(name, epilog=examples(typed))(act)
    typed = 'holdfast nodes maintain node-2 --reason "new kernel" --within 300'
    nodes.command("maintain", epilog=examples(typed))(maintain)
    app.add_typer(nodes, name="nodes")


def _nodes(
    context: typer.Context,
    worst: Worst = None,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    if worst is not None:
        worst_.show(worst, form, url, state, json=json)
    elif context.invoked_subcommand is None:
        list_nodes(form, url, state, json)


def list_nodes(
    form: As = Format.TABLE, url: Url = None, state: State = None, json: Json = False
) -> None:
    """List the nodes and what each is doing."""
    asked, alive = asking.source(url, state)
    nodes = asked.nodes()
    if json:
        as_json(nodes)
        return
    if form is not Format.TABLE:
        write(nodes, form)
        return
    table(
        ("node", "state", "rack", "job", "ranks", "strikes", "why"),
        (
            (
                node["name"],
                toned(node["state"]),
                node["rack"],
                node["job"],
                "standby" if node["standby"] else ranks(node["ranks"]),
                node["strikes"] or None,
                node["reason"] or _struck(node) or _unreadable(node),
            )
            for node in nodes
        ),
    )
    if not nodes and alive:
        found = client(url, state).readiness()
        say(found.why if found.why and found.ready else "no nodes")
    if not alive:
        last_word()


def _struck(node: dict[str, Any]) -> str:
    """Of a node that is used, and was the root of a fault lately."""
    if not node["strikes"]:
        return ""
    return f"{plural(node['strikes'], 'strike')} lately: holdfast why {node['name']}"


def _unreadable(node: dict[str, Any]) -> str:
    """Of a node that is used, and of which less is seen than could be."""
    said = node.get("unreadable", [])
    more = f" (and {len(said) - 1} more: --json)" if len(said) > 1 else ""
    return f"unreadable: {said[0]}{more}" if said else ""


def evict(
    node: Name, reason: Reason, url: Url = None, state: State = None, json: Json = False
) -> None:
    """Use a node no more: its ranks move to another one, and it is quarantined."""
    _ask("evict", node, reason, url, state, json)


def restore(
    node: Name, reason: Reason, url: Url = None, state: State = None, json: Json = False
) -> None:
    """Use a node again that is quarantined, or kept free for maintenance."""
    _ask("restore", node, reason, url, state, json)


def maintain(
    node: Name,
    reason: Reason,
    within: Within = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Have a node free: what trains there saves its last step and moves. Nobody is blamed for it.

    `restore` gives it back.
    """
    _ask("maintain", node, reason, url, state, json, within_s=within)


def _ask(
    what: str, node: str, reason: str, url: Url, state: State, json: bool, **more: float | None
) -> None:
    body = {"reason": reason, **more}
    done = client(url, state).post(path("nodes", node, what), body)
    if json:
        as_json(done)
    else:
        say(outcome(done["name"], done["why"]))
