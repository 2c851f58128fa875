"""Who holds up a job that stands still: the rank at which the waits end.

Called by the driver's standstill detector with the newest progress of every rank, once nothing has
moved for a while. Pure. A rank waits where it has issued what a peer has not; following the waits
leads to a rank that waits for nobody (it spins, or reads from a pipe), or whose own pulse stands
still (it is stopped). Process states are told as a hint and decide nothing.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

import msgspec

from holdfast.protocol.messages import GroupProgress, RankProgress

SILENT_S = 1.0
"""A pulse moves every .05 s; one that has not for this long belongs to a process that does not run,
even where eight ranks share two cores."""
EARLIER_S = 0.3
"""Among ranks in a circle of waits, one that stopped this much before the others started it: three
samples of the daemon."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The culprit, or None where nobody can be named; `why` in sentences with numbers.

    `others` are further ranks at which waits end: they are held up by nobody either.
    """

    rank: int | None
    why: tuple[str, ...]
    others: tuple[int, ...] = ()
    silent: bool = False
    skipped: bool = False  # it waits in another collective than all others of its group: its script


Waits = dict[Hashable, list[Hashable]]
"""From a rank to the group or peer that it waits for, from a group to the ranks it lacks."""


def culprit(ranks: Mapping[int, RankProgress], missing: Iterable[int] = ()) -> Verdict:
    """Who holds up the job, from each rank's progress; `missing` are ranks without any.

    Ranks that are done for (exited) must not be among them: theirs is another story.
    """
    waits, groups, silent = _waits(ranks, set(missing))
    ends = _ends(waits, ranks, silent)
    skipped = set() if ends else _left_out(waits, ranks, groups)
    if not (ends := ends or skipped):
        return Verdict(rank=None, why=_nobody(ranks, waits))
    behind = _behind(waits, ends)
    first, *others = sorted(ends, key=lambda rank: (-behind[rank], rank))
    return Verdict(
        rank=first,
        why=_sentences(first, ranks, groups, waits, behind[first], first in silent),
        others=tuple(others),
        silent=first in silent,
        skipped=first in skipped,
    )


class Wait(msgspec.Struct, frozen=True):
    """Where some ranks wait, and for whom; `where` as it is told: `all_reduce #12 of [0, 1]`."""

    where: str
    waiting: tuple[int, ...]
    lacking: tuple[int, ...]


def waits_of(ranks: Mapping[int, RankProgress], missing: Iterable[int] = ()) -> tuple[Wait, ...]:
    """Who waits for whom, as `culprit` follows it; each place once, those with most ranks first."""
    waits, groups, _ = _waits(ranks, set(missing))
    places: dict[Hashable, list[int]] = {}
    own = {rank: targets for rank, targets in waits.items() if isinstance(rank, int)}
    for rank, targets in own.items():
        for target in targets:
            places.setdefault(target, []).append(rank)
    found = [_wait(place, waiting, waits, groups) for place, waiting in places.items()]
    return tuple(sorted(found, key=lambda wait: (-len(wait.waiting), wait.waiting)))


def _wait(
    place: Hashable, waiting: list[int], waits: Waits, groups: Mapping[int, "_Group"]
) -> Wait:
    if isinstance(place, int):
        return Wait(f"a message of rank {place}", tuple(sorted(waiting)), (place,))
    lacking = tuple(sorted(rank for rank in waits[place] if isinstance(rank, int)))
    where = "init_process_group"
    if isinstance(place, tuple) and place != _MEETING:
        group = groups[place[1]]
        kinds = (seen.kind for seen in group.seen.values() if seen.enqueued == group.top)
        where = f"{next(kinds)} #{group.top} of {_short(group.members)}"
    return Wait(where, tuple(sorted(waiting)), lacking)


# ---------------------------------------------------------------- who waits


def _waits(
    ranks: Mapping[int, RankProgress], unseen: set[int]
) -> tuple[Waits, dict[int, "_Group"], set[int]]:
    """Who waits for what, in which groups, and who gives no sign."""
    silent = {rank for rank, seen in ranks.items() if seen.hooks and seen.silent_s > SILENT_S}
    silent |= unseen
    groups = _groups(ranks)
    waits = _collective_waits(ranks, groups, silent)
    _add_message_waits(waits, ranks, unseen)
    _add_meeting_waits(waits, ranks)
    return waits, groups, silent


class _Group(msgspec.Struct, frozen=True):
    """One group over all its ranks: what each has enqueued, and who is furthest behind."""

    members: tuple[int, ...]
    seen: dict[int, GroupProgress]
    top: int
    low: int

    def enqueued(self, rank: int) -> int:
        return self.seen[rank].enqueued if rank in self.seen else 0


def _groups(ranks: Mapping[int, RankProgress]) -> dict[int, _Group]:
    seen: dict[int, dict[int, GroupProgress]] = defaultdict(dict)
    for rank, progress in ranks.items():
        for group in progress.groups:
            seen[group.members][rank] = group
    return {key: _group(by_rank, ranks) for key, by_rank in seen.items()}


def _group(by_rank: dict[int, GroupProgress], ranks: Mapping[int, RankProgress]) -> _Group:
    """The group is known by a hash of its members, so that any rank's list of them will do."""
    listed = next((group.ranks for group in by_rank.values() if group.ranks), ())
    members = tuple(sorted({*listed, *by_rank}))
    counts = [group.enqueued for group in by_rank.values()]
    untold = (rank for rank in members if rank not in by_rank)
    if len(members) > len(by_rank) and any(_tells_all(ranks.get(rank)) for rank in untold):
        counts.append(0)
    return _Group(members, by_rank, max(counts), min(counts))


def _tells_all(progress: RankProgress | None) -> bool:
    """Whether a group that the rank does not speak of is one it has not used."""
    return progress is not None and progress.hooks and not set(progress.partial) & _HIDES


STATES = {"T": " (stopped)", "t": " (held by a debugger)", "D": " (waits for a disk or a device)"}
"""What Linux's letters for a process mean, as proc(5) has them; others speak of no hang."""

_HIDES = {"collectives", "groups full"}


def _collective_waits(
    ranks: Mapping[int, RankProgress], groups: Mapping[int, _Group], silent: set[int]
) -> Waits:
    waits: Waits = {}
    untold = {rank for rank, seen in ranks.items() if "done" in seen.partial}
    for key, group in groups.items():
        waiting = [r for r, seen in group.seen.items() if seen.enqueued > seen.done or r in untold]
        if not waiting:
            continue
        # All have entered, or nobody is known to be behind: those who do not run hold it up.
        lacking = _lacking(group, ranks) or [rank for rank in group.members if rank in silent]
        waits[("group", key)] = [*lacking]
        held_up = {*lacking}
        for rank in waiting:
            if rank not in held_up:
                waits.setdefault(rank, []).append(("group", key))
    return waits


def _lacking(group: _Group, ranks: Mapping[int, RankProgress]) -> list[int]:
    """Who is furthest behind in the group, where not all are as far."""
    if group.low == group.top:
        return []
    return [
        rank
        for rank in group.members
        if group.enqueued(rank) == group.low and (rank in group.seen or _tells_all(ranks.get(rank)))
    ]


def _outstanding(progress: RankProgress, group: GroupProgress) -> bool:
    """Whether the rank has a collective under way in this group, as far as it knows."""
    return group.enqueued > group.done or "done" in progress.partial


def in_collective(progress: RankProgress) -> bool:
    """Whether the rank is in one that has not ended, or waits for a peer, as far as it knows."""
    return progress.waiting or any(_outstanding(progress, each) for each in progress.groups)


def _add_message_waits(waits: Waits, ranks: Mapping[int, RankProgress], unseen: set[int]) -> None:
    """Receives that nobody has sent; else sends that nobody takes, and peers that are not seen.

    A send may be on its way without anybody waiting for it, and an unseen peer may have done its
    part, so that these explain only what nothing else explains.
    """
    talk = {rank: progress for rank, progress in ranks.items() if progress.peers}
    for rank, progress in talk.items():
        for peer in progress.peers:
            sent = _sends(ranks, peer.peer, rank)
            if sent is not None and peer.receives > sent:
                waits.setdefault(rank, []).append(peer.peer)
    for rank, progress in talk.items():
        if rank in waits:
            continue
        for peer in progress.peers:
            taken = _receives(ranks, peer.peer, rank)
            if peer.peer in unseen or (taken is not None and peer.sends > taken):
                waits.setdefault(rank, []).append(peer.peer)


def _add_meeting_waits(waits: Waits, ranks: Mapping[int, RankProgress]) -> None:
    """Ranks that make their first group wait for those that have not come to it."""
    first = {rank: seen for rank, seen in ranks.items() if not (seen.groups or seen.peers)}
    come = [rank for rank, seen in first.items() if seen.waiting]
    away: list[Hashable] = [
        rank for rank, seen in first.items() if not seen.waiting and _tells_all(seen)
    ]
    if come and away:
        waits[_MEETING] = away
        for rank in come:
            waits.setdefault(rank, []).append(_MEETING)


_MEETING = ("meeting", 0)


def _sends(ranks: Mapping[int, RankProgress], rank: int, to: int) -> int | None:
    return _count(ranks, rank, to, "sends")


def _receives(ranks: Mapping[int, RankProgress], rank: int, source: int) -> int | None:
    return _count(ranks, rank, source, "receives")


def _count(ranks: Mapping[int, RankProgress], rank: int, other: int, way: str) -> int | None:
    progress = ranks.get(rank)
    if progress is None or {"collectives", "peers full"} & set(progress.partial):
        return None
    found = [int(getattr(peer, way)) for peer in progress.peers if peer.peer == other]
    return found[0] if found else 0


# ---------------------------------------------------------------- where the waits end


def _ends(waits: Waits, ranks: Mapping[int, RankProgress], silent: set[int]) -> set[int]:
    """Ranks that others wait for and that wait for nobody; else those that stopped first."""
    awaited = {node for targets in waits.values() for node in targets if isinstance(node, int)}
    stopped = awaited & silent
    if stopped:
        return stopped
    idle = {rank for rank in awaited if rank in ranks and not ranks[rank].waiting}
    free = {rank for rank in idle if rank not in waits}
    return free or (idle if len(idle) == 1 else _first_to_stop(idle, ranks))


def _first_to_stop(circle: set[int], ranks: Mapping[int, RankProgress]) -> set[int]:
    by_age = sorted(circle, key=lambda rank: -ranks[rank].still_s)
    if len(by_age) == 1:
        return circle
    if not by_age or ranks[by_age[0]].still_s - ranks[by_age[1]].still_s < EARLIER_S:
        return set()
    return {by_age[0]}


def _left_out(
    waits: Waits, ranks: Mapping[int, RankProgress], groups: Mapping[int, _Group]
) -> set[int]:
    """Where all that are waited for say that they wait, too: the one rank that two or more of its
    group wait for in vain, and that waits in another group. It has skipped what they are in.
    """
    awaited = {node for targets in waits.values() for node in targets if isinstance(node, int)}
    if not all(rank in ranks and ranks[rank].waiting for rank in awaited):
        return set()
    alone = [_alone(group, ranks) for group in groups.values()]
    found = {rank for rank in alone if rank in waits}
    return {rank for rank in found if rank is not None} if len(found) == 1 else set()


def _alone(group: _Group, ranks: Mapping[int, RankProgress]) -> int | None:
    """Who alone has not come to where all others of the group, two or more, are waiting."""
    here = {
        rank
        for rank, seen in group.seen.items()
        if seen.enqueued == group.top and _outstanding(ranks[rank], seen)
    }
    lacking = [rank for rank in group.members if rank not in here]
    return lacking[0] if len(lacking) == 1 < len(here) and group.low < group.top else None


def _behind(waits: Waits, ends: Iterable[int]) -> dict[int, int]:
    """By end, of how many other ranks the waits lead to it."""
    back: dict[Hashable, list[Hashable]] = {}
    for node, targets in waits.items():
        for target in targets:
            back.setdefault(target, []).append(node)
    leading: dict[Hashable, set[Hashable]] = {}  # of many ends it is the same few places
    counts: dict[int, int] = {}
    for end in ends:
        for node in back.get(end, ()):
            if node not in leading:
                leading[node] = _leading(back, node)
        found = set[Hashable]().union(*(leading[node] for node in back.get(end, ())))
        counts[end] = sum(isinstance(node, int) for node in found - {end})
    return counts


def _leading(back: Mapping[Hashable, list[Hashable]], to: Hashable) -> set[Hashable]:
    """All ranks and places from which waits lead there, and itself."""
    found = {to}
    queue = [to]
    while queue:
        for node in back.get(queue.pop(), ()):
            if node not in found:
                found.add(node)
                queue.append(node)
    return found


# ---------------------------------------------------------------- in words


def _sentences(
    rank: int,
    ranks: Mapping[int, RankProgress],
    groups: Mapping[int, _Group],
    waits: Waits,
    behind: int,
    silent: bool,
) -> tuple[str, ...]:
    said = [_about_group(rank, groups[key]) for key in _groups_lacking(waits, rank)]
    said += [
        f"rank {other} waits for a message of rank {rank}"
        for other in sorted(n for n in waits if isinstance(n, int) and rank in waits[n])
    ]
    if rank in waits.get(_MEETING, ()):
        come = sum(1 for targets in waits.values() if _MEETING in targets)
        which = f"{come} of {len(ranks)} ranks"
        said.append(f"{which} are in init_process_group, to which rank {rank} has not come")
    said.append(f"the waits of {behind} rank{'s'[: behind != 1]} end at rank {rank}")
    progress = ranks.get(rank)
    if silent:
        age = f" for {progress.silent_s:.1f} s" if progress is not None else ""
        said.append(f"rank {rank} itself has given no sign{age}: it does not run")
    elif progress is not None:
        said.append(f"rank {rank} runs but has done nothing with its peers for {_still(progress)}")
    if progress is not None and progress.process:
        state = progress.process
        said.append(f"hint: its process is in state {state}{STATES.get(state, '')}")
    if progress is not None:
        said += stopped_children(progress)
    return tuple(said)


def stopped_children(progress: RankProgress) -> list[str]:
    """A hint at child processes that are stopped, such as a DataLoader's workers."""
    pids = progress.stopped_children
    if not pids:
        return []
    which = f"processes {', '.join(map(str, pids))} are" if pids[1:] else f"process {pids[0]} is"
    return [f"hint: its child {which} stopped"]


def _groups_lacking(waits: Waits, rank: int) -> list[int]:
    return [
        key[1]
        for key, targets in waits.items()
        if isinstance(key, tuple) and key[0] == "group" and rank in targets
    ]


def _about_group(rank: int, group: _Group) -> str:
    waiting = sum(1 for other in group.members if group.enqueued(other) > group.enqueued(rank))
    kinds = [seen.kind for seen in group.seen.values() if seen.enqueued == group.top]
    name = f"group {_short(group.members)}"
    if waiting == 0:
        return f"all ranks of {name} have entered {kinds[0]} #{group.top}, and it does not end"
    return (
        f"{waiting} of {len(group.members)} ranks wait in {kinds[0]} #{group.top} of {name}; "
        f"rank {rank} is at #{group.enqueued(rank)}"
    )


def _short(members: tuple[int, ...]) -> str:
    if len(members) <= 8:
        return f"[{', '.join(map(str, members))}]"
    return f"[{members[0]}, {members[1]}, … {members[-1]}]"


def _still(progress: RankProgress) -> str:
    return f"{progress.still_s:.1f} s"


def _nobody(ranks: Mapping[int, RankProgress], waits: Waits) -> tuple[str, ...]:
    waiting = sum(1 for node in waits if isinstance(node, int))
    if not waiting:
        return (f"none of {len(ranks)} ranks is known to wait for another",)
    return (f"{waiting} of {len(ranks)} ranks wait, and the waits end at nobody",)
