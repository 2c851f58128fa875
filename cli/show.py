"""Commands that explain: status, story, why. They work without a running driver too."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from holdfast.cli import asking, hypotheses
from holdfast.cli.client import Readiness
from holdfast.cli.output import as_json, last_word, say
from holdfast.cli.shared import Json, State, Url, examples, same, text
from holdfast.page.stories import sentence

Job = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="Default: the newest.", show_default=False, callback=text),
]


def register(app: typer.Typer) -> None:
    app.command("status", epilog=examples("holdfast status", "holdfast status my-job --watch"))(
        status
    )
    app.command("story", epilog=examples("holdfast story my-job"))(story)
    app.command(
        "why", epilog=examples("holdfast why", "holdfast why my-job", "holdfast why node-2")
    )(why)


def status(
    job: Job = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on until it ends.")] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """How a job is: state, step, speed, loss, nodes, and what was lost to what."""
    from holdfast.cli import status as shown

    asked, alive = asking.source(url, state, job, warns=False)
    if json:
        found = asking.job_named(asked, job)
        incidents = asked.incidents(found["name"])
        told = {"incidents": incidents, "driver_running": alive}
        as_json({**found, **told, **_trust(asked.readiness())})
    elif watch and alive:
        shown.watch(asked, job)
    else:
        shown.once(asked, job, alive=alive)


def story(
    job: Job = None,
    whole: Annotated[
        bool, typer.Option("-a", "--all", help="Also what changed nothing for the job.")
    ] = False,
    earlier: Annotated[
        bool, typer.Option("--earlier", help="Begin with the jobs that had its name before.")
    ] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """All that was decided about a job, each with its reason."""
    asked, _ = asking.source(url, state, job)
    name = asking.job_named(asked, job)["name"]
    told = asked.story(name, whole=whole, earlier=earlier)
    if json:
        as_json(told)
        return
    known = {None}
    for line in told["lines"]:
        new = line["incident"] not in known
        say(sentence(line) + (f"  (incident {line['incident']})" if new else ""))
        known.add(line["incident"])
    if told["earlier"] and not earlier:
        more = f"holdfast story {name} --earlier{same(url, state)}"
        say(f"Before it another job had this name, which was deleted: {more}")


def why(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NODE|JOB]",
            help="Default: the newest job.",
            show_default=False,
            callback=text,
        ),
    ] = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Why a job or a node is as it is, in sentences, from the journal."""
    asked, alive = asking.source(url, state, name, warns=False)
    name = name or asking.job_named(asked, None)["name"]
    told, found = asked.why(name), asked.readiness()
    if json:
        as_json({**told, **_trust(found)})
        return
    if told["exception"]:
        say(told["exception"].rstrip() + "\n")
    if not alive and (ended := asking.broken_off(asked, told["subject"])):
        say(f"{ended} Until then:")
    if found.stale:
        say(f"This may be old. {found.why}")
    else:
        asking.warn_unready(found)
    say(told["headline"])
    for detail in told["details"]:
        say(f"  {detail}")
    for line in told["lines"]:
        say(f"  {sentence(line)}")
    hypotheses.show(told.get("hypotheses", ()))  # a driver of before does not tell
    for line in _then(told):
        say(line)
    if told["fix"] and alive:
        say(told["fix"] + same(url, state))
    if not alive:
        last_word()


def _then(told: dict[str, Any]) -> Iterator[str]:
    """What follows the table; a driver of before tells less."""
    if told.get("origin"):
        yield f"Where it comes from: {told['origin']}."
    if told.get("mind"):
        yield told["mind"]


def _trust(found: Readiness) -> dict[str, Any]:
    """For machines: whether what is told may be old, and why the driver takes no new work."""
    return {"stale": found.stale, "degraded": "" if found.ready else found.why}
