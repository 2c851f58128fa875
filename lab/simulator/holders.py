"""Who has a node, as the cluster's own books say: written when its calls are carried out.

Kept by the world. A call that a later one has overtaken is not carried out any more.
"""


class Holders:
    """By node: the job whose executor the cluster has put there."""

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        self._trials: set[tuple[str, int | None]] = set()  # calls that are for tests alone
        self._lent: set[str] = set()  # nodes that are only tested, as the job would use them
        self._newest: dict[str, int] = {}  # by node: the entry that ordered the last call

    def of(self, node: str) -> str:
        """The job that has the node; "" where none has."""
        return self._jobs.get(node, "")

    def works_for(self, node: str) -> str:
        """As `of`, but for a node that is only tested."""
        return "" if node in self._lent else self.of(node)

    def nodes_of(self, job: str) -> tuple[str, ...]:
        """Those that it may work on."""
        return tuple(node for node in self._jobs if self.works_for(node) == job)

    def held(self) -> dict[str, str]:
        """By node, of those that somebody has."""
        return dict(self._jobs)

    def lend(self, node: str, cause: int | None) -> None:
        """The call that this entry ordered gives the node for tests alone."""
        self._trials.add((node, cause))

    def give(self, node: str, job: str, cause: int | None) -> None:
        if not self._is_new(node, cause):
            return
        self._jobs[node] = job
        self._lent.discard(node)
        if (node, cause) in self._trials:
            self._lent.add(node)

    def take_back(self, node: str, cause: int | None) -> None:
        if self._is_new(node, cause):
            self._jobs.pop(node, None)

    def overtaken(self, node: str, cause: int | None) -> bool:
        """Whether a later call was carried out."""
        return (cause or 0) < self._newest.get(node, 0)

    def _is_new(self, node: str, cause: int | None) -> bool:
        if self.overtaken(node, cause):
            return False
        self._newest[node] = cause or 0
        return True
