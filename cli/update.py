"""`holdfast update`: another version of a job that is there."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import find
from holdfast.cli.client import Problem, path
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json, State, Url, client, examples, same
from holdfast.page.words import outcome


def register(app: typer.Typer) -> None:
    app.command(
        "update", epilog=examples("holdfast update job.yaml", "holdfast update - < job.yaml")
    )(update)


def update(
    file: Annotated[
        Path,
        typer.Argument(readable=False, help="The job as it is to be; - reads standard input."),
    ],
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Have a job run another version of itself: the whole file, as it is to be.

    What runs saves and ends first, and nobody is blamed. The command, workdir, env, checkpoint
    intervals, recovery, timeouts, logRules and ttlS may be other. Where the new version fails again
    and again the one before it runs again, and `holdfast why JOB` says so.
    """
    from holdfast.cli import jobfile

    document = jobfile.read(file, "nothing was changed")
    here = url is None and find.here_alone(find.Target(state=state))
    jobfile.check(document, on_this_machine=here)
    name = str(document.values["metadata"]["name"])
    driver = client(url, state, name)
    try:
        done = driver.put(path("jobs", name), document.values)
    except Problem as problem:
        raise jobfile.refused(document, problem) from problem
    if json:
        as_json(done)
        return
    say(outcome(done["name"], done["why"]))
    say(f"Watch it: holdfast status {done['name']}{same(url, state)}")
