"""Templates to HTML, with everything escaped that is quoted. Used by `pages` alone.

Jinja2 is loaded at the first page: a driver that nobody looks at pays nothing for it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.kit.plain import visible
from holdfast.page import stacks, stories, waterfall, words
from holdfast.page.answers import state_of
from holdfast.page.tones import tone_of

if TYPE_CHECKING:
    from jinja2 import Environment


VIEW_MODULES = (
    "address",
    "ask",
    "awaited",
    "busy",
    "colours",
    "feed",
    "grid",
    "heat",
    "heatmap",
    "moments",
    "parts",
    "spans",
    "stage",
    "timeline",
    "view3d",
)
"""Of `static/views`, all that a page's own thread runs: told at once, for else a browser asks for
each once it has read the one that needs it, which took a third of the time to the first picture."""


def render(name: str, /, **facts: Any) -> str:
    """The template `name`, filled. What it does not get is an error, not an empty place."""
    return _environment().get_template(f"{name}.html").render(**facts)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("holdfast.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
    )
    made.filters |= {"part": part, "clock": stories.clock, "duration": words.duration}
    made.globals |= {
        "ranks": words.ranks,
        "stack_head": stacks.head,
        "offered": stacks.offered,
        "parts": stories.parts,
        "waterfall": waterfall.waterfall,
        "means": waterfall.MEANS,
        "state_of": state_of,
        "FINISHED": words.FINISHED,
        "tone_of": tone_of,
        "tally": tally,
        "VIEW_MODULES": VIEW_MODULES,
    }
    return made


def part(name: object) -> str:
    """A name as one part of an address."""
    return quote(str(name), safe="")


def tally(nodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """How many nodes are in each state, the most first."""
    return Counter(str(node["state"]) for node in nodes).most_common()


def _plain(value: object) -> object:
    """What is quoted has no signs that turn a line around or hide the rest."""
    return visible(value) if type(value) is str else value
