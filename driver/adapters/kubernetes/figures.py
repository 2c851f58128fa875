"""What Prometheus is told of the way to the API server: lists and watches begun, work done and due.

Called by the wiring at each scrape of `/metrics`. Must not count anything itself.
"""

from collections.abc import Iterator, Mapping

from holdfast.driver.ports import Figure
from holdfast.kubeapi.queue import KeyedQueue
from holdfast.kubeapi.reflector import Reflector


def figures(reflectors: Mapping[str, Reflector], queue: KeyedQueue) -> Iterator[Figure]:
    """Of the reflectors by the name of their collection, and of the operator's queue."""
    seen = reflectors.items()
    name, of = "holdfast_kubernetes", "collection"
    lists = {collection: each.lists for collection, each in seen}
    yield Figure(f"{name}_lists", "Lists begun.", lists, of, counts=True)
    watches = {collection: each.watches for collection, each in seen}
    yield Figure(f"{name}_watches", "Watches begun.", watches, of, counts=True)
    objects = {collection: len(each.store) for collection, each in seen}
    yield Figure(f"{name}_objects", "Objects seen.", objects, of)
    heard = {collection: not each.away() for collection, each in seen}
    yield Figure(f"{name}_heard", "Whether the API server is heard (1) or not (0).", heard, of)
    worked = {"": queue.worked_on}
    yield Figure(f"{name}_reconciles", "TrainingJobs looked at.", worked, counts=True)
    yield Figure(f"{name}_queue", "TrainingJobs due, not yet looked at.", {"": len(queue)})
