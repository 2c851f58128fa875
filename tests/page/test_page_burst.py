"""A burst's picture: in a file, in a table, in a terminal; each is made from a record."""

import csv
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from holdfast.cli import burst as command
from holdfast.cli.errors import Stopped
from holdfast.cli.tabular import Format
from holdfast.driver.adapters.rest import burst_views
from holdfast.page.draw import burst as layout
from holdfast.page.draw import burst_svg, themes
from holdfast.traces.bursts import kept
from holdfast.traces.bursts.record import Burst, Rail, decode, encode

SVG = "{http://www.w3.org/2000/svg}"
PEAK_AT = 1_234
QUIET = range(400, 700)


def answer(rails: dict[str, list[int]] | None = None) -> dict[str, Any]:
    """Of two seconds: steady traffic, none for .3 s, and one millisecond with ten times as much."""
    chance, steady = random.Random(1), [100_000] * 2_000
    steady[PEAK_AT] = 1_000_000
    for at in QUIET:
        steady[at] = 0
    moved = {"eth0": steady, "mlx5_0/1": [0] * 2_000} if rails is None else rails
    samples = len(next(iter(moved.values()), [])) + 1
    at_us = [at * 1_000 + chance.randrange(50) * (at > 0) for at in range(samples)]
    burst = Burst(
        node="node-2",
        seconds=2.0,
        missed=3,
        cpu_s=0.25,
        degraded="",
        at_us=at_us,
        rails=[
            Rail(
                name=name,
                received=[each // 2 for each in sent],
                sent=sent,
                errors=[0] * len(sent),
                drops=[0] * len(sent),
            )
            for name, sent in moved.items()
        ],
    )
    note = kept.Note(
        id=7,
        node="node-2",
        began_at="2026-01-01T12:00:00.000+00:00",
        began_s=5.0,
        why='incident 3: <b>rank "1"</b> hangs & waits',
        incident=3,
        rails=list(moved),
        samples=samples,
    )
    found: dict[str, Any] = burst_views.view("speech", note, decode(encode(burst))).model_dump()
    return found


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `holdfast burst show` is answered."""
    found = answer()

    class Asked:
        def burst(self, job: str, number: int) -> dict[str, Any]:
            assert (job, number) == ("speech", 7)
            return found

    monkeypatch.setattr(command.asking, "source", lambda *_: (Asked(), True))
    return found


def test_a_column_is_as_high_as_its_busiest_millisecond() -> None:
    found = layout.laid_out(answer(), 100)
    line, none = found.lines
    assert found.most == pytest.approx(1_000_000, rel=0.06)
    assert max(range(100), key=lambda at: line.sent[at]) == PEAK_AT // 20
    assert line.received == pytest.approx([each / 2 for each in line.sent])
    assert {at for at in range(100) if not line.sent[at]} in ({*range(20, 35)}, {*range(21, 35)})
    assert line.gap == pytest.approx((20, 35), abs=0.2)
    assert not any(none.sent + none.received)
    assert found.length_s == pytest.approx(2.0, abs=0.001)


def test_the_picture_has_a_band_a_rail_its_words_and_the_idle_time() -> None:
    found = answer()
    drawn = burst_svg.drawn(found)
    root = ElementTree.fromstring(drawn)
    text = " ".join(root.itertext())
    for said in ("Burst 7 of speech: node-2", "eth0", "mlx5_0/1", 'rank "1"</b> hangs & waits'):
        assert said in text
    assert root.findtext(f"{SVG}desc") == found["says"]
    bands = {each: root.findall(f".//{SVG}path[@class='{each}']") for each in ("sent", "received")}
    assert [len(each) for each in bands.values()] == [2, 2]
    bars = bands["sent"][0].get("d", "").count("M")
    assert bars == pytest.approx(burst_svg.COLUMNS * 0.85, abs=3)
    assert "v-" in bands["sent"][0].get("d", "")
    assert "v-" not in bands["received"][0].get("d", "")
    assert [each.get("d") for each in (bands["sent"][1], bands["received"][1])] == ["", ""]
    (gap,) = root.findall(f".//{SVG}rect[@class='gap']")
    assert float(gap.get("x", 0)) == pytest.approx(burst_svg.LEFT + 0.2 * burst_svg.COLUMNS, abs=2)
    assert float(gap.get("width", 0)) == pytest.approx(0.15 * burst_svg.COLUMNS, abs=2)
    assert drawn != burst_svg.drawn(found, theme=themes.DARK)


@pytest.mark.parametrize("rails", [{}, {"eth0": []}, {"eth0": [0]}])
def test_a_burst_that_saw_nothing_is_drawn_too(
    rails: dict[str, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(rails)
    assert len(ElementTree.fromstring(burst_svg.drawn(found)).findall(f".//{SVG}path")) == (
        2 * len(rails)
    )
    command._show(found)
    assert capsys.readouterr().out.count("|") == 4 * len(rails)


def test_it_is_written_as_svg_png_and_csv(
    shown: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg, png = (tmp_path / f"a.{ending}" for ending in ("svg", "png"))
    pytest.importorskip("resvg_py")
    command.show("speech", 7, svg=svg, png=png)
    assert svg.read_text() == burst_svg.drawn(shown)
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20]) == burst_svg.WIDTH
    assert "|" not in capsys.readouterr().out, "nothing is drawn here as well"
    command.show("speech", 7, form=Format.CSV)
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 4_000
    sent = [int(row["sent_bytes"]) for row in rows if row["rail"] == "eth0"]
    assert sent == shown["rails"][0]["sent_bytes"]
    peak = rows[PEAK_AT]
    assert (peak["sent_bytes"], peak["received_bytes"]) == ("1000000", "500000")
    assert (float(peak["from_s"]), float(peak["to_s"])) == pytest.approx((1.234, 1.235), abs=1e-4)
    with pytest.raises(Stopped, match="--format is for rows"):
        command.show("speech", 7, svg=svg, form=Format.CSV)


def test_in_a_terminal_it_is_a_line_a_rail_and_direction(
    shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    command.show("speech", 7)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("burst 7 of speech: node-2, 2026-01-01T12:00:00")
    sent, received = said[1].split("|")[1], said[2].split("|")[1]
    assert len(sent) == len(received) == command.COLUMNS
    assert sent[PEAK_AT * command.COLUMNS // 2_000] == "█"
    assert set(sent[19:31]) == {" "}
    assert set(sent) == {" ", "▁", "█"}
    assert set(received) == {" ", "▁", "▄"}
    assert {line.split("|")[1] for line in said[3:5]} == {" " * command.COLUMNS}
    assert said[5].startswith("2 s; the highest bar is 1")
    assert shown["says"] in said
    assert said[-1].endswith("3 missed, 0.25 s of CPU")
