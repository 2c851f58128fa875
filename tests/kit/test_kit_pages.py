"""Links of our pages lead somewhere, code names pages that are there, decisions are readable."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GLOSSARY = ROOT / "docs" / "glossary.md"
MAPS = [ROOT / "ARCHITECTURE.md", GLOSSARY]
OPENED = ["compose", "glossary", "lifecycle", "scripts", "tests", "tour"]
"""Of `docs` those that are short enough to be read in an editor; the others are looked things up
in, rendered."""
NARROW = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *(ROOT / "docs" / f"{name}.md" for name in OPENED),
    *DECISIONS.glob("*.md"),
]
PARTS = sorted(path.resolve() for path in (ROOT / "src" / "holdfast").iterdir() if path.is_dir())
OTHERS = [ROOT / name for name in ("tests", "deploy", "Makefile", "pyproject.toml", ".ci")]
COLUMNS = 100

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_FOLDERS = "|".join(path.name for path in PARTS)
_PLACE = re.compile(rf"`((?:{_FOLDERS})(?:/[\w.-]+)*/?)`")
_NAMED = re.compile(r"\bdocs/[\w./-]*\w")


def links(text: str) -> list[str]:
    """Where a page's links lead that stay in the repository."""
    targets = _LINK.findall(_CODE.sub("", text))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def broken(page: Path, text: str) -> list[str]:
    """Links that lead to no file, or to no heading of it."""
    wrong = []
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


@pytest.mark.parametrize("planted", ["[a](no.md)", "[a](README.md#no-such)", "[a](#no-such)"])
def test_a_link_that_leads_nowhere_is_found(planted: str) -> None:
    assert broken(ROOT / "README.md", planted)


def test_code_names_pages_that_are_there() -> None:
    files = [file for place in (*PARTS, *OTHERS) for file in [place, *place.rglob("*")]]
    read = [
        file
        for file in files
        if file.suffix in {".py", ".yaml", ".toml", ".sh", ".go", ".Dockerfile", ""}
    ]
    named = {
        (str(file.relative_to(ROOT)), name)
        for file in read
        if file.is_file() and "__pycache__" not in file.parts and file != Path(__file__)
        for name in _NAMED.findall(file.read_text(errors="replace"))
    }
    assert any("decisions" in name for _, name in named)
    assert {place for place in named if not (ROOT / place[1]).exists()} == set()


@pytest.mark.parametrize("page", NARROW, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_to_be_read_in_an_editor_are_narrow(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    wide = [line for line in prose.splitlines() if len(line) > COLUMNS and line[0] != "|"]
    assert wide == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_pages_that_say_how_long_the_tests_take_say_the_same(name: str) -> None:
    said = r"^make test +# all tests but those on a real Kubernetes: 14 minutes on two cores$"
    assert re.search(said, (ROOT / name).read_text(), re.M)


def test_the_first_page_shows_what_tests_drew_on_a_wide_screen_and_a_phone() -> None:
    """Which are those of tests/page/test_page_browser.py: name, width, scheme."""
    shown = re.findall(
        r"!\[.+?\]\(docs/pictures/(\w+-\d+-\w+)\.png\)", (ROOT / "README.md").read_text()
    )
    assert {name.split("-")[1] for name in shown} == {"1440", "360"}
    assert {name.split("-")[2] for name in shown} == {"light", "dark"}


def test_each_decision_is_in_the_index_once() -> None:
    index = (DECISIONS / "README.md").read_text()
    listed = [link for link in links(index) if "/" not in link]
    assert sorted(listed) == sorted(page.name for page in DECISIONS.glob("[a-z]*.md"))


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_pages_that_say_where_things_are_name_what_is_there(page: Path) -> None:
    named = _PLACE.findall(page.read_text())
    assert len(named) > 10
    assert [place for place in named if not (ROOT / place).exists()] == []


def test_the_words_of_the_glossary_are_in_their_order() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*", GLOSSARY.read_text(), re.MULTILINE)
    assert len(words) > 100
    assert words == sorted(words, key=str.lower)
