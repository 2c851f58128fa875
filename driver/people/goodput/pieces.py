"""A job's life, cut into pieces that follow each other without a gap. Pure.

Some of it is known only afterwards: that what a job did was in vain, when its ranks took their
first step, since when it had stood still. So a piece is cut once the mark behind it is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from msgspec.structs import replace

from holdfast.driver.core.state.value import Value
from holdfast.driver.noted import What
from holdfast.driver.people.goodput.marks import Life, Mark


class Bucket(StrEnum):
    """What a second was spent on. The order is that in which people are told."""

    KEPT = "kept"
    REPEATED = "repeated"
    SAVE = "save"
    DETECT = "detect"
    DECIDE = "decide"
    STOP = "stop"
    DIAGNOSE = "diagnose"
    WAIT = "wait"
    RENDEZVOUS = "rendezvous"
    FORK = "fork"
    GROUP = "group"
    RESTORE = "restore"
    FIRST_STEP = "first_step"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    UNSEEN = "unseen"
    UNKNOWN = "unknown"


class Piece(Value, frozen=True):
    """`incident` is the one that it was lost to, `kind` and `node` are the incident's."""

    begin_s: float
    end_s: float
    bucket: Bucket
    incident: int | None = None
    kind: str = ""
    node: str = ""

    @property
    def took_s(self) -> float:
        return self.end_s - self.begin_s


PLAIN: Mapping[What, Bucket] = {
    What.QUEUED: Bucket.QUEUED,
    What.SUSPENDED: Bucket.SUSPENDED,
    What.WAIT: Bucket.WAIT,
    What.RENDEZVOUS: Bucket.RENDEZVOUS,
    What.FORK: Bucket.FORK,
    What.REPEAT: Bucket.REPEATED,
    What.TRAIN: Bucket.KEPT,
    What.DECIDE: Bucket.DECIDE,
    What.STOP: Bucket.STOP,
    What.SAVE: Bucket.SAVE,
    What.DIAGNOSE: Bucket.DIAGNOSE,
}
"""What needs no cut. What has begun does: see `_begun`."""

RUNS = frozenset({What.BEGIN, What.REPEAT, What.TRAIN})
TRAINED = frozenset({Bucket.KEPT, Bucket.REPEATED, Bucket.FIRST_STEP, Bucket.UNSEEN})
"""In which a job may have stood still already before that was found."""
STARTS = (Bucket.GROUP, Bucket.RESTORE, Bucket.FIRST_STEP)
"""As `telemetry.schema.STARTS` has them: how long ago each was over the ranks tell by its name."""


def pieces_of(life: Life, *, now: float, begun_s: float | None = None) -> list[Piece]:
    """From the job's submission to its end, or to `now`. `begun_s`: its submission, where the life
    does not have it: until its first mark nothing is known."""
    marks = _one_begin(_without_taken_back(life.marks))
    pieces: list[Piece] = []
    trained = False
    if not life.whole and begun_s is not None and begun_s < marks[0].at_s:
        pieces.append(Piece(begin_s=begun_s, end_s=marks[0].at_s, bucket=Bucket.UNKNOWN))
    for before, mark in pairwise((None, *marks)):
        assert mark is not None
        new = list(_between(before, mark, first=not trained)) if before is not None else []
        trained = trained or any(piece.bucket is Bucket.KEPT for piece in new)
        pieces += new
        if stood_s := _stood_s(before, mark):
            _cut_off(pieces, mark, stood_s)
    if marks[-1].doing.what is not What.OVER:
        pieces += _until_now(marks[-1], max(now, marks[-1].at_s))
    return _joined(pieces)


def _without_taken_back(marks: Sequence[Mark]) -> list[Mark]:
    """Without standstills of which it turned out that the job went on: it was training."""
    kept: list[Mark] = []
    for mark, after in pairwise((*marks, None)):
        assert mark is not None
        decides = mark.doing.what is What.DECIDE and after is not None
        goes_on = decides and after is not None and after.doing.what in RUNS
        again = bool(kept) and goes_on and after is not None and _same_run(kept[-1], after)
        if not again:
            kept.append(mark)
    return kept


def _same_run(one: Mark, other: Mark) -> bool:
    return one.doing.what in RUNS and one.doing.attempt == other.doing.attempt


def _one_begin(marks: Sequence[Mark]) -> list[Mark]:
    """One mark for what has begun, though its incident became another one meanwhile: it is to be
    cut as a whole, for the first."""
    kept: list[Mark] = []
    for mark in marks:
        begins = mark.doing.what is What.BEGIN and bool(kept)
        if not (begins and kept[-1].doing.what is What.BEGIN and _same_run(kept[-1], mark)):
            kept.append(mark)
    return kept


# ---------------------------------------------------------------- one piece after the other


def _between(mark: Mark, after: Mark, *, first: bool) -> Iterator[Piece]:
    """What the job did between two marks. `first`: it had never trained before."""
    what = mark.doing.what
    if what is What.BEGIN:
        yield from _begun(mark, after, first=first)
    elif what is What.DECIDE and mark.doing.incident is None:
        yield _piece(after, Bucket.DECIDE, mark.at_s, after.at_s)
    else:
        yield _piece(mark, PLAIN[what], mark.at_s, after.at_s)


def _until_now(mark: Mark, end_s: float) -> Iterator[Piece]:
    """Of what has begun nobody has told yet when its first step was."""
    begins = mark.doing.what is What.BEGIN
    bucket = Bucket.FIRST_STEP if begins else PLAIN[mark.doing.what]
    yield _piece(mark, bucket, mark.at_s, end_s)


def _begun(mark: Mark, after: Mark, *, first: bool) -> Iterator[Piece]:
    """From when all ranks ran to a step that was new, or done again, or to their end."""
    if after.doing.what not in (What.TRAIN, What.REPEAT):
        yield _piece(mark, _in_vain(mark, after, first=first), mark.at_s, after.at_s)
        return
    begin_s = mark.at_s
    for bucket in STARTS:
        age_s = after.ages_s.get(NAMES[bucket])
        if age_s is not None:
            end_s = min(after.at_s, max(begin_s, after.at_s - age_s))
            yield _piece(mark, bucket, begin_s, end_s)
            begin_s = end_s
    if NAMES[Bucket.FIRST_STEP] in after.ages_s:
        rest = Bucket.REPEATED if _repeats(mark, after, first=first) else Bucket.KEPT
    else:
        rest = Bucket.FIRST_STEP
    yield _piece(mark, rest, begin_s, after.at_s)


NAMES = {Bucket.GROUP: "group", Bucket.RESTORE: "restore", Bucket.FIRST_STEP: "step"}


def _in_vain(mark: Mark, after: Mark, *, first: bool) -> Bucket:
    """Of ranks that ended before anybody saw them train."""
    if after.done is not None and after.done > (mark.doing.since or 0):
        return Bucket.KEPT if first else Bucket.REPEATED
    ended = after.doing.what is not What.DECIDE and after.doing.incident is None
    return Bucket.UNSEEN if ended else Bucket.FIRST_STEP


def _repeats(mark: Mark, after: Mark, *, first: bool) -> bool:
    """Whether steps were done again between the first one of the attempt and a new one. What began
    just where the job was did none again."""
    if after.doing.what is What.REPEAT:
        return True
    since = mark.doing.since
    return not first and bool(after.before) and (since is None or since < (after.before or 0))


def _piece(mark: Mark, bucket: Bucket, begin_s: float, end_s: float) -> Piece:
    if bucket is Bucket.KEPT:
        return Piece(begin_s=begin_s, end_s=end_s, bucket=bucket)
    doing = mark.doing
    return Piece(
        begin_s=begin_s,
        end_s=end_s,
        bucket=bucket,
        incident=doing.incident,
        kind=doing.kind,
        node=doing.node,
    )


# ---------------------------------------------------------------- what was found later


def _stood_s(before: Mark | None, mark: Mark) -> float:
    """How long what was found now had lasted; 0 where nothing new was."""
    if mark.doing.incident is None:
        return 0.0
    if mark.stalled_s is not None:
        return mark.stalled_s
    known = before is not None and before.doing.incident == mark.doing.incident
    return 0.0 if known else mark.doing.stalled_s


def _cut_off(pieces: list[Piece], found: Mark, stood_s: float) -> None:
    """Take off their end, in which the job only seemed to train, as what it took to find that."""
    from_s, begin_s = found.at_s, found.at_s - stood_s
    while pieces and pieces[-1].bucket in TRAINED and from_s > begin_s:
        last = pieces.pop()
        from_s = max(begin_s, last.begin_s)
        if last.begin_s < from_s:
            pieces.append(replace(last, end_s=from_s))
    pieces.append(_piece(found, Bucket.DETECT, from_s, found.at_s))


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Without those that took no time, and with those as one that are alike."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece.took_s <= 0.0:
            continue
        last = joined[-1] if joined else None
        if last is not None and replace(last, end_s=piece.end_s, begin_s=piece.begin_s) == piece:
            joined[-1] = replace(last, end_s=piece.end_s)
        else:
            joined.append(piece)
    return joined
