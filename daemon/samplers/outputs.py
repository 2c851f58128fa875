"""What ranks print, each file from its rank's start to its end, and the lines that match a rule.

Called by the daemon's loop ten times a second. The files of an attempt that has ended are read to
their end, too: its last line is the one that says why. Of a flood the middle is skipped, and that
is told. Must not judge a hit.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.daemon.samplers.followed import Followed
from holdfast.daemon.samplers.readings import Readings, read_bytes
from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger
from holdfast.kit.patterns import NoPattern, Patterns, check
from holdfast.protocol.messages import LogHit
from holdfast.protocol.outputs import DEFAULT_RULES, FLOOD, STREAMS, Output, quoted

LINE_CHARACTERS = 500
"""Of a line that are told, from a little before what matches."""
BEFORE_CHARACTERS = 100
LOOK_BYTES = 1 << 20
"""Read in one look, of all outputs together: to search it took 9 ms, all words and one rule."""
HITS_A_RULE = 8
"""Told of a rule of the job and an output; of words that are always looked for one: they repeat."""
NOTED_EVERY_S = 5.0
"""How far was read is written down so often, and with each hit: a daemon that begins anew repeats
no hit, and reads no more than this again."""
MAX_NOTE_BYTES = 1 << 20

_log = LazyLogger()
_DEFAULTS = tuple(rule.pattern for rule in DEFAULT_RULES.values())
_NAMES = {rule.pattern: name for name, rule in DEFAULT_RULES.items()}


class Outputs:
    """All outputs that the executor has written down in `folder`; `notes` is where we write."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self._folder, self._notes = folder, notes
        self._files = Readings("outputs")
        self._open: dict[str, _Output] = {}
        self._patterns: dict[tuple[str, ...], Patterns] = {}
        self._noted = self._read_notes()
        self._noted_s = 0.0

    def hits(self, now: float) -> list[LogHit]:
        """Hits since the last call."""
        self._scan()
        share = self._share()
        hits = [hit for output in self._open.values() for hit in output.hits(share)]
        if hits or now - self._noted_s >= NOTED_EVERY_S:
            self._note()
            self._noted_s = now
        return hits

    def last_hits(self, now: float) -> list[LogHit]:
        """Hits since the last call, for the last time: nobody waits for the end of a line."""
        hits = self.hits(now)
        share = self._share()
        return hits + [hit for output in self._open.values() for hit in output.last_hits(share)]

    @property
    def unreadable(self) -> tuple[str, ...]:
        """What of it could not be looked at, or was not."""
        outputs = self._open.values()
        return (
            *self._files.unreadable_now,
            *(each for output in outputs for each in output.unreadable),
        )

    def _share(self) -> int:
        """Bytes of one file in one look: those of old attempts are read, and take no part in it."""
        grown = sum(output.has_grown for output in self._open.values())
        return LOOK_BYTES // (len(STREAMS) * max(1, grown))

    def _scan(self) -> None:
        try:
            made = {_made(path): path for path in self._folder.glob("*.json")}
        except FileNotFoundError:  # one of them has just been taken away
            return
        except OSError as error:
            self._files.unreadable(self._folder, error.strerror or type(error).__name__)
            return
        self._open = {name: output for name, output in self._open.items() if name in made}
        for name in sorted(made.keys() - self._open.keys()):
            self._begin(name, made[name])

    def _begin(self, name: str, path: Path) -> None:
        try:
            found = msgspec.json.decode(read_bytes(path, MAX_NOTE_BYTES), type=Output)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._files.unreadable(path, str(error))
        else:
            began = self._noted.get(name, found.began)
            self._open[name] = _Output(found, began, self._searcher(found.rules))

    def _searcher(self, rules: tuple[str, ...]) -> Patterns:
        if rules not in self._patterns:
            taken = (*_taken(rules), *_DEFAULTS)
            self._patterns = {rules: Patterns(tuple(dict.fromkeys(taken)))}
        return self._patterns[rules]

    def _read_notes(self) -> dict[str, dict[str, int]]:
        try:
            data = read_bytes(self._notes, MAX_NOTE_BYTES)
            return msgspec.json.decode(data, type=dict[str, dict[str, int]])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._files.unreadable(self._notes, str(error))
            return {}

    def _note(self) -> None:
        now = {name: output.read for name, output in self._open.items()}
        if now == self._noted:
            return
        try:
            write_atomic(self._notes, msgspec.json.encode(now))
        except OSError as error:
            self._files.unreadable(self._notes, str(error))
        self._noted = now


class _Output:
    """One rank's, in one epoch."""

    def __init__(self, said: Output, began: dict[str, int], patterns: Patterns) -> None:
        self._said, self._patterns = said, patterns
        self._told: dict[str, int] = {}
        self._files = {
            stream: Followed(Path(said.folder) / f"{stream}.log", began.get(stream, 0))
            for stream in STREAMS
        }

    @property
    def read(self) -> dict[str, int]:
        """How far, in bytes, by stream."""
        return {stream: file.read for stream, file in self._files.items()}

    @property
    def has_grown(self) -> bool:
        """Since it was looked at last."""
        return any(file.has_grown for file in self._files.values())

    @property
    def unreadable(self) -> tuple[str, ...]:
        lost = {stream: file.skipped_bytes for stream, file in self._files.items()}
        return (
            *(each for file in self._files.values() for each in file.unreadable),
            *(
                f"{self._source(stream)}: {skipped / 1e6:.1f} MB printed too fast to be searched"
                for stream, skipped in lost.items()
                if skipped
            ),
        )

    def hits(self, most: int) -> list[LogHit]:
        """Of one look at `most` bytes of each file."""
        return [
            hit
            for stream, file in self._files.items()
            for hit in (*self._found(stream, file.block(most)), *self._flood(stream, file))
        ]

    def last_hits(self, most: int) -> list[LogHit]:
        return [
            hit
            for stream, file in self._files.items()
            for block in file.last_blocks(most)
            for hit in self._found(stream, block)
        ]

    def _found(self, stream: str, block: str) -> Iterator[LogHit]:
        for line in self._patterns.lines(block, self._wanted):
            found = [(rule, at) for rule, at in self._patterns.found(line) if self._wanted(rule)]
            own = [(rule, at) for rule, at in found if rule in self._said.rules]
            if not own and quoted(line, block):
                continue
            for rule, at in own or found[:1]:
                yield self._hit(stream, line, rule, at)
            for rule, _ in found if own else found[:1]:  # what a rule tells needs no other word
                self._told[rule] = self._told.get(rule, 0) + 1

    def _wanted(self, rule: str) -> bool:
        return self._told.get(rule, 0) < (HITS_A_RULE if rule in self._said.rules else 1)

    def _flood(self, stream: str, file: Followed) -> Iterator[LogHit]:
        """A rank that prints more than is searched, told at the first time."""
        if file.skipped_bytes and FLOOD not in self._told:
            self._told[FLOOD] = 1
            line = f"{file.skipped_bytes / 1e6:.1f} MB at once, skipped but for its ends"
            yield self._told_of(stream, FLOOD, line, always=True)

    def _hit(self, stream: str, line: str, rule: str, at: int) -> LogHit:
        own = rule in self._said.rules
        begin = max(0, at - BEFORE_CHARACTERS)
        shown = line[begin : begin + LINE_CHARACTERS]
        return self._told_of(stream, rule if own else _NAMES[rule], shown, always=not own)

    def _told_of(self, stream: str, rule: str, line: str, *, always: bool) -> LogHit:
        return LogHit(
            source=self._source(stream),
            rule=rule,
            line=line,
            rank=self._said.rank,
            job=self._said.job,
            epoch=self._said.epoch,
            always=always,
        )

    def _source(self, stream: str) -> str:
        return f"rank {self._said.rank} {stream}"


def _made(path: Path) -> str:
    """Its name and when it was made: a job of the same name may come after."""
    return f"{path.name}@{path.stat().st_mtime_ns}"


def _taken(rules: tuple[str, ...]) -> list[str]:
    """Those that are patterns; of the others it is said that they are left out."""
    good = []
    for rule in rules:
        try:
            check(rule)
        except NoPattern as error:
            _log.warning("log rule refused", rule=rule, why=str(error), fix=error.fix)
        else:
            good.append(rule)
    return good
