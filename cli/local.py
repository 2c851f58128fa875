"""A driver with nodes of this machine, in the foreground: `holdfast driver --local-nodes N`.

Called by the command `driver`. Must not know a job.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from holdfast.cli import find
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import warn
from holdfast.cli.pair import Pair
from holdfast.keeper import state as keeper_states
from holdfast.kit.files import private_folder
from holdfast.kit.signals import taken
from holdfast.protocol import exitcodes
from holdfast.protocol.counts import plural
from holdfast.protocol.paths import RunPaths

LOOK_S = 0.1


def serve(state: Path, driver_options: list[str], *, nodes: int, standbys: int) -> int:
    """Until a signal; an exit code. Raises `Stopped` where driver or keeper does not stay up."""
    paths = RunPaths(state.expanduser().absolute())
    if address := find.address(paths.root):
        raise Stopped(
            f"--state: a driver runs on {state} already, at {address}.",
            fix="Stop that one first, or name another folder.",
            code=exitcodes.TRY_AGAIN,
        )
    _prepare(paths.root, nodes + standbys)
    told: list[int] = []
    with taken(lambda number, _: told.append(number)), ExitStack() as up:
        pair = Pair(paths)
        up.callback(pair.end)
        pair.start(*driver_options, nodes=nodes, standbys=standbys)
        _look_after(pair, told, lambda: find.address(paths.root), _greeting(state, nodes, standbys))
        _say("ending: the nodes and all that runs on them first")
    return exitcodes.OK


def _prepare(root: Path, nodes: int) -> None:
    """Make the folder. Raises `Stopped` where it cannot be, or has nodes already, but others."""
    try:
        private_folder(root)
        kept = keeper_states.load(root)
    except OSError as error:
        raise Stopped(
            f"--state: {root}: {error.strerror}.",
            fix="Name another folder.",
            code=exitcodes.CONFIGURATION,
        ) from error
    except ValueError as error:
        raise Stopped(str(error), code=exitcodes.CONFIGURATION) from error
    if kept and len(kept.nodes) != nodes:
        raise misused(
            f"--state: {root} has {plural(len(kept.nodes), 'node')} from before, "
            f"but --local-nodes and --local-standbys ask for {nodes}.",
            f"Ask for {len(kept.nodes)} in all, or name another folder.",
        )


def _look_after(
    pair: Pair, told: list[int], address: Callable[[], str | None], greeting: str
) -> None:
    """Both stay up until we are told to end; where the driver is, is said each time it changes."""
    said: str | None = None
    pause = threading.Event()  # never set: a wait that a signal's handler may enter
    while not told:
        pause.wait(LOOK_S)
        pair.look_after()
        now = address()
        if now and now != said:
            said = now
            _say(f"driver at {now}; {greeting}")


def _greeting(state: Path, nodes: int, standbys: int) -> str:
    more = f" and {plural(standbys, 'standby')}" if standbys else ""
    here = f"{plural(nodes, 'node')}{more} on this machine"
    return f"{here}. In another terminal: holdfast submit JOB.yaml --state {state}"


def _say(sentence: str) -> None:
    warn(sentence)
    sys.stderr.flush()
