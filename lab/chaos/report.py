"""`holdfast chaos report`: what was blamed for what, over all runs of campaigns; and whether the
page of faults says the same as the scenarios.

Called by the command line, which reads the options.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.lab.chaos import agreement, matrix
from holdfast.lab.chaos.campaign import NoCampaign, read
from holdfast.lab.chaos.main import say
from holdfast.lab.chaos.matrix import Row
from holdfast.lab.chaos.scenarios import SCENARIOS
from holdfast.protocol import exitcodes

FAILURES = (NoCampaign, agreement.NoPage)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
BEGIN = "<!-- measured: holdfast chaos report FILE --docs docs/faults.md -->\n"
END = "<!-- end of what is measured -->\n"


def run(files: Sequence[Path], *, docs: Path | None, as_json: bool) -> int:
    """Print a line a fault, put the table into `docs`, and check what stands there. An exit code.

    0: the page agrees with the scenarios, 1: it does not. Raises `FAILURES`.
    """
    rows = matrix.rows(line for file in files for line in read(file)[0])
    for row in rows:
        line = msgspec.json.encode(row).decode() if as_json else matrix.sentence(row)
        sys.stdout.write(f"{line}\n")
    page = docs or PAGE
    if docs:
        docs.write_text(written(agreement.text_of(docs), rows))
    wrong = agreement.wrong(agreement.text_of(page))
    for sentence in wrong:
        say(f"{page.name}: {sentence}")
    return exitcodes.FAILED if wrong else exitcodes.OK


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the table, and which scenarios are not in it, in the place of what is between
    its marks. Pure. Raises `NoPage`."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise agreement.NoPage(f"the page has no table to be replaced: no line {BEGIN.strip()}")
    left = matrix.without_row(rows, [each.name for each in SCENARIOS])
    told = f"{matrix.table(rows)}\n{left}\n" if left else f"{matrix.table(rows)}\n"
    return f"{before}{BEGIN}\n{told}{END}{after}"
