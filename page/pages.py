"""The pages: from the API's dicts to HTML. Pure. Used by `driver.adapters.page`.

Each begins with the frame, which says what holds for every page. Whatever is quoted is escaped by
`render`; an address is built of names that are quoted as its parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.page import costs, hypotheses, recoveries, spent, status, stories
from holdfast.page.answers import answers
from holdfast.page.logs import Pane
from holdfast.page.render import render
from holdfast.page.status import Fact, Incidents
from holdfast.page.words import ranks
from holdfast.protocol.counts import plural

Told = Mapping[str, Any]


NOTHING: Told = {"fix": "", "lines": ()}
"""What `why` tells where it is not asked."""


class Frame(NamedTuple):
    """Around every page. `live`: a driver runs, and `sequence` is its newest entry; else it is read
    from a run's folder. `said`: why what is told may be old. `token`: of this session's forms, ""
    where nothing may be changed.
    """

    live: bool
    sequence: int = 0
    said: str = ""
    token: str = ""


class Fleet(NamedTuple):
    """All nodes, and the brake."""

    nodes: Sequence[Told]
    brake: Told


class Log(NamedTuple):
    """Which log is shown, and what of it; `missing`: why there is none, else ""."""

    rank: int
    stream: str
    attempt: int
    pane: Pane
    missing: str = ""


def jobs(frame: Frame, found: Sequence[Told], fleet: Fleet | None) -> str:
    """All jobs, the newest first, and the fleet; None where that may not be seen."""
    said = {job["name"]: answers(job, (), NOTHING)[0].text for job in found}
    return render(
        "jobs",
        frame=frame,
        here="/",
        forms=False,
        jobs=found[::-1],
        said=said,
        fleet=fleet,
    )


def job(frame: Frame, found: Told, incidents: Incidents, why: Told, time: Told, log: Log) -> str:
    """One job: the answers first, then what they are from. `time`: where it went."""
    last = status.last_of(incidents)
    done = last is not None and last["recovered_s"] is not None
    return render(
        "job",
        frame=frame,
        here="",
        forms=False,
        job=found,
        answers=answers(found, incidents, why),
        facts=_facts_of_job(found, incidents),
        incidents=incidents[::-1],
        last=last,
        recovered=recoveries.outcome(last) if last and done else "Not over yet.",
        spent=time,
        of_time=spent.headline(time),
        buckets=spent.WORDS,
        why=why,
        log=log,
    )


def _facts_of_job(found: Told, incidents: Incidents) -> list[Fact]:
    return [
        *status.progress(found),
        *status.slow(found, incidents),
        *status.unseen(found, incidents),
        *status.stored(found, incidents),
        *status.meets(found),
        *status.attempt(found),
        *status.decided(found),
        *status.ended(found),
        *status.waits(found),
    ]


def story(frame: Frame, told: Told) -> str:
    """All that was decided about a job."""
    return render("story", frame=frame, here="", forms=False, story=told)


def incident(frame: Frame, name: str, found: Told, told: Told) -> str:
    """One incident of the job `name`, whose story is `told`."""
    lines = stories.of_incident(told["lines"], found["number"])
    return render(
        "incident",
        frame=frame,
        here="",
        forms=False,
        job=name,
        incident=found,
        facts=_facts_of_incident(found, lines),
        lines=lines,
        rows=[hypotheses.told(row) for row in found["hypotheses"]],
        choice=hypotheses.choice(found["hypotheses"]) if found["hypotheses"] else "",
        measured=stories.measured(lines),
    )


def _facts_of_incident(found: Told, lines: Sequence[Told]) -> list[Fact]:
    facts = [Fact("since", f"{stories.clock(lines[0]['at'])} UTC")] if lines else []
    facts.append(Fact("lost", _lost(found)))
    if found["faults"]:
        facts.append(Fact("from", status.origin_of(found)))
    if found["rank"] is not None:
        facts.append(Fact("rank", str(found["rank"])))
    if found["evicted"]:
        facts.append(Fact("evicted", ", ".join(found["evicted"])))
    if found["outcome"]:
        facts.append(Fact("outcome", found["outcome"]))
    return facts


def _lost(found: Told) -> str:
    """Of one incident."""
    if found["recovered_s"] is not None:
        return recoveries.outcome(found)
    if not found["faults"]:
        return "nothing: it was only told"
    return "not known yet" if found["open"] else "not known: it did not train since"


def nodes(frame: Frame, found: Sequence[Told]) -> str:
    return render("nodes", frame=frame, here="/nodes", forms=False, nodes=found)


def node(frame: Frame, found: Told, why: Told, done: str = "") -> str:
    """One node. `done`: what came of what a person has just asked for."""
    return render(
        "node",
        frame=frame,
        here="",
        forms=bool(frame.token),
        node=found,
        why=why,
        facts=_facts_of_node(found),
        measured=stories.measured(why["lines"]),
        usable_again=found["state"] in ("quarantined", "maintenance"),
        done=done,
    )


def _facts_of_node(found: Told) -> list[Fact]:
    facts = [
        Fact("use", "fit" if found["state"] in ("free", "held") else f"not fit: {_unfit(found)}")
    ]
    if found["ranks"]:
        facts.append(Fact("ranks", ranks(found["ranks"])))
    if found["strikes"]:
        facts.append(
            Fact("strikes", f"{plural(found['strikes'], 'fault')} put down to it in 7 days")
        )
    facts += [Fact("unread", each) for each in found["unreadable"]]
    facts += [Fact(name, found[name]) for name in ("rack", "address") if found[name]]
    return facts


def _unfit(found: Told) -> str:
    return found["reason"] or f"it is {found['state']}"


def eviction(
    frame: Frame,
    found: Told,
    job: Told | None,
    nodes: Sequence[Told],
    incidents: Incidents,
    at: str,
) -> str:
    """What it costs, and the way to do it. `at`: the page of the node."""
    said = costs.of_eviction(found, job, nodes, incidents)
    return _confirm(frame, f"Evict {found['name']}", said, f"{at}/evict", at, asks_why=True)


def stopping(frame: Frame, found: Told, at: str) -> str:
    """As `eviction`, of a job."""
    said = costs.of_stop(found)
    return _confirm(frame, f"Stop {found['name']}", said, f"{at}/stop", at, asks_why=False)


def _confirm(
    frame: Frame, title: str, said: list[str], action: str, back: str, *, asks_why: bool
) -> str:
    return render(
        "confirm",
        frame=frame,
        here="",
        forms=True,
        title=title,
        costs=said,
        action=action,
        back=back,
        asks_why=asks_why,
    )


def brake(frame: Frame, found: Told, done: str = "") -> str:
    return render(
        "brake", frame=frame, here="/brake", forms=bool(frame.token), brake=found, done=done
    )


def problem(
    title: str, detail: str, *, fix: str = "", mistakes: Sequence[Told] = (), again: str = ""
) -> str:
    """What is shown in place of a page. `again`: a path to which a browser goes on at once."""
    return render(
        "problem",
        frame=Frame(live=False),
        here="",
        forms=False,
        title=title,
        detail=detail,
        fix=fix,
        mistakes=mistakes,
        again=again,
    )
