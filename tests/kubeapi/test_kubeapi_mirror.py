"""The fold of lists and events, held against every history: pure, so tried in every order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from told import Told

from holdfast.kubeapi.mirror import Mirror

NAMES = st.sampled_from("abc")
STEPS = st.lists(st.tuples(st.sampled_from(["put", "delete"]), NAMES), max_size=30)
Event = tuple[int, str, dict[str, Any]]


def history(steps: list[tuple[str, str]]) -> tuple[list[Event], list[dict[str, Any]]]:
    """Events as a server has them, and the objects after each of them (and before the first)."""
    objects: dict[str, Any] = {}
    events: list[Event] = []
    moments: list[dict[str, Any]] = [{}]
    for version, (what, name) in enumerate(steps, start=1):
        known = objects.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{version}"
        told = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}
        if what == "put":
            events.append((version, "MODIFIED" if known else "ADDED", told))
            objects = {**objects, name: told}
        elif known:
            events.append((version, "DELETED", told))
            objects = {key: value for key, value in objects.items() if key != name}
        moments.append(objects)
    return events, moments


def copy(told: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": dict(told["metadata"])}


def lists(mirror: Mirror, told: Told, objects: dict[str, Any], version: int, page: int) -> None:
    """A list of that moment in pages of `page`, told to `told`."""
    items, listed = [copy(each) for each in objects.values()], set[str]()
    for start in range(0, len(items), page):
        for change in mirror.page(items[start : start + page], listed):
            told.hear(change)
    for change in mirror.end(listed, {"metadata": {"resourceVersion": str(version)}}):
        told.hear(change)


@given(steps=STEPS, data=st.data())
def test_events_in_any_order_and_any_number_of_times_between_bookmarks_lead_to_the_truth(
    steps: list[tuple[str, str]], data: st.DataObject
) -> None:
    events, moments = history(steps)
    mirror, told = Mirror(), Told()
    lists(mirror, told, {}, 0, 1)
    at = 0
    while at < len(steps):
        upto = data.draw(st.integers(at + 1, len(steps)), "bookmark")
        due = [event for event in events if at < event[0] <= upto]
        old = data.draw(st.lists(st.sampled_from(events), max_size=3), "old") if events else []
        stray = [event for event in old if event[0] <= upto]
        for _, kind, object_ in data.draw(st.permutations(due + due + stray), "order"):
            for change in mirror.event(kind, copy(object_)):
                told.hear(change)
        for bookmark in (upto, at):  # an old one again promises nothing less
            assert not list(
                mirror.event("BOOKMARK", {"metadata": {"resourceVersion": f"{bookmark}"}})
            )
        assert mirror.promised == upto
        assert mirror.store == told.live == moments[upto]
        at = upto


@given(steps=STEPS, data=st.data())
def test_a_list_of_any_later_moment_tells_what_went_and_what_was_replaced(
    steps: list[tuple[str, str]], data: st.DataObject
) -> None:
    _, moments = history(steps)
    mirror, told = Mirror(), Told()
    for version in sorted(data.draw(st.sets(st.integers(0, len(steps))), "lists")):
        lists(mirror, told, moments[version], version, data.draw(st.integers(1, 3), "page"))
        assert mirror.store == told.live == moments[version]
        assert mirror.promised == version


@given(steps=STEPS, data=st.data())
def test_lists_and_events_that_overlap_never_contradict_each_other(
    steps: list[tuple[str, str]], data: st.DataObject
) -> None:
    """A list reads further than the watch had; then the watch says again what the list had."""
    events, moments = history(steps)
    mirror, told = Mirror(), Told()
    middle = data.draw(st.integers(0, len(steps)), "list")
    lists(mirror, told, moments[middle], middle, 2)
    for _, kind, object_ in events:
        for change in mirror.event(kind, copy(object_)):
            told.hear(change)
    assert mirror.store == told.live == moments[-1]


def test_a_copy_is_without_what_nobody_needs_of_an_object_listed_or_told() -> None:
    def told(version: str) -> dict[str, Any]:
        metadata = {"name": "a", "uid": "u", "resourceVersion": version, "managedFields": [1]}
        return {"metadata": metadata, "status": {"images": [1], "phase": "Running"}}

    mirror, missing = (
        Mirror([("status", "images"), ("spec", "volumes")]),
        ("managedFields", "images"),
    )
    list(mirror.page([told("1")], set()))
    listed = str(mirror.store)
    list(mirror.event("MODIFIED", told("2")))
    for kept in (listed, str(mirror.store)):
        assert "Running" in kept
        assert not any(field in kept for field in missing)
    again = list(mirror.page([told("2")], set()))
    assert again == [], "the same object listed again is no change"
