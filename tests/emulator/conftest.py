"""A real emulated cluster of each kind that this machine allows."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running_keeper import RunningKeeper, gone

from holdfast.keeper import state as states
from holdfast.lab.emulator.inside import path_in
from holdfast.lab.emulator.leftovers import look
from holdfast.lab.emulator.namespaces import Kind, best_kind


class RunningEmulator(RunningKeeper):
    """An emulator process on a folder."""

    module = "holdfast.lab.emulator.main"

    def __init__(self, root: Path, kind: Kind) -> None:
        socket = str(root / "driver.sock")
        wanted = ["--nodes", "2", "--racks", "2", "--driver-socket", socket, "--kind", kind]
        super().__init__(root, *wanted)

    def scratch(self, name: str = "node-1") -> Path:
        return path_in(self.node(name), super().scratch(name))


BEST = Kind.ROOT if os.geteuid() == 0 else Kind.USER


@pytest.fixture
def kind() -> Kind:
    """What nodes are made of; a test may ask for another kind by parametrizing it."""
    return BEST


@pytest.fixture
def emulator(tmp_path: Path, kind: Kind) -> Iterator[RunningEmulator]:
    """An emulated cluster of two nodes; started."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    running = RunningEmulator(tmp_path / "run", kind)
    try:
        running.start()
        yield running
    finally:
        running.end()
        run_id = running.state.run_id if states.load(running.root) else "none"
    left = look(run_id, running.root)
    assert left.count == 0, left


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    return gone
