"""What is seen: lines of at most a terminal's width, as many as it has, each with a style. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from holdfast.cli import asking
from holdfast.cli.output import COLOURS, PIPED_COLUMNS
from holdfast.cli.top.facts import Facts, Told
from holdfast.cli.top.screen import TABS, Confirming, Reading, Screen, Typing, items
from holdfast.kit.plain import visible
from holdfast.page.tones import tone_of
from holdfast.page.words import duration, ranks, sparkline
from holdfast.protocol.counts import plural

KEYS = "↑↓ row  ←→ tab  enter open  e evict  s stop  k stacks  q quit"
LEAST_ROWS, LEAST_COLUMNS = 8, 20


class Line(NamedTuple):
    """`style`: "", bold, dim, reverse, or a colour."""

    text: str
    style: str = ""


def plain(value: object) -> str:
    """On one line, and without what a terminal would obey."""
    return visible(" ".join(str(value).split()))


def cut(text: str, width: int) -> str:
    """As wide as it may be; what is cut ends in `…`."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"


def drawn(screen: Screen, facts: Facts, width: int, height: int) -> list[Line]:
    """The whole screen: never more lines than `height`, none wider than `width`."""
    if height < LEAST_ROWS or width < LEAST_COLUMNS:
        return [Line(cut("the terminal is too small", width))][:height]
    if isinstance(screen.mode, Reading):
        lines = _reading(screen.mode, width, height)
    else:
        head, foot = list(_head(screen, facts, width)), list(_foot(screen, width))
        room = max(0, height - len(head) - len(foot))
        body = _table(screen, facts, room) if facts.at else []
        lines = [*head, *body, *[Line("")] * (room - len(body)), *foot]
    return [Line(cut(each.text, width), each.style) for each in lines[:height]]


def snapshot(facts: Facts) -> list[str]:
    """All of it, for a reader that is no terminal."""
    screen = Screen(job=facts.job)
    lines = [line.text for line in _head(screen, facts, PIPED_COLUMNS)][:-1]
    for tab, title in enumerate(TABS):
        lines += ["", title.upper()]
        lines += [line.text.rstrip() for line in _rows(Screen(tab=tab), facts, marked=False)]
    return lines


# ---------------------------------------------------------------- head and foot


def _head(screen: Screen, facts: Facts, width: int) -> Iterator[Line]:
    open_ = sum(bool(each["open"]) for each in facts.incidents)
    if not facts.at:
        yield Line("holdfast  asks the driver", "bold")
        yield from (Line(part, "yellow") for said in _trust(facts) for part in wrapped(said, width))
        return
    there = f"{plural(len(facts.jobs), 'job')} · {plural(len(facts.nodes), 'node')}"
    more = f" · {plural(open_, 'open incident')}" if open_ else ""
    yield Line(f"holdfast  {there}{more}  {facts.at}", "bold")
    for said in _trust(facts):
        yield from (Line(part, "yellow") for part in wrapped(said, width))
    job = facts.named(facts.job)
    if job is not None:
        yield from _job(job, facts)
    named = (f"[{each}]" if at == screen.tab else f" {each} " for at, each in enumerate(TABS))
    yield Line(" ".join(named))


def _trust(facts: Facts) -> Iterator[str]:
    if facts.away:
        of = f"What follows is of {facts.at}. " if facts.at else ""
        yield f"The driver is away. {of}{plain(facts.away)}"
    elif not facts.alive:
        yield "No driver runs here now: this is what it wrote down."
    elif facts.stale:
        yield plain(facts.stale)


def _job(job: Told, facts: Facts) -> Iterator[Line]:
    state = asking.state_of(job, alive=facts.alive)
    yield Line(
        f"{plain(job['name'])}  {state} for {duration(job['since_s'])}", COLOURS[tone_of(state)]
    )
    parts = []
    if job["step"] is not None:
        parts.append(f"step {job['step']:,}")
    if job["step_s"] is not None:
        best = job["best_step_s"]
        parts.append(f"{job['step_s']:.3g} s a step" + (f" (best {best:.3g} s)" if best else ""))
    if job["loss"] is not None:
        parts.append(f"loss {job['loss']:.4g} {sparkline(list(facts.losses), 20)}".rstrip())
    yield Line("  at    " + (" · ".join(parts) or "no step yet"))
    waits = job["parked"] or job["waiting"]
    yield Line(f"  {'waits' if waits else 'last '} {plain(waits or job['why'])}")


def _foot(screen: Screen, width: int) -> Iterator[Line]:
    match screen.mode:
        case Typing(node=node, text=text):
            yield Line(f"Evict {plain(node)}: why? (enter goes on, escape leaves it)", "bold")
            shown = plain(f"{text}_")
            yield Line(f"> {shown[-(width - 3) :]}")
        case Confirming(question=question, costs=costs):
            yield from (Line(part) for part in wrapped(plain(costs), width))
            yield Line(f"{plain(question)}  y does it, any other key does not", "bold")
        case _:
            yield Line(plain(screen.said), "bold")
            yield Line(KEYS, "dim")


def wrapped(text: str, width: int) -> list[str]:
    """Broken between words where that is possible."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += chop_cells(word, width)
    return [line for line in lines if line]


def _reading(mode: Reading, width: int, height: int) -> list[Line]:
    """Its title, what fits, and how to go on."""
    lines = [part for line in mode.lines for part in (_parts(line, width) or [""])]
    top = min(mode.top, max(0, len(lines) - 1))
    room = height - 2
    shown = lines[top : top + room]
    left = len(lines) - top - len(shown)
    more = f"{plural(left, 'more line')}: ↓  " if left else ""
    body = [*map(Line, shown), *[Line("")] * (room - len(shown))]
    return [Line(plain(mode.title), "bold"), *body, Line(f"{more}escape goes back", "dim")]


def _parts(line: str, width: int) -> list[str]:
    return chop_cells(visible(line.expandtabs(4)), width)


# ---------------------------------------------------------------- tables


def _table(screen: Screen, facts: Facts, room: int) -> list[Line]:
    """The part of the tab's rows around the one that is chosen."""
    rows = _rows(screen, facts, marked=True)
    if len(rows) <= room:
        return rows
    head, body = rows[:1], rows[1:]
    fit = max(1, room - 1)
    first = min(max(0, screen.row(facts) - fit // 2), len(body) - fit)
    return [*head, *body[first : first + fit]][:room]


def _rows(screen: Screen, facts: Facts, *, marked: bool) -> list[Line]:
    tab = TABS[screen.tab]
    there = items(screen.tab, facts)
    if not there:
        return [Line(NONE[tab])]
    columns, of = COLUMNS[tab]
    cells = [[plain(value) for value in of(each, facts)] for each in there]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [Line(f"  {_laid(columns, widths)}", "bold")]
    for at, row in enumerate(cells):
        chosen = marked and at == screen.row(facts)
        mark = "> " if chosen else "  "
        tone = COLOURS[tone_of(row[1])]
        lines.append(Line(mark + _laid(row, widths), "reverse" if chosen else tone))
    return lines


def _laid(cells: Sequence[str], widths: Sequence[int]) -> str:
    laid = (set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(laid).rstrip()


def _of_job(job: Told, facts: Facts) -> tuple[object, ...]:
    ready = sum(len(place["ranks"]) for place in job["places"] if place["connected"])
    return (
        job["name"],
        asking.state_of(job, alive=facts.alive),
        duration(job["since_s"]),
        f"{ready}/{job['ranks']}",
        "" if job["step"] is None else f"{job['step']:,}",
        sum(budget["used"] for budget in job["restarts"].values()),
    )


def _of_rank(rank: Told, _facts: Facts) -> tuple[object, ...]:
    still = rank.get("still_s") or 0.0
    return (
        rank["rank"],
        rank.get("state") or rank.get("process") or "",
        rank.get("node", ""),
        rank.get("pid") or "",
        rank.get("step", ""),
        rank.get("phase", ""),
        duration(still) if still >= 1 else "",
        rank.get("verdict") or rank.get("waits_in") or "",
    )


def _of_node(node: Told, _facts: Facts) -> tuple[object, ...]:
    who = "standby" if node["standby"] else ranks(node["ranks"])
    return (node["name"], node["state"], node["job"] or "", who, node["strikes"], node["reason"])


def _of_incident(incident: Told, _facts: Facts) -> tuple[object, ...]:
    took = incident["down_s"]
    return (
        incident["number"],
        "open" if incident["open"] else "over",
        incident["kind"],
        incident["node"] or "",
        "" if took is None else duration(took),
        incident["latest"],
    )


Cells = Callable[[Told, Facts], tuple[Any, ...]]
COLUMNS: dict[str, tuple[tuple[str, ...], Cells]] = {
    "jobs": (("NAME", "STATE", "FOR", "READY", "STEP", "RESTARTS"), _of_job),
    "ranks": (("RANK", "STATE", "NODE", "PID", "STEP", "PHASE", "STILL", "WAITS IN"), _of_rank),
    "nodes": (("NODE", "STATE", "JOB", "RANKS", "STRIKES", "WHY"), _of_node),
    "incidents": (("NUMBER", "STATE", "KIND", "NODE", "COST", "WHAT"), _of_incident),
}
NONE = {
    "jobs": "no jobs",
    "ranks": "no rank is heard of",
    "nodes": "no nodes",
    "incidents": "no incident",
}
