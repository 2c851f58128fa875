"""Fixtures for all tests."""

import asyncio
import os
import re
import signal
from collections.abc import Generator, Iterator

import pytest
import structlog
import warm_runs
from costs import Costs
from hypothesis import HealthCheck, Phase, settings

from holdfast.diagnostics.registry import only
from holdfast.kit import garbage

settings.register_profile(  # machines are noisy: no test is timed, nor is what draws its input
    "holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(  # whether a test fails is asked, not what is the least that fails it
    "unshrunk", settings.get_profile("holdfast"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("holdfast")


INHERITED = re.compile(
    r"HOLDFAST_(?!TEST_).*"
    r"|TORCHELASTIC_.*|MASTER_(ADDR|PORT)|((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE))"
    r"|.*_NUM_THREADS|(FORCE|NO)_COLOR|CLICOLOR.*|TTY_.*|COLUMNS|LINES"
)
"""What a machine, a CI or a rank may have set and a test would wonder at."""
GOGC = "400"
"""How far, in percent, the heap of a program in Go may grow before its garbage is collected. With
Go's own 100 that is a tenth of what kubectl takes, and a sixth of an API server's start."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest", type=int, help="list so many of the dearest tests")


def pytest_configure(config: pytest.Config) -> None:
    """Begin as from a terminal of a newcomer, however and wherever the tests were started.

    There is no event loop yet (pytest-asyncio else makes one that nobody closes), and SIGINT is
    heard (a shell has what it starts in the background ignore it).
    """
    for name in filter(INHERITED.fullmatch, list(os.environ)):
        del os.environ[name]
    os.environ["HOLDFAST_WARM_DIR"] = "/nowhere"  # no run takes what a developer keeps warm
    os.environ.setdefault("GOGC", GOGC)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/tmp")  # sockets need short paths (unix(7))
    if not hasattr(config, "workerinput"):
        warm_runs.make_room()
        config.add_cleanup(warm_runs.end)
    if listed := config.getoption("slowest"):
        config.pluginmanager.register(Costs(listed))
    _tell_defects_plainly()
    asyncio.set_event_loop(None)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _tell_defects_plainly() -> None:
    """As our processes do: drawn by rich, with all variables, a traceback takes a tenth of a
    second, and some tests meet a defect a hundred times."""
    *before, _ = structlog.get_config()["processors"]
    drawn = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, drawn])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Python's garbage collector rests until all tests are known: what was imported stays."""
    with garbage.kept():
        return (yield)


@pytest.fixture(scope="module")
def two_tests() -> Iterator[None]:
    """Nodes have the two tests whose rounds and costs the test counts with, whatever else there is
    by now: a new one in the registry changes no test but its own."""
    with only("compute", "allreduce"):
        yield


ALONE = {"driver", "protocol"}
"""Folders whose tests, but for those marked `torch`, need only what the driver needs."""


FIRST = "kubernetes"
"""The folder whose workers share a control plane each, which ends with the last test of it, and
the mark of tests that need one: those of other folders start one of their own, and come before.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs without torch; begin with the files in which a slow test is, but do not leave
    the folder that shares a control plane in between; what starts one itself begins before it.
    """
    for item in items:
        if item.path.parent.name in ALONE and not item.get_closest_marker("torch"):
            item.add_marker("alone")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    first = {item.path for item in items if item.get_closest_marker(FIRST)}

    def place(item: pytest.Item) -> tuple[bool, bool]:
        begun = item.path.parent.name == FIRST or item.path in first
        return not begun, item.path not in slow

    items.sort(key=place)
