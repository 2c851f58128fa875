"""Commands about webhooks: how each is, and a test of one."""

from typing import Annotated

import typer

from holdfast.cli.client import path
from holdfast.cli.output import as_json, say, table
from holdfast.cli.shared import Json, State, Url, client, examples, group, text


def register(app: typer.Typer) -> None:
    hooks = group(
        "Who is told what happens, and whether that works.",
        shows=_webhooks,
        epilog=examples("holdfast webhook", "holdfast webhook test on-call"),
    )
    hooks.command("test", epilog=examples("holdfast webhook test on-call"))(send_example)
    app.add_typer(hooks, name="webhook")


def _webhooks(
    context: typer.Context, url: Url = None, state: State = None, json: Json = False
) -> None:
    if context.invoked_subcommand is not None:
        return
    found = client(url, state).get(path("webhooks"))["items"]
    if json:
        as_json(found)
        return
    if not found:
        say("nobody is told: the driver was started without --webhooks FILE")
        return
    columns = ("name", "format", "signed", "sent", "given up", "behind", "trouble")
    keys = ("name", "format", "signed", "sent", "given_up", "behind", "trouble")
    told = ({**each, "signed": "yes" if each["signed"] else "no"} for each in found)
    table(columns, (tuple(each[key] for key in keys) for each in told))


def send_example(
    name: Annotated[str, typer.Argument(metavar="NAME", callback=text)],
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Have the driver send an example to a receiver, now."""
    told = client(url, state).post(path("webhooks", name, "test"))
    if json:
        as_json(told)
    else:
        say(f"{name} took an example")
