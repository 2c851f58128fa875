"""Whose traces are meant, and what is said where there are none."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import find
from holdfast.cli.errors import Stopped, not_reachable
from holdfast.cli.output import warn
from holdfast.cli.shared import text
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

if TYPE_CHECKING:
    from holdfast.traces.axes import Axes

Job = Annotated[
    str | None, typer.Option("--job", metavar="JOB", help="Only of this job.", callback=text)
]
SHOWN_TROUBLES = 5


def root(state: Path | None, job: str | None = None) -> Path:
    """The run's folder that is meant. Raises `Stopped` (69)."""
    found = find.state_folder(find.Target(state=state, job=job), alive=False)
    if found is None:
        raise not_reachable(
            "there is no run under ./runs.", "Name a run's folder, or a driver's: --state DIR"
        )
    return found


def traced(run: Path) -> list[str]:
    """Jobs of a run that have traces."""
    jobs = RunPaths(run).jobs
    return sorted(each.parent.name for each in jobs.glob("*/traces") if each.is_dir())


def meant(run: Path, job: str | None) -> list[str]:
    """The jobs that are meant: all, where none is named. Raises `Stopped`."""
    from holdfast.driver.adapters.rest import naming

    known = traced(run)
    if not known:
        raise Stopped(
            f"{run} has no traces: no rank of it was traced, or they go to a Redis.",
            fix="See docs/traces.md; from a Redis: holdfast trace collect redis://HOST:PORT",
        )
    if job is None:
        return known
    fits = naming.fitting(job, known)
    if not fits:
        raise Stopped(f"there are no traces of {job!r}.", fix=naming.instead("job", job, known))
    if len(fits) > 1:
        sentence, fix = naming.several(job, fits)
        raise Stopped(sentence, fix=fix)
    return fits


def the_one(run: Path, job: str | None) -> str:
    """The one job that is meant. Raises `Stopped`."""
    fits = meant(run, job)
    if len(fits) > 1:
        raise Stopped(f"{run} has traces of {len(fits)} jobs.", fix=f"Name one: {', '.join(fits)}")
    return fits[0]


def axes(run: Path, jobs: Iterable[str]) -> "dict[str, Axes]":
    """How ranks of each are parallel, by the run's journal; where that does not know, it is said,
    and no axis is told."""
    from holdfast.cli.offline import Recorded
    from holdfast.traces.axes import NONE

    found: dict[str, Axes] = {}
    for job in jobs:
        try:
            found[job] = Recorded(run).axes(job)
        except Stopped as why:
            warn(f"how {job} is parallel is not known: {why.sentence}")
            found[job] = NONE
    return found


@contextmanager
def told() -> Iterator[None]:
    """What traces raise, as a command ends. Raises `Stopped`."""
    from holdfast.traces.sinks import Away
    from holdfast.traces.tables import NoAnswer, NotInstalled

    try:
        yield
    except NotInstalled as why:
        sentence, _, fix = str(why).partition(" Install it: ")
        fix = f"Install it: {fix}"
        raise Stopped(sentence, fix=fix, code=exitcodes.UNAVAILABLE) from why
    except NoAnswer as why:
        raise Stopped(f"DuckDB: {why}", fix="Tables: docs/traces.md", code=exitcodes.USAGE) from why
    except Away as why:
        raise Stopped(f"{why}.", code=exitcodes.UNAVAILABLE) from why
    except OSError as error:
        raise Stopped(f"{error.filename}: {error.strerror}.") from error


def say_troubles(troubles: Iterable[str]) -> None:
    """On stderr, the first of them."""
    listed = list(troubles)
    for trouble in listed[:SHOWN_TROUBLES]:
        warn(trouble)
    if len(listed) > SHOWN_TROUBLES:
        warn(f"{len(listed) - SHOWN_TROUBLES:,} more files cannot be read whole.")
