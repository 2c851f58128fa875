"""`holdfast fact`: what a person knows of a node, a link, or a version of a job."""

from typing import Annotated, Any

import typer

from holdfast.cli.asking import neither
from holdfast.cli.client import Problem, path
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json, State, Url, client, examples, text
from holdfast.page.words import outcome

Subject = Annotated[str | None, typer.Argument(metavar="NODE|JOB", callback=text)]
Words = Annotated[
    str | None,
    typer.Argument(metavar="WORDS", help="What you know, in a sentence.", callback=text),
]
Link = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="NODE:NODE",
        help="Of the link from one node to another, in place of NODE|JOB.",
        callback=text,
    ),
]
Clears = Annotated[
    bool, typer.Option("--clears", help="Nothing is wrong with it, or not any more.")
]
Accuses = Annotated[bool, typer.Option("--accuses", help="Something is wrong with it.")]
Version = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Of a job: which version. Default: the newest."),
]


def register(app: typer.Typer) -> None:
    typed = (
        'holdfast fact node-7 "cable replaced" --clears',
        'holdfast fact node-7 "smells of smoke" --accuses',
        'holdfast fact --link node-2:node-3 "cable replaced" --clears',
        'holdfast fact my-job "the new loader is tested" --version 2 --clears',
    )
    app.command("fact", epilog=examples(*typed))(fact)


def fact(
    subject: Subject = None,
    words: Words = None,
    link: Link = None,
    clears: Clears = False,
    accuses: Accuses = False,
    version: Version = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Tell what you know of a node, a link, or a version of a job; `why` shows it.

    --clears voids what is held against a node or a link, and closes the version of a job as a
    cause. --accuses is one accuser of a node (three put it into quarantine once a fault stands out
    there), keeps the two nodes of a link apart for a day, and opens the version. Else it is for
    people alone.
    """
    if clears and accuses:
        raise misused("--clears and --accuses say different things.", "Leave one of them out.")
    if subject is None:
        missing = "NODE|JOB is missing." if link is None else "WORDS are missing."
        raise misused(missing, "See: holdfast fact --help")
    says = "clears" if clears else "accuses" if accuses else "context"
    if link is not None:
        done = _told_of_link(client(url, state), link, _only(subject, words, version), says)
    elif words is None:
        raise misused("WORDS are missing.", f'Say what you know: holdfast fact {subject} "…"')
    else:
        done = _told(client(url, state), subject, {"words": words, "says": says}, version)
    if json:
        as_json(done)
    else:
        say(outcome(done["name"], done["why"]))


def _only(given: str, words: str | None, version: int | None) -> str:
    """The words of a link, which has no other subject."""
    if words is not None or version is not None:
        both = f'holdfast fact --link NODE:NODE "{words or given}"'
        raise misused("--link is the subject: it takes WORDS alone.", f"Type: {both}")
    return given


def _told_of_link(driver: Any, link: str, words: str, says: str) -> dict[str, Any]:
    source, _, target = link.partition(":")
    if not (source and target) or ":" in target:
        raise misused(f"--link: {link!r} is not two nodes.", "Name them so: --link node-2:node-3")
    if source == target:
        raise misused(f"--link: {link!r} is one node, not two.", "Name the other end, too.")
    body = {"words": words, "says": says, "to": target}
    found: dict[str, Any] = driver.post(path("nodes", source, "facts"), body)
    return found


def _told(driver: Any, name: str, body: dict[str, Any], version: int | None) -> dict[str, Any]:
    """Of a job of this name, else of a node, as `why` takes names."""
    try:
        found: dict[str, Any] = driver.post(
            path("jobs", name, "facts"), body | ({} if version is None else {"version": version})
        )
    except Problem as of_job:
        if of_job.status not in (403, 404) or _is_of_version(of_job):
            raise
        if version is not None:
            raise misused(
                f"--version: {version} is of {name!r}, which is no job that you may see, and only "
                "jobs have versions.",
                "Leave it out for a node, or name a job that `holdfast jobs` lists.",
            ) from of_job
        try:
            found = driver.post(path("nodes", name, "facts"), body)
        except Problem as of_node:
            if of_node.status not in (403, 404):
                raise
            raise neither(name, of_job, of_node) from of_node
    return found


def _is_of_version(problem: Problem) -> bool:
    """Whether the job is there, and it is the version that it does not have."""
    return any(each.get("field") == "version" for each in problem.mistakes)
