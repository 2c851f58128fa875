"""Commands that change or list jobs: submit, jobs, stop, suspend, resume, delete."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import asking, find
from holdfast.cli.client import Problem, path
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, last_word, say, table, toned
from holdfast.cli.shared import Json, State, Url, client, examples, same, text
from holdfast.cli.tabular import As, Format, write
from holdfast.page.words import duration, outcome
from holdfast.protocol import exitcodes


def register(app: typer.Typer) -> None:
    app.command(
        "submit",
        epilog=examples(
            "holdfast submit job.yaml", "holdfast submit - < job.yaml", "holdfast submit --schema"
        ),
    )(submit)
    app.command("jobs", epilog=examples("holdfast jobs", "holdfast jobs --phase Running"))(jobs)
    app.command("delete", epilog=examples("holdfast delete my-job"))(delete)
    app.command(
        "resume",
        epilog=examples("holdfast resume my-job", "holdfast resume my-job --from-step 400"),
    )(resume)
    for name, doing in ACTIONS.items():
        app.command(name, help=doing, epilog=examples(f"holdfast {name} my-job"))(_action(name))


def _key(context: typer.Context, parameter: typer.CallbackParam, given: str | None) -> str | None:
    """It goes into a header."""
    if given and not (given.isascii() and given.isprintable()):
        raise misused(f"--key: {given!r} is not of ASCII characters alone.", "Give another one.")
    text(context, parameter, given)
    return given


ACTIONS = {
    "stop": "End a job: SIGTERM to its ranks, its grace, then SIGKILL.",
    "suspend": "Hold a job: it gives its nodes back and keeps its place.",
}


def submit(
    file: Annotated[
        Path | None,
        typer.Argument(readable=False, help="The job, in YAML or JSON; - reads standard input."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency-Key: the same one submits only once.", callback=_key),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the job's JSON schema.")] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit a job. All mistakes are told at once, each with its line; then nothing was done."""
    from holdfast.cli import jobfile

    if schema:
        from holdfast.protocol import jobspec

        as_json(jobspec.schema())
        return
    if file is None:
        raise Stopped("no file was given.", fix="holdfast submit job.yaml", code=exitcodes.USAGE)
    document = jobfile.read(file)
    here = url is None and find.here_alone(find.Target(state=state))
    jobfile.check(document, on_this_machine=here)
    driver = client(url, state)
    headers = {"Idempotency-Key": key} if key else None
    try:
        done = driver.post(path("jobs"), document.values, headers=headers)
    except Problem as problem:
        raise jobfile.refused(document, problem) from problem
    if json:
        as_json(done)
        return
    say(f"{done['name']} submitted; {outcome(done['name'], done['why'])}")
    say(f"Watch it: holdfast status {done['name']}{same(url, state)}")


def jobs(
    phase: Annotated[
        list[str] | None, typer.Option(help="Only jobs in this phase.", callback=text)
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only with this NAME=VALUE.", callback=text)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name or a pattern, such as train-*.", callback=text)
    ] = None,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """List jobs, oldest first."""
    asked, alive = asking.source(url, state)
    phases = [each.capitalize() for each in phase or ()]
    found = asked.jobs(phase=phases or None, label=label, name=name)
    if json:
        as_json(found)
        return
    if form is not Format.TABLE:
        write(found, form)
        return
    if not found:
        say("no job matches" if phase or label or name else "no jobs")
        return
    table(
        ("name", "state", "for", "ready", "step", "restarts", "age", "why"),
        (
            (
                job["name"],
                toned(asking.state_of(job, alive=alive)),
                duration(job["since_s"]) if alive else None,
                _ready(job) if alive else None,
                _step(job),
                sum(budget["used"] for budget in job["restarts"].values()),
                duration(job["age_s"]),
                _why(job, alive=alive),
            )
            for job in found
        ),
    )
    if not alive:
        last_word()


def _ready(job: dict[str, Any]) -> str | None:
    """How many of its ranks have a node that is connected."""
    from holdfast.driver.core.state.model import FINISHED

    if job["phase"] in FINISHED:
        return None
    ready = sum(len(place["ranks"]) for place in job["places"] if place["connected"])
    return f"{ready}/{job['ranks']}"


def _why(job: dict[str, Any], *, alive: bool) -> str:
    """Why it failed, or what it waits for, where something runs that could wait."""
    waits = (job["parked"] or job["waiting"]) if alive else ""
    return str((job["failure"] or {}).get("reason", "") or waits)


def _step(job: dict[str, Any]) -> str | None:
    """`50 (attempt 2)` where steps are counted from the script's last start, `50 (again from 40)`
    where some are done again."""
    if job["step"] is None:
        return None
    if job.get("again_from") is not None:  # a driver of before does not tell
        return f"{job['step']} (again from {job['again_from']})"
    start = f" (attempt {job['attempt']})" if job["step_relative"] else ""
    return f"{job['step']}{start}"


def _action(name: str) -> Any:
    def act(
        job: Annotated[str, typer.Argument(metavar="JOB", callback=text)],
        url: Url = None,
        state: State = None,
        json: Json = False,
    ) -> None:
        _tell(client(url, state, job).post(path("jobs", job, name)), json)

    return act


def resume(
    job: Annotated[str, typer.Argument(metavar="JOB", callback=text)],
    from_step: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Begin at this step, which is found.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin at step 0, whatever was saved.")
    ] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Let a suspended job go on, or say where one begins that waits for its checkpoints.

    A job never goes behind a checkpoint that is known to be in its store by itself. Where that is
    not found it waits, and `holdfast why JOB` says for what; --from-step and --from-start end that.
    """
    if from_start and from_step:
        raise Stopped(
            "--from-start and --from-step say different things.",
            fix="Leave one of them out.",
            code=exitcodes.USAGE,
        )
    step = 0 if from_start else from_step
    _tell(client(url, state, job).post(path("jobs", job, "resume"), from_step=step), json)


def delete(
    job: Annotated[str, typer.Argument(metavar="JOB", callback=text)],
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """End a job if it runs, and forget it: its name is free then. Its logs stay."""
    _tell(client(url, state, job).delete(path("jobs", job)), json)


def _tell(done: dict[str, Any], json: bool) -> None:
    if json:
        as_json(done)
    else:
        say(outcome(done["name"], done["why"]))
