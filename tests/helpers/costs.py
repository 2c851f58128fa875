"""What each test costs: time on the clock, and of processors by it and the processes it waited for.

`--slowest N` lists the dearest. A shared fixture is paid by the test that asks for it first, and
what a shared process used by the one after which it is ended.
"""

import os
import time
from collections.abc import Iterator

import pytest


class Costs:
    """Notes each test's costs on its last report, which brings them home from every worker."""

    def __init__(self, listed: int) -> None:
        self.listed = listed
        self.costs: dict[str, tuple[float, float]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[BEGAN] = _now()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            clock, processor = _now()
            began = item.stash[BEGAN]
            report.user_properties.append(("cost", (clock - began[0], processor - began[1])))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cost" and report.when == "teardown":
                self.costs[report.nodeid] = value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.costs:
            return
        say = terminalreporter.write_line
        clock, processor = (sum(each) for each in zip(*self.costs.values(), strict=True))
        say(f"   clock  processors  {len(self.costs)} tests: {clock:.0f} s, {processor:.0f} s")
        dearest = sorted(self.costs.items(), key=lambda item: -item[1][1])
        for test, (clock, processor) in dearest[: self.listed]:
            say(f"{clock:6.1f} s  {processor:8.1f} s  {test}")


BEGAN = pytest.StashKey[tuple[float, float]]()


def _now() -> tuple[float, float]:
    spent = os.times()
    return time.monotonic(), sum(spent[:4])
