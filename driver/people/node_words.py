"""What is against the use of a node, in a word for people. Pure.

Used by `adapters.rest`. A reason that has no word here is told as if the node were free: a test
names those.
"""

from collections.abc import Mapping

from holdfast.driver.core.state.fit import Bar
from holdfast.driver.core.state.node import Source

STATES: Mapping[Bar, str] = {
    Bar.QUARANTINED: "quarantined",
    Bar.SUSPECT: "suspect",
    Bar.UNKNOWN: "unknown",
    Bar.GONE: "gone",
    Bar.HELD: "held",
    Bar.PERSON: "maintenance",
    Bar.DRAIN: "maintenance",
    Bar.EXECUTOR: "maintenance",
    Bar.CORDON: "closed",
}
"""One word for a node that has this against its use as a place; of the others it has none."""

WORDED = frozenset({Bar.QUARANTINED, Bar.SUSPECT, *(Bar[source.name] for source in Source)})
"""Reasons in the words of whoever gave them, which are told of the node."""
