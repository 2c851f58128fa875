"""Entries in memory, as a journal gives them to those who read it."""

from collections.abc import Sequence

from holdfast.driver.ports import Entry


class OneJournal:
    """Only for reading. `reads`: entries that were given out."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.kept = list(entries)
        self.reads = 0

    def entries(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        node: str | None = None,
        incident: int | None = None,
        turning: bool = False,
        telling: bool = False,
        limit: int = 1_000,
    ) -> list[Entry]:
        found = [
            entry
            for entry in self.kept
            if entry.sequence > after
            and (job is None or job in entry.jobs)
            and (node is None or node in entry.nodes)
            and (incident is None or entry.incident == incident)
            and (entry.doing or not turning)
            and not (telling and entry.restates)
        ][:limit]
        self.reads += len(found)
        return found
