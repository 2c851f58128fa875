"""`holdfast heatmap`, `timeline`, `view3d`: a job's ranks as a picture, in a file or here."""

import threading
from collections.abc import Callable, Mapping
from importlib import util
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, complain, last_word, say
from holdfast.cli.shared import Json, State, Url, examples
from holdfast.cli.show import Job

LOOK_S = 0.5
WINDOW_S = 3.0
"""So much of each rank's time is waited for, as `driver/watch/lately` shows it."""
LONGEST_S = 20.0
"""After that what there is is shown: ranks whose steps take longer have nothing to tell yet."""
SOON_S = 1.0
"""After which it is said what is waited for."""
ENOUGH = 0.9
"""Share of the ranks of which time has to be known."""

PAST_S = 10.0
"""Of a run that has ended: so much of its end, as of the past on the page."""

Svg = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture as SVG.")
]
Png = Annotated[
    Path | None, typer.Option("--png", metavar="FILE", help="Write it as PNG (extra `png`).")
]
Dark = Annotated[bool, typer.Option("--dark", help="For a dark page.")]
Last = Annotated[
    float, typer.Option("--last", metavar="SECONDS", min=0.1, help="How far back from now.")
]
Incident = Annotated[
    int | None,
    typer.Option("--incident", metavar="N", min=1, help="When that incident was found, by traces."),
]
Of = Annotated[
    int | None,
    typer.Option("--rank", metavar="RANK", min=0, help="Show its groups, and whom it waits for."),
]


def register(app: typer.Typer) -> None:
    for name, command in (("heatmap", heatmap), ("timeline", timeline), ("view3d", view3d)):
        typed = f"holdfast {name} my-job --svg {name}.svg"
        past = f"holdfast {name} my-job --incident 3"
        app.command(name, epilog=examples(f"holdfast {name}", typed, past))(command)


def heatmap(
    job: Job = None,
    incident: Incident = None,
    svg: Svg = None,
    png: Png = None,
    dark: Dark = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Where each rank's time goes, beside ranks of its role: who differs is marked and named."""
    from holdfast.page.draw import heat_svg, moments

    asked, alive = asking.source(url, state, job)
    name = asking.job_named(asked, job)["name"]
    if incident is not None:
        found = moments.ranks_of(asked.spans(name, last_s=PAST_S, incident=incident))
    else:
        found = _looked_at(asked, name) if alive else _ended(asked, name, PAST_S)
    if json:
        as_json(found)
    elif not to_file(lambda theme: heat_svg.drawn(found, theme=theme), svg, png, dark=dark):
        from holdfast.cli import picture_text

        picture_text.heatmap(found)


def timeline(
    job: Job = None,
    last: Last = 30.0,
    incident: Incident = None,
    svg: Svg = None,
    png: Png = None,
    dark: Dark = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """What each rank did when, as traced: bars by kind, waits hatched, a line a rank."""
    from holdfast.page.draw import timeline_svg

    asked, alive = asking.source(url, state, job)
    found = asked.spans(asking.job_named(asked, job)["name"], last_s=last, incident=incident)
    name = found["job"]
    ranks = asked.ranks(name) if alive and incident is None else None
    if json:
        as_json(found)
    elif not to_file(
        lambda theme: timeline_svg.drawn(found, ranks, theme=theme), svg, png, dark=dark
    ):
        from holdfast.cli import picture_text

        picture_text.timeline(found, ranks)
    if not alive:
        last_word()


def view3d(
    job: Job = None,
    rank: Of = None,
    incident: Incident = None,
    svg: Svg = None,
    png: Png = None,
    dark: Dark = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Ranks in dp x pp x tp, a plane a stage, and who waits for whom."""
    from holdfast.page.draw import grid_svg

    asked, alive = asking.source(url, state, job)
    found = asked.view3d(asking.job_named(asked, job)["name"], incident=incident)
    if rank is not None and rank >= len(found["ranks"]):
        raise misused(f"--rank: {found['job']} has no rank {rank}.", "Ranks: holdfast ranks")
    if json:
        as_json(found)
    elif not to_file(
        lambda theme: grid_svg.drawn(found, theme=theme, rank=rank), svg, png, dark=dark
    ):
        from holdfast.cli import picture_text

        picture_text.view3d(found, rank)
    if not alive:
        last_word()


# ---------------------------------------------------------------- what is drawn


def _looked_at(asked: asking.Source, name: str) -> dict[str, Any]:
    """The job's ranks, once it is known of most where their time goes: that is kept from the first
    question on."""
    pause, looked_s, said = threading.Event(), 0.0, False
    while True:
        found = asked.ranks(name)
        if _tells(found) or looked_s >= LONGEST_S:
            return found
        if looked_s >= SOON_S and not said:
            complain(f"looking at where the time of {name} goes, for {WINDOW_S:.0f} s")
            said = True
        pause.wait(LOOK_S)
        looked_s += LOOK_S


def _tells(found: Mapping[str, Any]) -> bool:
    """Whether there is something to show; of ranks that stand still nothing more will come."""
    rows = found["ranks"]
    told = [row["spent"] for row in rows if row.get("spent")]
    long = [spent for spent in told if spent["window_s"] >= WINDOW_S]
    return not rows or len(long) >= ENOUGH * len(rows) or found.get("quiet_s", 0.0) > WINDOW_S


def _ended(asked: asking.Source, name: str, last_s: float) -> dict[str, Any]:
    """Of a run that has ended, what its traces say of its last seconds. Raises `Stopped` where it
    has none."""
    from holdfast.page.draw import moments

    told = asked.spans(name, last_s=last_s)
    if not told["spans"]:
        raise Stopped(f"{name} does not run now, and has no traces.", fix=f"holdfast why {name}")
    complain(
        f"{name} does not run now: of {told['from_s']:.1f} s to {told['to_s']:.1f} s, by traces"
    )
    return moments.ranks_of(told)


# ---------------------------------------------------------------- where it goes


def to_file(draw: Callable[[Any], str], svg: Path | None, png: Path | None, *, dark: bool) -> bool:
    """Write what was asked for; False where no file was."""
    from holdfast.page.draw import themes

    if svg is None and png is None:
        return False
    if png is not None and util.find_spec("resvg_py") is None:
        raise misused("--png needs resvg-py.", "Install it: pip install 'holdfast[png]', or --svg.")
    picture = draw(themes.DARK if dark else themes.LIGHT)
    if svg is not None:
        write(svg, picture.encode())
    if png is not None:
        import resvg_py

        write(png, bytes(resvg_py.svg_to_bytes(svg_string=picture)))
    return True


def write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        sentence = f"cannot write {path}: {error.strerror}."
        raise Stopped(sentence, fix="Name another file.") from error
    say(f"{path}: {len(data):,} bytes")
