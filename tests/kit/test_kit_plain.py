"""What others say is shown with its control characters written out."""

import unicodedata

import pytest

from holdfast.kit.plain import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a plain line: ü 漢 ■ 🙂\n\tand another", "a plain line: ü 漢 ■ 🙂\n\tand another"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\0b\x07\x7f\r", r"a\x00b\x07\x7f\r"),
        ("\x9b31m \x85", r"\x9b31m \x85"),
        ("\u202egnihton\u2066", r"\u202egnihton\u2066"),
        ("no\u200bde-1 \ufeff\u2060", r"no\u200bde-1 \ufeff\u2060"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_nothing_is_left_that_a_terminal_would_obey() -> None:
    everything = visible("".join(map(chr, range(0x3000))))
    left = {sign for sign in everything if unicodedata.category(sign) == "Cc"}
    assert left == {"\n", "\t"}
