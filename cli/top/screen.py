"""What keys do: from a screen and a key to the next screen, and what is to be done. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.cli.top.facts import Facts, Told, evicting, stopping

TABS = ("jobs", "ranks", "nodes", "incidents")
REASON_CHARACTERS = 500
"""The driver takes no longer one."""


@dataclass(frozen=True)
class Order:
    """Something to be asked of the driver: evict, stop, stacks, why, incident, or quit."""

    what: str
    name: str = ""
    reason: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Typing:
    """A reason is being typed."""

    node: str
    text: str = ""


@dataclass(frozen=True)
class Confirming:
    """What it costs is being read; `y` does it."""

    order: Order
    question: str
    costs: str


@dataclass(frozen=True)
class Reading:
    """Lines over everything else, from the line `top` on."""

    title: str
    lines: Sequence[str]
    top: int = 0


Mode = Typing | Confirming | Reading | None


@dataclass(frozen=True)
class Screen:
    """Which tab, which row of each, which job, and what is being typed or read."""

    tab: int = 0
    rows: Mapping[int, int] = field(default_factory=dict)
    job: str = ""
    mode: Mode = None
    said: str = ""

    def row(self, facts: Facts) -> int:
        """The row that is chosen: there may be fewer now."""
        return max(0, min(self.rows.get(self.tab, 0), len(items(self.tab, facts)) - 1))

    def chosen(self, facts: Facts) -> Told | None:
        there = items(self.tab, facts)
        return there[self.row(facts)] if there else None


def items(tab: int, facts: Facts) -> Sequence[Told]:
    of_tabs: tuple[Sequence[Told], ...] = (facts.jobs, facts.ranks, facts.nodes, facts.incidents)
    return of_tabs[tab]


def press(screen: Screen, key: str, facts: Facts) -> tuple[Screen, Order | None]:
    """What a key does now."""
    match screen.mode:
        case Typing():
            return _typed(screen, screen.mode, key, facts)
        case Confirming():
            done = screen.mode.order if key in ("y", "Y") else None
            said = "" if done else "nothing was done"
            return replace(screen, mode=None, said=said), done
        case Reading():
            return _read(screen, screen.mode, key), None
        case None:
            return _browsed(screen, key, facts)


def _browsed(screen: Screen, key: str, facts: Facts) -> tuple[Screen, Order | None]:
    screen = replace(screen, said="")
    if key == "q":
        return screen, Order("quit")
    if key in MOVES:
        return MOVES[key](screen, facts), None
    asked = ASKS.get(key)
    return asked(screen, facts) if asked else (screen, None)


def _rows(screen: Screen, facts: Facts, by: int) -> Screen:
    there = len(items(screen.tab, facts))
    row = max(0, min(screen.row(facts) + by, there - 1))
    moved = replace(screen, rows={**screen.rows, screen.tab: row})
    job = moved.chosen(facts) if screen.tab == 0 else None
    return replace(moved, job=job["name"]) if job else moved


def _tab(screen: Screen, by: int) -> Screen:
    return replace(screen, tab=(screen.tab + by) % len(TABS))


PAGE_ROWS = 10

MOVES: Mapping[str, Any] = {
    "up": lambda screen, facts: _rows(screen, facts, -1),
    "down": lambda screen, facts: _rows(screen, facts, 1),
    "page up": lambda screen, facts: _rows(screen, facts, -PAGE_ROWS),
    "page down": lambda screen, facts: _rows(screen, facts, PAGE_ROWS),
    "left": lambda screen, _: _tab(screen, -1),
    "right": lambda screen, _: _tab(screen, 1),
    "tab": lambda screen, _: _tab(screen, 1),
    "escape": lambda screen, _: replace(screen, tab=0),
}

Done = tuple[Screen, Order | None]


def _open(screen: Screen, facts: Facts) -> Done:
    """A job's ranks, a rank's stack, why a node is as it is, an incident's evidence."""
    found = screen.chosen(facts)
    if found is None:
        return screen, None
    match TABS[screen.tab]:
        case "jobs":
            return replace(screen, job=found["name"], tab=1), None
        case "ranks":
            return screen, Order("stacks", facts.job, ranks=(found["rank"],))
        case "nodes":
            return screen, Order("why", found["name"])
        case _:
            return screen, Order("incident", str(found["number"]))


def _evict(screen: Screen, facts: Facts) -> Done:
    """The node of the row: begins with the reason."""
    found, tab = screen.chosen(facts), TABS[screen.tab]
    name = (found or {}).get({"ranks": "node", "nodes": "name", "incidents": "node"}.get(tab, ""))
    if not name:
        said = "choose a node first: its row, or that of one of its ranks"
        return replace(screen, said=said), None
    return replace(screen, mode=Typing(node=name)), None


def _stop(screen: Screen, facts: Facts) -> Done:
    name = screen.job or facts.job
    if not name:
        return replace(screen, said="there is no job"), None
    asked = Confirming(Order("stop", name), f"Stop {name}?", stopping(facts, name))
    return replace(screen, mode=asked), None


MOST_SAMPLED = 1_024
"""The driver takes no more at once."""


def _stacks(screen: Screen, facts: Facts) -> Done:
    """Of the rank that is chosen, or of all of the job."""
    found = screen.chosen(facts) if TABS[screen.tab] == "ranks" else None
    some = [found] if found else list(facts.ranks)[:MOST_SAMPLED]
    if not some:
        return replace(screen, said="no rank runs"), None
    numbers = tuple(each["rank"] for each in some)
    return replace(screen, said="stacks are being taken"), Order("stacks", facts.job, ranks=numbers)


ASKS: Mapping[str, Any] = {"enter": _open, "e": _evict, "s": _stop, "k": _stacks}


def _typed(screen: Screen, mode: Typing, key: str, facts: Facts) -> Done:
    if key == "escape":
        return replace(screen, mode=None, said="nothing was done"), None
    if key == "enter":
        return _reasoned(screen, mode, facts), None
    text = mode.text[:-1] if key == "backspace" else mode.text
    if len(key) == 1 and key.isprintable() and len(text) < REASON_CHARACTERS:
        text += key
    return replace(screen, mode=replace(mode, text=text)), None


def _reasoned(screen: Screen, mode: Typing, facts: Facts) -> Screen:
    reason = mode.text.strip()
    if not reason:
        return screen
    order = Order("evict", mode.node, reason=reason)
    asked = Confirming(order, f"Evict {mode.node}?", evicting(facts, mode.node))
    return replace(screen, mode=asked)


LINES = {"up": -1, "down": 1, "page up": -PAGE_ROWS, "page down": PAGE_ROWS}


def _read(screen: Screen, mode: Reading, key: str) -> Screen:
    if key in LINES:
        top = max(0, min(mode.top + LINES[key], len(mode.lines) - 1))
        return replace(screen, mode=replace(mode, top=top))
    return replace(screen, mode=None) if key in ("q", "escape", "enter", "left") else screen
