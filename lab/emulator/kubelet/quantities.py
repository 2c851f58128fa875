"""Quantities as Kubernetes writes them: `500m`, `2Gi`. Pure."""

from decimal import Decimal, InvalidOperation

SUFFIXES = {
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}


def whole(quantity: str | int | float) -> int:
    """The quantity in its base unit (bytes, processors), rounded up. Raises `ValueError`."""
    text = str(quantity)
    suffix = next((known for known in ("Ki", "Mi", "Gi", "Ti") if text.endswith(known)), "")
    suffix = suffix or (text[-1:] if text[-1:] in SUFFIXES else "")
    try:
        number = Decimal(text.removesuffix(suffix)) * SUFFIXES.get(suffix, Decimal(1))
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no quantity") from error
    return int(number.to_integral_value(rounding="ROUND_CEILING"))
