"""The command `stack`: where ranks stand now, those that stand alike told once."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli.client import path
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, complain, say
from holdfast.cli.shared import Json, State, Url, client, examples, text
from holdfast.page.words import ranks as spans

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_TYPED = 100_000
"""Ranks that a span may have before the driver is asked, which says how many it takes."""


def register(app: typer.Typer) -> None:
    app.command(
        "stack", epilog=examples("holdfast stack my-job 3", "holdfast stack my-job 0-63 96")
    )(stack)


def stack(
    job: Annotated[str, typer.Argument(metavar="JOB", callback=text)],
    ranks: Annotated[list[str], typer.Argument(metavar="RANK...", help="3, or 0-63.")],
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Print where ranks stand now, by py-spy: no rank is stopped for it."""
    wanted = numbers(ranks)
    told = client(url, state, job).post(path("jobs", job, "stacks"), {"ranks": wanted})
    if json:
        as_json(told)
        return
    say("\n\n".join(blocks(told)))
    for line in missing(told):
        complain(line)


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
