"""The driver's effects, as the API server and the executors saw them. Pure.

Used by `witnesses` and `intentions`, which joins them with what the journal ordered.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import pods
from holdfast.driver.core.effects import Instruct
from holdfast.driver.ports import Entry
from holdfast.lab.demo.writers import READS
from holdfast.lab.on_kubernetes import DRIVER
from holdfast.protocol.forks import Fork

Event = Mapping[str, Any]
"""Of an audit log."""

ACTING = re.compile(r"holdfast-driver \(term=(\d+) entry=(\d+) (\w+) ([\w.-]+)\)")

TERM = re.compile(r"\(term=(\d+) ")

WRITTEN = ("pods", "nodes", "podgroups")
"""By effects alone. What else a driver writes follows from no effect: status, events, reviews."""


class Call(NamedTuple):
    """A write that was done, and what the driver said, in its User-Agent, that it follows from."""

    term: int
    entry: int
    doing: str
    about: str
    did: str
    name: str  # of the object
    uid: str
    changed: bool  # an object that came back as it was is not written anew
    gated: bool  # a pod that waits for the others of its start

    def __str__(self) -> str:
        return f"{self.did} {self.name}".rstrip()


def by_driver(event: Event) -> bool:
    return bool(event["user"].get("username") == DRIVER)


def forbidden(event: Event) -> bool:
    """Refused for want of a right; of other refusals the code says nothing like it."""
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return bool(decision == "forbid")


def did(event: Event) -> str:
    """`verb resource` or `verb resource/subresource`."""
    about = event.get("objectRef", {})
    what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return f"{event['verb']} {what}"


def changed(event: Event) -> bool:
    """A driver changed something with it."""
    return by_driver(event) and event["verb"] not in READS and was_done(event)


def term_of(event: Event) -> int | None:
    """Of the driver that asked for it; None where it did not say."""
    said = TERM.search(event.get("userAgent", ""))
    return int(said[1]) if said else None


def late_terms(terms: Sequence[int]) -> list[str]:
    """Terms that come after a later one, in words."""
    newest, late = 0, []
    for term in terms:
        newest = max(newest, term)
        late += [f"term {term} after term {newest}"] * (term < newest)
    return list(dict.fromkeys(late))


def calls(audited: Sequence[Event]) -> list[Call]:
    """What the driver wrote to pods, nodes and podgroups; unnamed ones as entry 0."""
    return list(_calls(audited))


def wrong_forks(forked: Sequence[Fork], entries: Sequence[Entry]) -> list[str]:
    """Ranks that were forked twice in an epoch, or by nobody's order, in sentences."""
    ordered = {
        (effect.desired.node, effect.desired.term, effect.desired.generation, effect.desired.epoch)
        for entry in entries
        for effect in entry.effects
        if isinstance(effect, Instruct)
    }
    said = [
        f"rank {rank} was forked {count} times in one attempt"
        for (rank, _epoch), count in Counter((each.rank, each.epoch) for each in forked).items()
        if count > 1
    ]
    strays = [
        each
        for each in forked
        if (each.node, each.term, each.generation, each.epoch) not in ordered
    ]
    return said + [f"{each.node} forked rank {each.rank} by nobody's order" for each in strays]


def was_done(event: Event) -> bool:
    """The API server did what it was asked."""
    return event.get("responseStatus", {}).get("code", 0) in range(200, 300)


def _calls(audited: Sequence[Event]) -> Iterator[Call]:
    """Each change of an object gives that a version of its own: one that an earlier answer had
    shown is nobody's change.
    """
    shown: set[tuple[str, str]] = set()
    for event in audited:
        if event["verb"] in READS or not was_done(event):
            continue
        metadata = (event.get("responseObject") or {}).get("metadata", {})
        version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if by_driver(event) and event.get("objectRef", {}).get("resource") in WRITTEN:
            yield _call(event, metadata, changed=not version[1] or version not in shown)
        shown.add(version)


def _call(event: Event, metadata: Mapping[str, Any], *, changed: bool) -> Call:
    said = ACTING.fullmatch(event.get("userAgent", ""))
    term, entry, doing, about = said.groups() if said else (0, 0, "", "")
    spec = (event.get("responseObject") or {}).get("spec", {})
    return Call(
        term=int(term),
        entry=int(entry),
        doing=doing,
        about=about,
        did=did(event),
        name=event["objectRef"].get("name") or metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        changed=changed,
        gated=pods.gated({"spec": spec}),
    )
