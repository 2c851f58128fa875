"""The command `stack`: where ranks stand now, those that stand alike told once.

Where no rank is named all are asked, and told in short: their main threads.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.client import path
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, complain, say
from holdfast.cli.shared import Json, State, Url, client, examples
from holdfast.cli.show import Job
from holdfast.page.words import ranks as spans
from holdfast.telemetry.analysis.alike_stacks import alike

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MAIN = '"MainThread"'
MOST_RANKS = 1_024
"""That are asked for where none was named: as many as the driver takes at once."""
MOST_TYPED = 100_000
"""Ranks that a span may have before the driver is asked, which says how many it takes."""


def register(app: typer.Typer) -> None:
    typed = ("holdfast stack", "holdfast stack my-job", "holdfast stack my-job 0-63 96")
    app.command("stack", epilog=examples(*typed))(stack)


def stack(
    job: Job = None,
    ranks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RANK...]",
            help="3, or 0-63: with all their threads. Default: the main threads of all.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Print where ranks stand now, by py-spy: no rank is stopped for it."""
    job, typed = _meant(job, ranks or [])
    wanted = numbers(typed)
    driver = client(url, state, job)
    found = asking.job_named(asking.Live(driver), job)
    name, every = found["name"], range(found["ranks"])
    told = driver.post(path("jobs", name, "stacks"), {"ranks": wanted or [*every[:MOST_RANKS]]})
    if json:
        as_json(told)
        return
    if job is None:
        say(f"{name}, attempt {told['attempt']}\n")
    say("\n\n".join(blocks(told if wanted else in_short(told))))
    for line in missing(told):
        complain(line)
    if not wanted and len(every) > MOST_RANKS:
        complain(f"of {len(every):,} ranks the first {MOST_RANKS:,}; others: {name} RANK...")


def _meant(job: str | None, ranks: list[str]) -> tuple[str | None, list[str]]:
    """A number in the place of a job, whose name begins with a letter, is a rank of the newest."""
    if job is not None and _SPAN.fullmatch(job):
        return None, [job, *ranks]
    return job, ranks


def numbers(typed: Sequence[str]) -> list[int]:
    """The ranks that are meant, each once. Raises `Stopped` (2)."""
    found: set[int] = set()
    for word in typed:
        match = _SPAN.fullmatch(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= MOST_TYPED:
            raise misused(f"RANK: {word!r} is no rank.", "Give a number, or a span such as 0-63.")
        found.update(range(first, last + 1))
    return sorted(found)


def in_short(told: dict[str, Any]) -> dict[str, Any]:
    """With the main threads alone; ranks whose main threads stand alike are one block."""
    main = {rank: _main(each["text"]) for each in told["stacks"] for rank in each["ranks"]}
    return {**told, "stacks": [each._asdict() for each in alike(main)]}


def _main(text: str) -> str:
    """The thread that runs the script, of the rank's own process, which comes first; all there is
    where none is called so."""
    own = text.partition("Child process")[0]
    threads = re.split(r"^(?=Thread \()", own, flags=re.MULTILINE)
    return next((each.strip() for each in threads if _MAIN in each.partition("\n")[0]), text)


def blocks(told: dict[str, Any]) -> Iterator[str]:
    """`998 ranks: ranks 0-996, 998`, then what they show."""
    for each in told["stacks"]:
        count = len(each["ranks"])
        title = spans(each["ranks"])
        head = title if count == 1 else f"{count:,} ranks: {title.removeprefix('ranks ')}"
        yield f"{head}\n" + "\n".join(f"  {line}".rstrip() for line in each["text"].splitlines())


def missing(told: dict[str, Any]) -> Iterator[str]:
    """One line a reason, with the ranks that it is true of."""
    by_reason: dict[str, list[int]] = {}
    for each in told["missing"]:
        by_reason.setdefault(each["why"], []).append(each["rank"])
    for why, ranks in by_reason.items():
        yield f"no stack of {spans(ranks)}: {why}"
