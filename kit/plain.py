"""Text of others that we quote, as a terminal may have it. Pure.

Used wherever a line of ours is written: what a rank's exception says may have signs in it that move
a cursor, name a window or hide the rest. What ranks print themselves is passed on as it is.
"""

_KEPT = "\t\n"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_UNSEEN = (0x200B, 0x2060, 0xFEFF)
"""Signs of no width, by which two names look like one. Joiners stay, for scripts need them."""
_DIRECTIONS = (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Signs that turn a line around, or end it."""
_WRITTEN_OUT = (*_CONTROLS, *_UNSEEN, *_DIRECTIONS)
_ESCAPED = {sign: ascii(chr(sign))[1:-1] for sign in _WRITTEN_OUT if chr(sign) not in _KEPT}


def visible(text: str) -> str:
    r"""With control characters written out, such as `\x1b`, but for ends of lines and tabs."""
    return text.translate(_ESCAPED)
