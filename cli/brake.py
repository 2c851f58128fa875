"""The command about the brake on eviction: show, apply, release."""

from typing import Annotated

import typer

from holdfast.cli.client import path
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json, State, Url, client, examples, group, text
from holdfast.page.words import outcome

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the journal.", callback=text)]


def register(app: typer.Typer) -> None:
    brake = group(
        "Show the brake on eviction, put it on, or release it.",
        shows=_brake,
        epilog=examples("holdfast brake", 'holdfast brake release --reason "the switch is mended"'),
    )
    for name, act in (("apply", apply), ("release", release)):
        typed = f'holdfast brake {name} --reason "…"'
        brake.command(name, epilog=examples(typed))(act)
    app.add_typer(brake, name="brake")


def _brake(
    context: typer.Context, url: Url = None, state: State = None, json: Json = False
) -> None:
    if context.invoked_subcommand is None:
        _show(url, state, json)


def apply(reason: Reason, url: Url = None, state: State = None, json: Json = False) -> None:
    """Have no node evicted any more but by people."""
    _ask("apply", reason, url, state, json)


def release(reason: Reason, url: Url = None, state: State = None, json: Json = False) -> None:
    """Have bad nodes evicted again; what was evicted until now counts no more."""
    _ask("release", reason, url, state, json)


def _show(url: Url, state: State, json: bool) -> None:
    brake = client(url, state).get(path("brake"))
    if json:
        as_json(brake)
        return
    why = f": {brake['why']}" if brake["why"] else ""
    say(f"the brake is {'on' if brake['on'] else 'off'}{why}")
    if brake["on"]:
        say('Nobody is evicted but by people until: holdfast brake release --reason "…"')
    if brake["dry_run"]:
        say("This driver only says what it would evict (--dry-run-evictions).")


def _ask(what: str, reason: str, url: Url, state: State, json: bool) -> None:
    done = client(url, state).post(path("brake", what), {"reason": reason})
    if json:
        as_json(done)
    else:
        say(outcome(done["name"], done["why"]))
