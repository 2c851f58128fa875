"""The command `top`: live in a terminal, once where there is none."""

import sys

import typer

from holdfast.cli.shared import Json, State, Url, examples
from holdfast.cli.show import Job


def register(app: typer.Typer) -> None:
    app.command(
        "top", epilog=examples("holdfast top", "holdfast top my-job", "holdfast top | head -40")
    )(top)


def top(job: Job = None, url: Url = None, state: State = None, json: Json = False) -> None:
    """Jobs, ranks, nodes and incidents, live; keys evict, stop and take stacks.

    Where its output is no terminal it shows everything once and ends.
    """
    from holdfast.cli import asking
    from holdfast.cli.top import live
    from holdfast.cli.top.terminal import Terminal

    if job is not None:
        asking.source(url, state, job, warns=False)[0].job(job)
    if json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        live.once(url, state, job, json=json)
    else:
        live.Live(Terminal(), url, state, job).run()
