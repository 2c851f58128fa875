"""A client of NCCL's RAS: the port on which each process that uses NCCL answers for the whole job.

Called by the sampler beside this file, in its thread. Speaks to this machine alone, reads no more
than it has room for, and is done by a deadline whatever is at the other end. The protocol is that
of NCCL's `src/ras`, read in 2.24 to 2.30, and was spoken with 2.28.9 on an H100. Must not judge an
answer.
"""

import errno
import socket
from contextlib import suppress

from holdfast.kit.clock import Clock

ADDRESS = ("localhost", 28028)
"""NCCL's own default. `NCCL_RAS_ADDR` of a job may say otherwise, and is not looked for: a rank
that was forked does not show its environment."""
PROTOCOL = 2
"""The one that all versions of NCCL since 2.24 speak."""
GREETING_S = 1.0
ASKED = 3
"""All processes of a node share the port, and the kernel picks one: a stopped one takes a
connection and says nothing, so others are tried."""
NOBODY = (errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Nobody listens, or there is no such address of this machine as `localhost` has beside another."""
LEG_S = 2
"""For so long NCCL waits for a process of the job; 5 s by default."""
DEADLINE_S = 10.0
"""Of one question, all tries together."""
MOST_BYTES = 8 << 20
"""A rank takes 540 bytes in each communicator that it is in: room for 3,800 ranks with four."""
LINE_BYTES = 1 << 10


class Unreadable(Exception):
    """NCCL cannot be asked; the message says why."""


class Ras:
    """What listens on NCCL's port of this machine."""

    def __init__(self, clock: Clock, address: tuple[str, int] = ADDRESS) -> None:
        self._clock, self._address = clock, address

    def ask(self) -> bytes | None:
        """The state of all communicators, as JSON; None where nobody listens.

        Raises `Unreadable`.
        """
        until_s = self._clock.monotonic_s() + DEADLINE_S
        try:
            for _ in range(ASKED):
                if (link := self._connected()) is None:
                    return None
                with link:
                    talk = _Talk(link, self._clock, until_s)
                    if talk.greeted():
                        return talk.status()
        except OSError as error:
            raise self._wrong(error.strerror or str(error) or type(error).__name__) from error
        raise self._wrong(f"nobody answers within {GREETING_S:g} s, asked {ASKED} times")

    def _connected(self) -> socket.socket | None:
        try:
            return socket.create_connection(self._address, timeout=GREETING_S)
        except OSError as error:
            if error.errno in NOBODY:
                return None
            raise

    def _wrong(self, why: str) -> Unreadable:
        return Unreadable(f"port {self._address[1]}: {why}")


class _Talk:
    """One connection, and what was received and not yet read."""

    def __init__(self, link: socket.socket, clock: Clock, until_s: float) -> None:
        self._link, self._clock, self._until_s = link, clock, until_s
        self._rest = b""

    def greeted(self) -> bool:
        """Whether somebody is there, and he is who he should be. Raises `Unreadable`."""
        line = ""
        with suppress(TimeoutError):
            line = self._asked(f"CLIENT PROTOCOL {PROTOCOL}", within_s=GREETING_S)
        if not line:
            return False
        name, _, number = line.rpartition(" ")
        if name.upper() != "SERVER PROTOCOL":
            raise Unreadable(f"what listens on its port is not NCCL: it said {line[:40]!r}")
        if number != str(PROTOCOL):
            raise Unreadable(f"it speaks version {number[:20]} of its protocol, not {PROTOCOL}")
        return True

    def status(self) -> bytes:
        """Raises `Unreadable`."""
        self._expect_ok(f"TIMEOUT {LEG_S}", "it takes no timeout")
        older = "it is older than 2.28.7, and tells of itself in words for people alone"
        self._expect_ok("SET FORMAT json", older)
        self._say("VERBOSE STATUS")
        answer = bytearray(self._rest)
        while part := self._received(DEADLINE_S):
            answer += part
            if len(answer) > MOST_BYTES:
                raise Unreadable(f"its answer is longer than {MOST_BYTES >> 20} MiB")
        return bytes(answer)

    def _expect_ok(self, words: str, otherwise: str) -> None:
        line = self._asked(words, within_s=GREETING_S)
        if line.upper() != "OK":
            raise Unreadable(f"{otherwise}: to {words!r} it said {line[:60]!r}")

    def _asked(self, words: str, *, within_s: float) -> str:
        """The line that answers; "" where the connection ended. Raises `TimeoutError`."""
        self._say(words)
        until_s = self._clock.monotonic_s() + within_s
        while b"\n" not in self._rest and len(self._rest) < LINE_BYTES:
            part = self._received(until_s - self._clock.monotonic_s())
            if not part:
                return ""
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line[:LINE_BYTES].decode(errors="replace").strip()

    def _say(self, words: str) -> None:
        self._link.sendall(f"{words}\n".encode())

    def _received(self, within_s: float) -> bytes:
        left_s = min(within_s, self._until_s - self._clock.monotonic_s())
        if left_s <= 0:
            raise TimeoutError("no whole answer in time")
        self._link.settimeout(left_s)
        return self._link.recv(1 << 16)
