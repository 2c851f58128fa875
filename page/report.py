"""An incident, or a digest, as one HTML file that opens anywhere, without a script. Pure.

Called by `holdfast incident --html`, `holdfast digest --html` and the page of an incident. What
ranks and people wrote is text there, whatever it is: `render` escapes each value, and the file
forbids scripts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.page.render import render

Told = Mapping[str, Any]


def of(
    incident: Told,
    job: Told,
    lines: Sequence[Told],
    stacks: Sequence[Any],
    *,
    made: str,
    version: str,
) -> str:
    """The whole file. `lines`: of the job's story, all; `stacks`: each with its `ranks` and `text`;
    `made`: when, for people.
    """
    own = [each for each in lines if each["incident"] == incident["number"]]
    about = {"made": made, "version": version}
    return render("report", incident=incident, job=job, lines=own, stacks=stacks, **about)


def digest(told: Told, lines: Sequence[str]) -> str:
    """The digest as such a file. `lines`: its figures as sentences."""
    return render("digest", told=told, lines=lines)
