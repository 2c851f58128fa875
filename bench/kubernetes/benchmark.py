"""The benchmark on Kubernetes: sizes one after the other, each with its rounds.

Called by `bench.main`.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.kubernetes import turns
from holdfast.bench.kubernetes.seen import Late
from holdfast.bench.kubernetes.sizes import Size
from holdfast.bench.kubernetes.slopes import slopes
from holdfast.bench.kubernetes.stage import Stage
from holdfast.bench.kubernetes.ways import Plain
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.supervise import DoesNotStayUp
from holdfast.lab import postgres
from holdfast.lab.emulator.kubelet.joined import NotReady as NodesNotReady
from holdfast.lab.kubernetes.build import CONTROL_PLANE, KWOK, BuildFailed, NotHere, build
from holdfast.lab.kubernetes.plane import KubectlFailed, NotReady

FAILURES = (
    Late,
    NotHere,
    BuildFailed,
    NotReady,
    NodesNotReady,
    KubectlFailed,
    postgres.NotInstalled,
    postgres.Failed,
    DoesNotStayUp,
    TemporaryError,
    PermanentError,
)


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    sizes: Sequence[Size],
    as_shipped: bool = False,
) -> None:
    """Play all rounds of all sizes, smallest first, in a folder that is removed afterwards.

    Raises `Incomplete`.
    """
    try:
        built(say)
        say("a control plane, kwok and emulated nodes")
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
            _played(Stage(Path(root), _way(as_shipped)), rounds, take, say, sizes)
    except* FAILURES as failures:
        reasons = "; ".join(str(reason) for reason in failures.exceptions)
        raise Incomplete(reasons) from failures


def built(say: Callable[[str], None]) -> None:
    """Have the programs. Raises `NotHere`, `BuildFailed`."""
    for module in (CONTROL_PLANE, KWOK):
        build(say, module)


def _way(as_shipped: bool) -> Plain:
    if not as_shipped:
        return Plain()
    from holdfast.bench.kubernetes.shipped import AsShipped  # needs extras

    return AsShipped()


def _played(
    staged: Stage,
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    sizes: Sequence[Size],
) -> None:
    measured: dict[Size, list[Try]] = {}

    def told(one: Try) -> None:
        take(one)
        say(f"    {one.figure}, {one.system}: {one.value or 0:.2f} {one.unit}")

    with staged as stage:
        for size in sorted(sizes):
            say(f"{size}: fake nodes")
            stage.grow(size.nodes)
            for number in range(rounds):
                for one in turns.play(stage, size, number, say):
                    measured.setdefault(size, []).append(one)
                    told(one)
    for slope in slopes(measured):
        told(slope)
