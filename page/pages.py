"""The pages: from the API's dicts to HTML. Pure. Used by `driver.adapters.page`.

Each begins with the frame, which says what holds for every page. Whatever is quoted is escaped by
`render`; an address is built of names that are quoted as its parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.page import costs, curves, hypotheses, recoveries, spent, stacks, status, stories
from holdfast.page.answers import answers
from holdfast.page.ended import Ended
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


class More(NamedTuple):
    """Of a job, beside what is asked first. `time`: where it went; `curves`: as the interface has
    them; `last`: what its ranks did last, where it is over."""

    time: Told
    log: Log
    curves: Told
    last: Ended | None = None


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


def job(frame: Frame, found: Told, incidents: Incidents, why: Told, more: More) -> str:
    """One job: the answers first, then what they are from."""
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
        spent=more.time,
        of_time=spent.headline(more.time),
        buckets=spent.WORDS,
        costs={each["id"]: spent.cost(each) for each in more.time["incidents"]},
        why=why,
        log=more.log,
        curves=curves.of(more.curves),
        ended=more.last,
    )


def _facts_of_job(found: Told, incidents: Incidents) -> list[Fact]:
    return [
        *status.progress(found),
        *status.standing(found, incidents),
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


def incident(
    frame: Frame,
    name: str,
    found: Told,
    told: Told,
    stood: Sequence[object] = (),
    bursts: Sequence[Told] = (),
) -> str:
    """One incident of the job `name`, whose story is `told`. `stood`: its stacks, equal ones once,
    each with its `ranks` and `text`; `bursts`: those that were taken for it."""
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
        stacks=stood,
        bursts=[{**each, "began": stories.clock(each["began_at"])} for each in bursts],
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


def goodput(frame: Frame, told: Told, days: int) -> str:
    """Where the time of all jobs went in the last `days`."""
    return render(
        "goodput",
        frame=frame,
        here="/goodput",
        forms=False,
        told=told,
        days=days,
        said=spent.headline(told),
        buckets=spent.WORDS,
        costliest=[(by, spent.shares(told, f"by_{by}")) for by in ("kind", "node")],
    )


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
    return _confirm(frame, f"Stop {found['name']}", said, f"{at}/stop", at)


def stacks_of(frame: Frame, name: str, ranks: str, told: Told | None = None) -> str:
    """Where to ask for stacks of the job `name`; `told`: what came of it."""
    return render(
        "stacks",
        frame=frame,
        here="",
        forms=True,
        job=name,
        ranks=ranks,
        told=told,
        said=stacks.said(told) if told else "",
        missing=stacks.missing(told["missing"]) if told else [],
    )


def telling(frame: Frame, name: str, given: Told, at: str) -> str:
    """As `eviction`, of a fact of the node `name`, or of the link from it to another."""
    subject = f"the link from {name} to {given['to']}" if given.get("to") else name
    said = costs.of_fact(name, given)
    return _confirm(frame, f"Say this of {subject}", said, f"{at}/facts", at, fields=given)


def telling_of_job(frame: Frame, name: str, given: Told, at: str) -> str:
    """As `telling`, of a version of a job."""
    version = f"version {given['version']}" if given.get("version") else "the newest version"
    said = costs.of_fact_of_version(version, given["says"])
    title = f"Say this of {version} of {name}"
    return _confirm(frame, title, said, f"{at}/facts", at, fields=given)


NO_FIELDS: Told = {}


def _confirm(
    frame: Frame,
    title: str,
    said: list[str],
    action: str,
    back: str,
    *,
    asks_why: bool = False,
    fields: Told = NO_FIELDS,
) -> str:
    """`fields`: of a form that was filled on the page before."""
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
        fields=fields,
        words=fields.get("words", ""),
    )


def brake(frame: Frame, found: Told, done: str = "") -> str:
    return render(
        "brake", frame=frame, here="/brake", forms=bool(frame.token), brake=found, done=done
    )


def webhooks(frame: Frame, told: Sequence[Told], taken: str = "") -> str:
    """Who is told what happens, and how that goes. `taken`: who has just taken an example."""
    return render(
        "webhooks", frame=frame, here="", forms=bool(frame.token), webhooks=told, taken=taken
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
