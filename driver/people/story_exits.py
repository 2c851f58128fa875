"""How ranks ended, gathered over the entries of a story: the same end of many ranks told once.

Called by `story`. Pure. A rank that only lost a peer is left out where a peer's own
end is known.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from holdfast.driver.core.events import Found, RanksExited
from holdfast.driver.core.faults.root_cause import summary
from holdfast.driver.core.state.model import Incident
from holdfast.driver.core.state.node import Exited
from holdfast.driver.ports import Entry
from holdfast.telemetry.analysis.ends import failed, is_echo

FEW = 8
"""Ranks or nodes up to which their names are told; above that, their number is."""

Key = tuple[str, int, str]
"""Job, epoch, and how ranks ended, without which ranks these were."""


class Ends:
    """The ends of ranks in `entries` that were faults: those that failed, and of the others as many
    as the evidence of `incidents` has."""

    def __init__(self, entries: Sequence[Entry], incidents: Iterable[Incident] = ()) -> None:
        self._early = Counter(piece.text for each in incidents for piece in each.evidence)
        self._bad: set[int] = set()
        self._groups: dict[Key, list[Exited]] = {}
        self._first: dict[Key, int] = {}
        self._incidents: dict[int, int | None] = {}
        self._caused: set[tuple[str, int]] = set()
        self._sentences: set[str] = set()
        self._found: set[str] = set()
        for entry in entries:
            self._take(entry)
        self._follow(entries)

    def told(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """Who saw it and what, for the ends that this entry is the first to have."""
        for key, exits in self._groups.items():
            echo = is_echo(exits[0].status) and key[:2] in self._caused
            if self._first[key] == entry.sequence and not echo:
                by_rank = sorted(exits, key=lambda exited: exited.status.rank)
                nodes = list(dict.fromkeys(exited.node for exited in by_rank))
                source = f"executor of {nodes[0]}" if len(nodes) == 1 else "executors"
                yield source, f"{_names('rank', _ranks(exits))} on {_nodes(nodes)} {key[2]}"

    def incident(self, entry: Entry) -> int | None:
        """The incident that its ends became; they are known before it is opened."""
        return self._incidents.get(entry.sequence, entry.incident)

    def knows(self, sentence: str) -> bool:
        """Whether this is one of the ends, or of what was found: each is told with its entry."""
        return sentence in self._sentences or sentence in self._found

    def without_causes(self, entry: Entry, told: str) -> str:
        """The entry's reasons without the causes that lines have told before; `told`: one more."""
        why = entry.why
        known = self._sentences | {told}
        if isinstance(entry.event, Found):
            known = known | {entry.event.finding.summary}
        for sentence in sorted(known - {""}, key=len, reverse=True):
            why = why.replace(f": {sentence}. ", ". ")
            why = why.replace(f"{sentence}: ", "").replace(f"{sentence}. ", "")
            why = why.removesuffix(f": {sentence}.")  # it was the whole of the reason
        return why

    def _take(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, Found):
            self._found.update(piece.text for piece in event.finding.evidence)
        if not isinstance(event, RanksExited):
            return
        for status in event.exits:
            exited = Exited(node=event.node, status=status)
            if self._is_fault(exited):
                self._bad.add(entry.sequence)
                key = (event.job, event.epoch, _how(exited))
                self._groups.setdefault(key, []).append(exited)
                self._first.setdefault(key, entry.sequence)
                self._sentences.add(summary(exited))
                if not is_echo(status):
                    self._caused.add(key[:2])

    def _is_fault(self, exited: Exited) -> bool:
        """An end with exit code 0 is one where it was held against it, once for each time."""
        if failed(exited.status):
            return True
        said = summary(exited)
        self._early[said] -= 1
        return self._early[said] >= 0

    def _follow(self, entries: Sequence[Entry]) -> None:
        """Exits belong to the incident of the next entry of their job that has one."""
        following: dict[str, int | None] = {}
        for entry in reversed(entries):
            event = entry.event
            if entry.incident is not None:
                following |= dict.fromkeys(entry.jobs, entry.incident)
            elif isinstance(event, RanksExited) and entry.sequence in self._bad:
                self._incidents[entry.sequence] = following.get(event.job)


def _how(exited: Exited) -> str:
    if is_echo(exited.status):
        return "lost a peer"  # what became of these, the lines around it say
    return summary(exited).removeprefix(f"rank {exited.status.rank} on {exited.node} ")


def _ranks(exits: Iterable[Exited]) -> list[str]:
    return [str(rank) for rank in sorted({exited.status.rank for exited in exits})]


def _nodes(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= FEW else f"{len(nodes)} nodes"


def _names(thing: str, names: Sequence[str]) -> str:
    if len(names) > FEW:
        return f"{len(names)} {thing}s"
    return f"{thing}{'s' if len(names) > 1 else ''} {', '.join(names)}"
