"""Two drivers in one laboratory: each with its place, and one that is left dead where it died."""

from pathlib import Path

from waiting import eventually

from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.operators import operators
from holdfast.lab.supervised import Supervised
from holdfast.protocol.paths import RunPaths


class Looked(Child):
    """A child that only counts how often it is looked after."""

    def __init__(self, name: str, lifeline: Lifeline) -> None:
        super().__init__(name, "nothing", [], log=Path("/dev/null"), lifeline=lifeline)
        self.looks = 0

    def look_after(self, now_s: float) -> None:
        self.looks += 1


def test_who_is_left_is_looked_after_no_more_and_the_others_are() -> None:
    lifeline = Lifeline()
    first, second = Looked("driver", lifeline), Looked("driver-2", lifeline)
    supervised = Supervised([first, second], lifeline)
    try:
        eventually(lambda: first.looks and second.looks, "both are looked after")
        supervised.leave("driver")
        since = second.looks
        eventually(lambda: second.looks > since + 1, "the other is")
        left = first.looks
        since = second.looks
        eventually(lambda: second.looks > since + 1, "the other is, and on")
        assert first.looks == left
    finally:
        supervised.end()


def test_one_driver_is_reached_by_its_socket_and_shares_nothing(tmp_path: Path) -> None:
    (only,) = operators(RunPaths(tmp_path), 0)
    assert (only.run.root, only.way) == (tmp_path, [])
    assert "--standby" not in only.words("", only.url)


def test_two_drivers_have_states_names_and_addresses_of_their_own(tmp_path: Path) -> None:
    first, second = operators(RunPaths(tmp_path), 4711)
    urls = f"{first.url},{second.url}"
    words = [each.words("postgresql://u@h/d", urls) for each in (first, second)]
    assert first.run.root != second.run.root
    assert second.way == ["--way", "7481=127.0.0.1:4711"]
    assert all(urls in each and "--standby" in each for each in words)
    told = [each[each.index("--advertise") + 1] for each in words]
    assert told == [first.url, second.url]
