"""What ranks print, each file from its rank's start to its end, and the lines that match a rule.

Called by the daemon's loop ten times a second. The files of an attempt that has ended are read to
their end, too: its last line is the one that says why. Must not judge a hit.
"""

from pathlib import Path

import msgspec

from holdfast.daemon.samplers.followed import Followed
from holdfast.daemon.samplers.readings import Readings, read_bytes
from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger
from holdfast.kit.patterns import NoPattern, Patterns, check
from holdfast.protocol.messages import LogHit
from holdfast.protocol.outputs import DEFAULT_RULES, STREAMS, Output

LINE_CHARACTERS = 500
"""Of a line that are told, from a little before what matches."""
BEFORE_CHARACTERS = 100
SEARCHED_CHARACTERS = 4_096
HITS_A_RULE = 8
"""Told of a rule of the job and an output; of words that are always looked for one: they repeat."""
NOTED_EVERY_S = 5.0
"""How far was read is written down so often, and with each hit: a daemon that begins anew repeats
no hit, and reads no more than this again."""
MAX_NOTE_BYTES = 1 << 20

_log = LazyLogger()
_DEFAULTS = tuple(DEFAULT_RULES.values())
_NAMES = {pattern: name for name, pattern in DEFAULT_RULES.items()}


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
        hits = [hit for output in self._open.values() for hit in output.hits()]
        if hits or now - self._noted_s >= NOTED_EVERY_S:
            self._note()
            self._noted_s = now
        return hits

    def last_hits(self, now: float) -> list[LogHit]:
        """Hits since the last call, for the last time: nobody waits for the end of a line."""
        hits = self.hits(now)
        return hits + [hit for output in self._open.values() for hit in output.last_hits()]

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

    def hits(self) -> list[LogHit]:
        return [
            hit
            for stream, file in self._files.items()
            for line in file.lines()
            for hit in self._hits(stream, line[:SEARCHED_CHARACTERS])
        ]

    def last_hits(self) -> list[LogHit]:
        return [
            hit
            for stream, file in self._files.items()
            for line in file.last_lines()
            for hit in self._hits(stream, line[:SEARCHED_CHARACTERS])
        ]

    def _hits(self, stream: str, line: str) -> list[LogHit]:
        found = self._patterns.found(line)
        own = [(rule, at) for rule, at in found if rule in self._said.rules]
        wanted = own or found[:1]  # of the words that are always looked for one says enough
        return [self._hit(stream, line, rule, at) for rule, at in wanted if self._first(rule)]

    def _first(self, rule: str) -> bool:
        self._told[rule] = self._told.get(rule, 0) + 1
        return self._told[rule] <= (HITS_A_RULE if rule in self._said.rules else 1)

    def _hit(self, stream: str, line: str, rule: str, at: int) -> LogHit:
        own = rule in self._said.rules
        begin = max(0, at - BEFORE_CHARACTERS)
        return LogHit(
            source=f"rank {self._said.rank} {stream}",
            rule=rule if own else _NAMES[rule],
            line=line[begin : begin + LINE_CHARACTERS],
            rank=self._said.rank,
            job=self._said.job,
            epoch=self._said.epoch,
            always=not own,
        )


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
