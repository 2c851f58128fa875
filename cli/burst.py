"""`holdfast burst`: what a node's rails move each millisecond: take it now, list, show."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli import asking
from holdfast.cli.client import path
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, say, table
from holdfast.cli.pictures import Dark, Png, Svg, to_file
from holdfast.cli.shared import Json, State, Url, client, examples, group, text
from holdfast.cli.tabular import As, Format, write
from holdfast.protocol.counts import rate

COLUMNS = 90
BARS = " ▁▂▃▄▅▆▇█"

Node = Annotated[str, typer.Argument(metavar="NODE", callback=text)]
Job = Annotated[str, typer.Argument(metavar="JOB", callback=text)]
Seconds = Annotated[
    float, typer.Option("--seconds", metavar="SECONDS", min=1, max=10, help="For how long.")
]


class OrTake(TyperGroup):
    """`holdfast burst node-2` is `holdfast burst take node-2`, wherever its options stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = not args or args[0] in {*self.commands, "-h", "--help"}
        return super().parse_args(ctx, args if own else ["take", *args])


def register(app: typer.Typer) -> None:
    bursts = group(
        "Count what a node's rails move, each millisecond: holdfast burst NODE [--seconds 5].",
        parser=OrTake,
        epilog=examples(
            "holdfast burst node-2", "holdfast burst ls my-job", "holdfast burst show my-job 1"
        ),
    )
    bursts.command("take", epilog=examples("holdfast burst take node-2 --seconds 5"))(take)
    bursts.command("ls", epilog=examples("holdfast burst ls my-job"))(list_bursts)
    typed = ("--svg burst.svg", "--format csv > burst.csv")
    shown = examples(*(f"holdfast burst show my-job 1 {each}" for each in typed))
    bursts.command("show", epilog=shown)(show)
    app.add_typer(bursts, name="burst")


def take(
    node: Node,
    seconds: Seconds = 10.0,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Take one now, for ten seconds, and show it. Nothing is stopped for it."""
    asked = client(url, state)
    taken = asked.post(path("nodes", node, "burst"), {"seconds": seconds})
    if json:
        as_json(taken)
        return
    _show(asked.get(path("jobs", taken["job"], "bursts", taken["burst"]["id"])))


def list_bursts(
    job: Job,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """List those that are kept of a job's nodes."""
    asked, alive = asking.source(url, state, job)
    found = asked.bursts(job)
    if json:
        as_json(found)
        return
    if form is not Format.TABLE:
        write(found["items"], form)
        return
    rows = (
        (each["id"], each["node"], each["began_at"], len(each["rails"]), each["why"])
        for each in found["items"]
    )
    table(("id", "node", "began", "rails", "why"), rows)
    if not found["items"]:
        how = ": holdfast burst NODE takes one" if alive else ", and it does not run now"
        say(f"no bursts are kept of {found['job']}{how}")


def show(
    job: Job,
    burst: Annotated[int, typer.Argument(metavar="ID", min=1)],
    svg: Svg = None,
    png: Png = None,
    form: As = Format.TABLE,
    dark: Dark = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Show one: a line a rail, how much it moved when."""
    from holdfast.page.draw import burst_svg

    if form is not Format.TABLE and (svg or png):
        raise misused(
            "--format is for rows, and --svg and --png are pictures.", "Type one of them."
        )
    asked, _ = asking.source(url, state, job)
    found = asked.burst(job, burst)
    if json:
        as_json(found)
        return
    if form is not Format.TABLE:
        write(list(samples(found)), form)
        return
    if not to_file(lambda theme: burst_svg.drawn(found, theme=theme), svg, png, dark=dark):
        _show(found)


def samples(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row a rail and sample: from when to when, and what came and went."""
    for rail in found["rails"]:
        both = zip(rail["received_bytes"], rail["sent_bytes"], strict=True)
        for (began, ended), (received, sent) in zip(pairwise(found["at_us"]), both, strict=True):
            when = {"from_s": began / 1e6, "to_s": ended / 1e6}
            yield {"rail": rail["name"], **when, "received_bytes": received, "sent_bytes": sent}


def _show(found: dict[str, Any]) -> None:
    from holdfast.page.draw.burst import laid_out

    note, layout = found["burst"], laid_out(found, COLUMNS)
    say(f"burst {note['id']} of {found['job']}: {note['node']}, {note['began_at']} ({note['why']})")
    for line in layout.lines:
        for what, columns in (("sent", line.sent), ("received", line.received)):
            bars = "".join(_bar(each, layout.most) for each in columns)
            say(f"{line.name[:12]:<12} {what:<8} |{bars}|")
    if not layout.lines:
        say(found["says"])
        return
    highest = f"the highest bar is {rate(layout.most * 1e3)}" if layout.most else "nothing moved"
    say(f"{layout.length_s:.3g} s; {highest}")
    say(found["says"])
    p50, p99 = found["period_p50_s"] * 1e3, found["period_p99_s"] * 1e3
    say(
        f"looked each {p50:.2f} ms (99 of 100 within {p99:.2f} ms), {found['missed']:,} missed, "
        f"{found['cpu_s']:.2f} s of CPU"
    )


def _bar(value: float, most: float) -> str:
    """What moves at all is seen."""
    if not value or not most:
        return BARS[0]
    return BARS[max(1, round(value / most * (len(BARS) - 1)))]
