"""What is kept of a rank's progress until it is heard of again: there are 100,000. Pure.

Used by `jobs`. Each heartbeat is decoded anew, so that ranks which say the same say it in strings
and tuples of their own; here they share one. What only the heartbeat itself is judged by is left
out: marks, the last collectives, and times by phase.
"""

import sys

from msgspec.structs import replace

from holdfast.protocol.messages import GroupProgress, RankProgress

Groups = dict[int, GroupProgress]
"""Of one job, as a rank told of each last. Filled in place."""

_NO_TIMES: dict[str, float] = {}


def kept(groups: Groups, seen: RankProgress) -> RankProgress:
    return replace(
        seen,
        job=sys.intern(seen.job),
        process=sys.intern(seen.process),
        phase=sys.intern(seen.phase),
        frame=sys.intern(seen.frame),
        groups=tuple([_kept_group(groups, each) for each in seen.groups]),
        wall_s=_NO_TIMES,
        thread_s=_NO_TIMES,
        recent=(),
        starts_s=seen.starts_s or _NO_TIMES,
    )


def _kept_group(groups: Groups, seen: GroupProgress) -> GroupProgress:
    """Ranks of a group are mostly as far as each other."""
    last = groups.get(seen.members)
    if last is not None and _alike(last, seen):
        return last
    members = last.ranks if last is not None and last.ranks == seen.ranks else seen.ranks
    last = groups[seen.members] = GroupProgress(
        members=seen.members if last is None else last.members,
        kind=sys.intern(seen.kind),
        enqueued=seen.enqueued,
        done=seen.done,
        fingerprint=seen.fingerprint,
        step=seen.step,
        ranks=members,
        good=seen.good,
        bad=seen.bad,
        bad_step=seen.bad_step,
    )
    return last


def _alike(one: GroupProgress, other: GroupProgress) -> bool:
    """But for the marks."""
    return (
        one.enqueued == other.enqueued
        and one.done == other.done
        and one.fingerprint == other.fingerprint
        and one.step == other.step
        and one.kind == other.kind
        and one.ranks == other.ranks
        and (one.good, one.bad, one.bad_step) == (other.good, other.bad, other.bad_step)
    )
