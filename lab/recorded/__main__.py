"""Plays the story and writes what was recorded: `python -m holdfast.lab.recorded`, `make examples`.

In a checkout: the examples beside the REST application, and the part of docs/api.md between marks.
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.driver.adapters.rest import examples
from holdfast.lab.recorded.story import Answers, Bodies, Story

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BEGIN, END = "<!-- recorded: make examples -->\n", "<!-- end of what is recorded -->\n"
SHOWN = (
    ("Submitted, with the document as its body:", "POST /jobs"),
    (
        "A node is lost; its incident, once training is as far as it was:",
        "GET /incidents/{number}",
    ),
    ("What each attempt ran:", "GET /jobs/{job}/attempts"),
    ("The node that was lost:", "GET /nodes/{node}"),
    ("The entry of the journal in which the cluster said so:", "GET /events"),
)


def record() -> tuple[Bodies, Answers]:
    """Play it once."""
    with TemporaryDirectory() as folder:
        story = Story(Path(folder))
        asyncio.run(story.play())
    return story.bodies, story.answers


def as_file(bodies: Bodies, answers: Answers) -> str:
    """Of `examples.RECORDED`."""
    return json.dumps({"bodies": bodies, "answers": answers}, indent=1) + "\n"


def as_part(bodies: Bodies, answers: Answers) -> str:
    """Of the page, with its marks."""
    parts = []
    for said, name in SHOWN:
        answer = answers[name]
        text = answer[1] if isinstance(answer, list) else _json(answer)
        body = f"{_json(bodies[name])}\n\n" if name in bodies else ""
        parts.append(f"{said}\n\n```\n{name}\n\n{body}{text.strip()}\n```\n")
    return BEGIN + "\n" + "\n".join(parts) + "\n" + END


def page_with(part: str, page: str) -> str:
    """The page with this part in the place of the one between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + part + after


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


def main() -> None:
    bodies, answers = record()
    examples.RECORDED.write_text(as_file(bodies, answers))
    PAGE.write_text(page_with(as_part(bodies, answers), PAGE.read_text()))


if __name__ == "__main__":
    main()
