"""`holdfast burst`: what a node's rails move each millisecond: take it now, list, show."""

import csv
import io
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli import asking
from holdfast.cli.client import path
from holdfast.cli.output import as_json, say, table
from holdfast.cli.pictures import Dark, Png, Svg, to_file, write
from holdfast.cli.shared import Json, State, Url, client, examples, group, text
from holdfast.protocol.counts import rate

COLUMNS = 90
BARS = " ▁▂▃▄▅▆▇█"

Node = Annotated[str, typer.Argument(metavar="NODE", callback=text)]
Job = Annotated[str, typer.Argument(metavar="JOB", callback=text)]
Seconds = Annotated[
    float, typer.Option("--seconds", metavar="SECONDS", min=1, max=10, help="For how long.")
]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the samples as CSV.")
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
    typed = "holdfast burst show my-job 1 --svg burst.svg"
    bursts.command("show", epilog=examples(typed))(show)
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


def list_bursts(job: Job, url: Url = None, state: State = None, json: Json = False) -> None:
    """List those that are kept of a job's nodes."""
    asked, alive = asking.source(url, state, job)
    found = asked.bursts(job)
    if json:
        as_json(found)
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
    csv_file: Csv = None,
    dark: Dark = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Show one: a line a rail, how much it moved when."""
    from holdfast.page.draw import burst_svg

    asked, _ = asking.source(url, state, job)
    found = asked.burst(job, burst)
    if json:
        as_json(found)
        return
    if csv_file is not None:
        write(csv_file, _csv(found).encode())
    drawn = to_file(lambda theme: burst_svg.drawn(found, theme=theme), svg, png, dark=dark)
    if not drawn and csv_file is None:
        _show(found)


def _csv(found: dict[str, Any]) -> str:
    """A row a rail and sample: from when to when, and what came and went."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("rail", "from_s", "to_s", "received_bytes", "sent_bytes"))
    for rail in found["rails"]:
        both = zip(rail["received_bytes"], rail["sent_bytes"], strict=True)
        for (began, ended), moved in zip(pairwise(found["at_us"]), both, strict=True):
            rows.writerow((rail["name"], began / 1e6, ended / 1e6, *moved))
    return out.getvalue()


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
