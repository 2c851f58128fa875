"""The checkpoint agent of a node: `python -m holdfast.checkpoint.agent`, the executor's child.

Reads orders on stdin and writes reports on stdout (`agent_protocol`), and ends when stdin closes.
Keeps the snapshots in the node's memory whole and known, and writes what is due to the store. Must
not load torch, and must not be in the ranks' way.
"""

import os
import selectors
import sys
from collections import deque
from threading import Event, Thread
from typing import NoReturn

import msgspec

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport, line, order
from holdfast.checkpoint.memory import Memory
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.peer_host import Host
from holdfast.checkpoint.peer_sender import Sender
from holdfast.checkpoint.storekeeper import StoreKeeper
from holdfast.kit.clock import SystemClock
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import nodeenv

SCAN_S = 0.1
"""How often the seals are looked at."""

MAX_NOTES = 20


class Agent:
    """Folds orders and what lies in memory and store into reports."""

    def __init__(self) -> None:
        self._log = LazyLogger()
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)
        self._memory: Memory | None = None
        self._order: AgentOrder | None = None
        self._last: AgentReport | None = None
        self.wake = os.eventfd(0)
        """Readable once the store's side has something new to report."""
        self._closed = Event()
        self._pace = Pace(SystemClock(), self._closed.wait)
        self._keeper = StoreKeeper(SystemClock(), self._tell, self._pace, changed=self._changed)
        self._host: Host | None = None
        self._sender = Sender(self._pace, self._tell)
        self._threads = [
            Thread(target=self._keeper.run, name="store", daemon=True),
            Thread(target=self._sweep, name="sweep", daemon=True),
            Thread(target=self._fill, name="fill", daemon=True),
            Thread(target=self._send, name="send", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def take(self, given: AgentOrder) -> None:
        """Follow this order; what was believed for the job is not looked at again."""
        self._order = given
        self._notes.clear()
        if self._memory:
            self._memory.early.leave()
        forgotten = given.forget_job == given.job
        slots = {} if forgotten else given.slots
        self._memory = Memory(given.job, slots, self._tell, before=self._memory)
        if not forgotten:  # what it has still to write keeps to its bounds
            self._pace.limits = given.upload
        self._keeper.give(given)
        if given.peer_interval_steps and self._host is None:
            self._host = self._new_host(nodeenv.address_of(os.environ))
        if self._host:
            self._host.give(given)
        self._sender.give(given)

    def _new_host(self, address: str) -> Host | None:
        try:
            return Host(address)
        except OSError as error:
            self._tell(f"no copies of other nodes' snapshots are taken at {address}: {error}")
            return None

    def report(self) -> AgentReport | None:
        """What has changed since the last report, if anything."""
        given, memory, keeper = self._order, self._memory, self._keeper
        if given is None or memory is None or (given.forget_job and keeper.settled_id != given.id):
            return None
        settled, error = keeper.settled_id == given.id, keeper.error
        snapshots = memory.look()  # after the store's error: what failed to be written is in it
        skips = memory.skipped(given.epoch)
        reasons = skips.reasons
        found = AgentReport(
            id=given.id,
            job=given.job,
            epoch=given.epoch,
            snapshots=snapshots,
            stored=keeper.stored if settled else (),
            damaged=keeper.damaged if settled else (),
            looked=settled and keeper.looked,
            persisted_step=keeper.persisted_step if settled else None,
            skipped_saves=skips.total + (keeper.skipped if settled else 0),
            skipped_why=reasons[-1] if reasons else keeper.skipped_why if settled else "",
            skipped_in_a_row=skips.in_a_row,
            unlike=keeper.unlike if settled else None,
            store_error=error,
            saved_bytes=keeper.saved_bytes if settled and given.save else 0,
            store_shared=keeper.shared if settled else None,
            store_missing=keeper.missing if settled else "",
            undeleted=keeper.undeleted if settled else "",
            swept=settled and keeper.swept,
            peer_port=self._host.port if self._host and given.peer_interval_steps else 0,
            notes=(*self._notes, *reasons)[-MAX_NOTES:],
        )
        if found == self._last:
            return None
        self._last = found
        return found

    def close(self) -> None:
        self._closed.set()
        self._keeper.close()

    def _tell(self, note: str) -> None:
        if note not in self._notes:
            self._log.warning("agent notes", why=note)
            self._notes.append(note)

    def _changed(self) -> None:
        os.eventfd_write(self.wake, 1)

    def _send(self) -> None:
        try:
            self._sender.run(self._closed, SCAN_S)
        except Exception:  # noqa: BLE001 - this thread must not end in silence
            _end_failed()

    def _sweep(self) -> None:
        try:
            self._keeper.sweeper.run()
        except Exception:  # noqa: BLE001 - this thread must not end in silence
            _end_failed()

    def _fill(self) -> None:
        try:
            while not self._closed.wait(SCAN_S):
                if memory := self._memory:
                    memory.early.fill(self._closed.wait)
        except Exception:  # noqa: BLE001 - this thread must not end in silence
            _end_failed()


def main() -> None:
    """Serve until stdin closes, which it does when the executor ends, however it does."""
    LazyLogger.process = "checkpoint-agent"
    agent = Agent()
    try:
        _serve(agent)
    except BrokenPipeError:
        pass  # the executor is gone, and our work with it
    except Exception:  # noqa: BLE001 - said, as `os._exit` would not
        _end_failed()
    agent.close()
    os._exit(0)  # without waiting for a thread that may hang in the store


def _end_failed() -> NoReturn:
    """From any thread: say why, and have the executor begin another agent."""
    LazyLogger().exception("checkpoint agent failed")
    sys.stderr.flush()
    os._exit(1)


def _serve(agent: Agent) -> None:
    lines = Lines(sys.stdin.fileno(), agent.wake)
    while lines.open:
        for text in lines.read(SCAN_S):
            try:
                agent.take(order(text))
            except msgspec.DecodeError as error:
                LazyLogger().error("order refused", why=str(error))
        if found := agent.report():
            sys.stdout.buffer.write(line(found))
            sys.stdout.buffer.flush()


class Lines:
    """The lines that come in on a file descriptor, without ever waiting longer than asked, nor once
    the eventfd `wake` is written to.
    """

    def __init__(self, fd: int, wake: int) -> None:
        self._fd = fd
        self._wake = wake
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        for one in (fd, wake):
            self._selector.register(one, selectors.EVENT_READ)
        self.open = True

    def read(self, wait_s: float) -> list[bytes]:
        """The lines that are whole by then; `open` is False once there will be no more."""
        ready = {key.fd for key, _ in self._selector.select(wait_s)}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._fd not in ready:
            return []
        chunk = os.read(self._fd, 1 << 16)
        self.open = bool(chunk)
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return whole


if __name__ == "__main__":
    main()
