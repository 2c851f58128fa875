"""The kernel log's faults, and the lines of the ranks' stderr that match a rule.

Called by the daemon's loop ten times a second. Must not judge a hit: the driver has the tables.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.protocol.messages import LogHit

XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>\d{1,9})\b")
"""NVIDIA's driver: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.`"""
LINE_CHARACTERS = 500

_log = structlog.get_logger()


class KernelLog:
    """XIDs in the node's kernel log: its feed where it has one, else the machine's."""

    def __init__(self, source: Tail | KernelMessages) -> None:
        self._source = source

    def hits(self) -> list[LogHit]:
        return [
            LogHit(source="kernel", rule="xid", line=line[:LINE_CHARACTERS], xid=int(match["xid"]))
            for line in self._source.lines()
            if (match := XID.search(line)) is not None
        ]


class RankLogs:
    """Rules searched in each new line of each rank's stderr."""

    def __init__(self) -> None:
        self._rules: dict[str, re.Pattern[str]] = {}
        self._tails: dict[tuple[int, Path], Tail] = {}

    def use(self, rules: Iterable[str]) -> None:
        """Take these rules; one that is no regular expression is said and left out."""
        self._rules = {}
        for rule in rules:
            try:
                self._rules[rule] = re.compile(rule)
            except re.error as error:
                _log.warning("log-rule.refused", rule=rule, why=str(error))

    def hits(self, files: Callable[[], Mapping[int, Path]]) -> list[LogHit]:
        """Hits since the last call in the stderr of each rank."""
        if not self._rules:
            return []
        wanted = set(files().items())
        self._tails = {key: self._tails.get(key) or Tail(key[1]) for key in wanted}
        return [
            LogHit(source=f"rank {rank} stderr", rule=rule, line=line[:LINE_CHARACTERS], rank=rank)
            for (rank, _), tail in self._tails.items()
            for line in tail.lines()
            for rule, pattern in self._rules.items()
            if pattern.search(line[:LINE_CHARACTERS])
        ]
