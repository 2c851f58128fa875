"""`holdfast nodes --worst`: the nodes, links and versions of jobs against which most is held."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from typer.core import TyperGroup

from holdfast.cli import asking
from holdfast.cli.output import NARROW, as_json, console, last_word, say, table, toned
from holdfast.cli.shared import State, Url
from holdfast.cli.tabular import Format, write
from holdfast.page.words import duration

MOST = 10
"""Of each, where nobody says how many."""


class Parser(TyperGroup):
    """Takes `--worst` with and without a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        place = args.index("--worst") + 1 if "--worst" in args else 0
        following = "".join(args[place : place + 1])
        option = following.startswith("-") and not following[1:].isdigit()
        if place and (not following or option or following in self.commands):
            args = [*args[:place], str(MOST), *args[place:]]
        return super().parse_args(ctx, args)


def show(most: int, form: Format, url: Url, state: State, *, json: bool) -> None:
    """Each table that has rows, and a sentence where none has."""
    asked, alive = asking.source(url, state)
    found = asked.worst(most)
    if json:
        as_json(found)
        return
    if form is not Format.TABLE:
        write(list(rows_of(found)), form)
        return
    nodes, links, versions = found["nodes"], found["links"], found["versions"]
    stores, cluster = (
        found.get("stores", ()),
        found.get("cluster", ()),
    )  # an earlier driver's has none
    if not nodes:
        say("nothing is held against any node")
    tables = (
        _nodes(nodes),
        (("link from", "to", "last", "told by"), map(_link, links)),
        (("job", "version", "faults 7 d", "last"), map(_version, versions)),
        (("store", "last", "fails for"), map(_store, stores)),
        (("of the cluster", "over", "last"), map(_outage, cluster)),
    )
    for heads, rows in tables:
        if cells := list(rows):
            table(heads, cells)
    if not alive:
        last_word()


def rows_of(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All tables as one, for other programs: `of` says which of them a row is of."""
    names = (("node", "nodes"), ("link", "links"), ("version", "versions"))
    for of, name in (*names, ("store", "stores"), ("cluster", "cluster")):
        for each in found.get(name, ()):
            yield {"of": of, **each}


def _nodes(nodes: list[dict[str, Any]]) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """Heads and rows; in a narrow terminal no more than say whom and why."""
    heads = ("node", "suspicion", "strikes", "tests", "state", "accused by")
    rows = [_node(node) for node in nodes]
    if console().width >= NARROW:
        return heads, rows
    return (*heads[:3], heads[-1]), [(*row[:3], row[-1]) for row in rows]


def _node(node: dict[str, Any]) -> tuple[object, ...]:
    accused_by = ", ".join(node["accused_by"])
    suspicion = f"{node['suspicion']:.2g}" if node["suspicion"] else ""
    counts = node["strikes"] or None, node["tests"] or None
    return node["node"], suspicion, *counts, toned(node["state"]), accused_by


def _link(link: dict[str, Any]) -> tuple[object, ...]:
    told_by = ", ".join([*(["tests"] if link["convicted"] else []), *link["accused_by"]])
    return link["source"], link["target"], _ago(link), told_by


def _store(store: dict[str, Any]) -> tuple[object, ...]:
    return store["url"], _ago(store), ", ".join(store["jobs"]) or "nobody any more"


def _outage(outage: dict[str, Any]) -> tuple[object, ...]:
    return outage["what"], "yes" if outage["over"] else "no", _ago(outage)


def _ago(told: dict[str, Any]) -> str:
    return f"{duration(told['ago_s'])} ago"


def _version(version: dict[str, Any]) -> tuple[object, ...]:
    return version["job"], version["version"], version["faults"], _ago(version)
