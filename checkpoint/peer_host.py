"""The side of copies that keeps them: other nodes' snapshots in this node's memory.

Used by agents. Must not take anything of a job that is not this node's, nor load torch.
"""

import hmac
import socket
import socketserver
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, cast

import msgspec

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.peers import (
    ASK,
    LONGEST_LINE,
    TIMEOUT_S,
    Answer,
    Ask,
    Refused,
    give,
    key_of,
    receive,
)
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import NoRoom, mapped
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()


class Host:
    """Takes copies of other nodes' ranks for the job of the order, and gives them back."""

    def __init__(self, address: str) -> None:
        host = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = TIMEOUT_S

            def handle(self) -> None:
                host._handle(self.connection, cast(IO[bytes], self.rfile))

        self._order: AgentOrder | None = None
        self._server = socketserver.ThreadingTCPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, name="peers", daemon=True).start()

    def give(self, order: AgentOrder) -> None:
        """Follow this order: copies are taken for its job alone."""
        self._order = order

    def close(self) -> None:
        """Take no connection any more; may take half a second. A process that ends need not."""
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, link: socket.socket, file: IO[bytes]) -> None:
        try:
            self._do(link, ASK.decode(file.readline(LONGEST_LINE)), file)
        except (Refused, NoRoom, msgspec.DecodeError) as reason:
            with suppress(OSError):
                link.sendall(msgspec.json.encode(Answer(why=str(reason))) + b"\n")
        except OSError as error:  # whoever asked sees the same, and says it
            _log.info("a connection for copies ended", why=str(error))

    def _do(self, link: socket.socket, ask: Ask, file: IO[bytes]) -> None:
        folder = self._folder(ask)
        if ask.seal is not None:
            if (ask.seal.job, ask.seal.rank) != (ask.job, ask.rank):
                raise Refused("it is another's")
            folder.mark_copy()

            def agree() -> None:
                link.sendall(msgspec.json.encode(Answer()) + b"\n")

            receive(file, folder, ask.seal, ask.xxh3, whole=ask.whole, ready=agree)
            agree()
        elif ask.wants is not None:
            self._give(link, folder, *ask.wants)

    def _folder(self, ask: Ask) -> SlotFolder:
        order = self._order
        if order is None or ask.job != order.job:
            raise Refused(f"no job {ask.job} is here")
        if order.forget_job == ask.job:
            raise Refused(f"job {ask.job} has ended")
        if not hmac.compare_digest(ask.key, key_of(order.store_url)):
            raise Refused("the key is another job's")
        if not order.slots_root or (ask.seal is not None and ask.rank in order.ranks):
            raise Refused("that rank is here itself")
        return SlotFolder(Path(order.slots_root) / f"r{ask.rank}")

    def _give(self, link: socket.socket, folder: SlotFolder, epoch: int, step: int) -> None:
        found = folder.find(step=step, epoch=epoch)
        if found is None:
            raise Refused(f"step {step} is not there")
        slot, seal = found
        with slot.locked(exclusive=False) as fd:
            xxh3 = slot.known_sum(seal)
            if fd is None or xxh3 is None:
                raise Refused(f"step {step} is being written over")
            if not slot.is_known(fd, seal):
                raise Refused(f"step {step} in memory has changed since it was sealed")
            link.sendall(msgspec.json.encode(Answer(seal=seal, xxh3=xxh3)) + b"\n")
            with mapped(fd, writable=False) as memory:
                give(link, memory, seal, lambda _: None)
