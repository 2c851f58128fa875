"""What a webhook's request looks like, and how its receiver knows who sent it. Pure.

    header = request.headers[SIGNATURE]
    if not verified(secret, header, body, now_s=time.time()):
        refuse()

The signature is HMAC-SHA256 (RFC 2104) with the secret's bytes as key, over the seconds since 1970,
a full stop, and the body as it was sent: `X-Holdfast-Signature: t=1764194528,v1=HEX`.
"""

import hashlib
import hmac
import re

SIGNATURE = "X-Holdfast-Signature"
DELIVERY = "X-Holdfast-Delivery"
"""The same each time that the same is sent: who has it passes over the second."""
NAME = "X-Holdfast-Webhook"

TOLERANCE_S = 300.0
"""How old a request may be: an attacker who kept one can send it again for no longer."""

_HEADER = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def signature(secret: bytes, body: bytes, *, now_s: float) -> str:
    """The header's value."""
    at = str(int(now_s))
    return f"t={at},v1={_digest(secret, at, body)}"


def verified(
    secret: bytes, header: str, body: bytes, *, now_s: float, tolerance_s: float = TOLERANCE_S
) -> bool:
    """Whether who has the secret sent this body, lately. Compares in constant time."""
    found = _HEADER.fullmatch(header)
    if found is None:
        return False
    right = hmac.compare_digest(_digest(secret, found[1], body), found[2])
    return right and abs(now_s - int(found[1])) <= tolerance_s


def _digest(secret: bytes, at: str, body: bytes) -> str:
    return hmac.new(secret, at.encode() + b"." + body, hashlib.sha256).hexdigest()
