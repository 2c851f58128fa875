"""What a receiver is sent: of an entry of the journal, each turn that it wants to know of. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.driver.follow.webhooks.file import Webhook
from holdfast.driver.noted import Turned
from holdfast.driver.ports import Entry


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the same whenever it is sent."""

    id: str
    at: str
    body: bytes


def messages(entry: Entry, hook: Webhook) -> Iterator[Message]:
    """In the order of the entry; none where nothing turned, as of nearly all entries."""
    for number, each in enumerate(entry.turned):
        if each.what in hook.on and _is_wanted(each, hook):
            yield message(hook, each, id=f"{entry.sequence}.{number}", at=entry.at)


def _is_wanted(turned: Turned, hook: Webhook) -> bool:
    return turned.what != "job" or not hook.phases or turned.now in hook.phases


def message(hook: Webhook, turned: Turned, *, id: str, at: str) -> Message:  # noqa: A002 its word
    """In the format of the receiver."""
    said = words(turned)
    told: dict[str, Any] = {"text": _for_slack(said)}
    if hook.format == "json":
        told = {"id": id, "at": at, **msgspec.structs.asdict(turned), "text": said}
    return Message(id=id, at=at, body=msgspec.json.encode(told))


def words(turned: Turned) -> str:
    """`speech-7b is Failed: …`."""
    match turned.what:
        case "job":
            said = f"{turned.name} is {turned.now}"
        case "incident":
            about = f" of {', '.join(turned.jobs)}" if turned.jobs else ""
            said = f"incident {turned.name}{about} is {turned.now}"
        case "node":
            said = f"{turned.name} is {turned.now}"
        case "brake":
            said = f"the brake is {turned.now}"
    return f"{said}: {turned.why}" if turned.why else said


def _for_slack(text: str) -> str:
    """It reads `<!channel>` and links between these three signs, which it wants written so."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


TEST = Turned(what="job", name="example", before="Running", now="Succeeded", why="this is a test")
