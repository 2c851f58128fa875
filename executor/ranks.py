"""Starts the ranks of an epoch and tells how each one ended.

Called by `executor.loop`. Must not decide whether a rank should run.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from signal import SIGKILL

import msgspec
from msgspec.structs import replace

from holdfast.checkpoint.slot_folder import has_snapshots
from holdfast.executor.adapters import outputs
from holdfast.executor.adapters.children import Exit
from holdfast.executor.adapters.echo import Echo
from holdfast.executor.adapters.reentry import Reentry
from holdfast.executor.adapters.room import is_full, to_free_mib
from holdfast.executor.adapters.sockets import Sockets
from holdfast.executor.command import NotStartable
from holdfast.executor.core import events as ev
from holdfast.executor.core.actions import StartRanks
from holdfast.executor.errors import all_step, last_step, rank_error, saved_steps
from holdfast.executor.spawner import Spawner
from holdfast.kit.cgroup import Kills
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import forks
from holdfast.protocol.exitcodes import of_signal
from holdfast.protocol.forks import Fork
from holdfast.protocol.messages import Desired, RankError, RankStatus, Seat
from holdfast.protocol.rankenv import RANK_DIR, REENTRY, SOCKETS, NodeFacts, rank_environment

_log = LazyLogger()

Tell = Callable[[ev.AnyEvent], None]


class Ranks:
    """The ranks that were started, by pid. `echo`: who shows what they write; None: nobody."""

    def __init__(
        self,
        spawner: Spawner,
        reentry: Reentry,
        node: NodeFacts,
        tell: Tell,
        *,
        echo: Echo | None = None,
    ) -> None:
        self._spawner = spawner
        self._reentry = reentry
        self._echo = echo
        self._node = node
        self._tell = tell
        self._kills = Kills()
        self._sockets = Sockets()
        self._shared: dict[str, str] = {}
        self.pids: dict[int, int] = {}

    async def start(self, order: StartRanks) -> None:
        """Start every seat of `order`, all at once; each is told as it happens."""
        self._drop_old_rings(order)
        outputs.drop_old(self._node.paths)
        self._kills = Kills()
        self._shared = self._make_sockets(order)
        await asyncio.gather(*(self._start(order, seat) for seat in order.seats))
        self._reentry.drop()

    def look(self) -> None:
        """To be called every few seconds while ranks run: who is killed for memory, and when."""
        self._kills.look()

    def cleared(self) -> None:
        """None of them is left."""
        self.pids.clear()
        self._sockets.drop()
        if self._echo is not None:
            self._echo.drop()

    def close(self) -> None:
        """The executor ends, and none of them is left."""
        self._sockets.drop()
        if self._echo is not None:
            self._echo.close()

    def _make_sockets(self, order: StartRanks) -> dict[str, str]:
        task = order.desired.task
        assert task is not None
        folder = self._sockets.make(self._spawner.environment(task), task.workdir)
        return {REENTRY: self._reentry.name} | ({SOCKETS: folder} if folder else {})

    def _drop_old_rings(self, order: StartRanks) -> None:
        """Nothing that wrote them is left, and they lie in memory."""
        rings = self._node.paths.rings
        for path in chain(rings.glob("*.ring"), rings.glob("*.spans")):
            if not path.name.startswith(f"{order.desired.job}.e{order.desired.epoch}."):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:  # a rank has made it something else than a file
                    _log.warning("old ring stays", ring=str(path), why=error.strerror)

    async def _start(self, order: StartRanks, seat: Seat) -> None:
        job, epoch = order.desired.job or "", order.desired.epoch
        try:
            pid = await self._spawn(order, seat)
        except NotStartable as error:
            self._refuse(job, epoch, seat, error)
        else:
            self._tell(ev.RankStarted(job=job, epoch=epoch, rank=seat.rank, pid=pid))

    async def _spawn(self, order: StartRanks, seat: Seat) -> int:
        desired, task = order.desired, order.desired.task
        assert task is not None
        placed = rank_environment(desired, seat, self._node, agent_store=order.agent_store)
        env = placed | self._shared
        folder = Path(env[RANK_DIR])
        self._make_folders(folder)
        self._note(folder, desired, seat)
        logs = folder / "stdout.log", folder / "stderr.log"
        stdout, stderr = map(_open_log, logs)
        outputs.show(self._node.paths, folder, desired, seat.rank)
        if self._echo is not None:
            self._echo.follow(seat.rank, *logs)
        on_exit = partial(self._ended, desired.job or "", desired.epoch, seat.rank, folder)
        try:
            pid = self._reentry.begin(seat, env, stdout=stdout, stderr=stderr, on_exit=on_exit)
            pid = pid or await self._spawner.start_rank(
                task,
                env,
                title=f"rank-{seat.rank}",
                record=seat.rank == order.seats[0].rank,
                stdout=stdout,
                stderr=stderr,
                on_exit=on_exit,
            )
        finally:
            os.close(stdout)
            os.close(stderr)
        self.pids[seat.rank] = pid
        return pid

    def _make_folders(self, folder: Path) -> None:
        for field, path in (("log_root", folder), ("memory", self._node.paths.rings)):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                raise NotStartable(
                    126,
                    f"{field}: {str(path)!a} cannot be made on this node ({_why(error)}). "
                    "Give a folder that this user may write to.",
                ) from error

    def _note(self, folder: Path, desired: Desired, seat: Seat) -> None:
        """Before the fork, so that there is no rank that is not written down."""
        fork = Fork(
            rank=seat.rank,
            epoch=desired.epoch,
            node=desired.node,
            generation=desired.generation,
            term=desired.term,
        )
        path = folder / forks.FILE
        out = _open_log(path)
        try:
            os.write(out, msgspec.json.encode(fork) + b"\n")
        except OSError as error:
            raise _not_writable(path, error) from error
        finally:
            os.close(out)

    def _refuse(self, job: str, epoch: int, seat: Seat, error: NotStartable) -> None:
        told = RankError(message=str(error), not_startable=True)
        self._tell(
            ev.RankNotStarted(
                job=job, epoch=epoch, rank=seat.rank, exit_code=error.exit_code, error=told
            )
        )

    def _ended(self, job: str, epoch: int, rank: int, folder: Path, pid: int, end: Exit) -> None:
        if self.pids.get(rank) == pid:
            del self.pids[rank]
        failed = end.code != 0
        killed = end.signal == SIGKILL or end.code == of_signal(SIGKILL)  # or what its shell ran
        starved = self._kills.look() if killed else None
        ring = self._node.paths.ring(job, epoch, rank)
        rings = self._node.paths.rings.glob(f"{job}.e{epoch}.r*.ring")
        peers = list(rings) if failed else []
        status = RankStatus(
            rank=rank,
            state="exited",
            pid=pid,
            exit_code=end.code,
            signal=end.signal,
            out_of_memory=starved is not None,
            memory_limit_bytes=starved.limit_bytes if starved is not None else 0,
            error=_error(folder, end) if failed else None,
            step=last_step(ring),
            saved=saved_steps(ring, peers),
            all_step=all_step(ring, peers) if failed else None,
            sealed=has_snapshots(self._node.paths.slots(job, rank)),
        )
        self._tell(ev.RankEnded(job=job, epoch=epoch, status=status))


def _error(folder: Path, end: Exit) -> RankError | None:
    """What a rank that failed says itself; where its disk is full, also which that is and what to
    free, and what it died of where there was no room for its last words.
    """
    error, mib = rank_error(folder), to_free_mib(folder)
    said = error.message.rstrip(".") if error is not None and error.exception else ""
    if end.signal or not mib:
        return error
    if not said and is_full(folder):
        said = f"OSError: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"
        error = RankError(
            message=said, exception=OSError.__name__, traceback=error.traceback if error else ""
        )
    if error is None or os.strerror(errno.ENOSPC) not in said:
        return error
    where = f"the disk of {folder.parents[1]} is full: free at least {mib} MiB there"
    return replace(error, message=f"{said} ({where})")


def _open_log(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> NotStartable:
    return NotStartable(
        126,
        f"log_root: {str(path)!r} cannot be written on this node ({_why(error)}). "
        "Give a folder that this user may write to.",
    )


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
