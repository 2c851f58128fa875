"""TLS as whoever connects has it: whose certificates are trusted, and why one was not.

Used by executor, daemon and command line. Must not know a way round a refusal.
"""

import ssl
from pathlib import Path


def trusting(ca: str) -> ssl.SSLContext:
    """For connections to whoever a CA of `ca` (PEM) vouches for; "" means this machine's own CAs.

    Raises `ValueError` where there is no certificate in it.
    """
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("it has no certificate in PEM") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def ca_in(path: Path) -> str:
    """The PEM in a file. Raises `OSError`, and `ValueError` where there is no certificate in it."""
    text = path.read_text(encoding="ascii")
    if not text.strip():
        raise ValueError("it is empty")
    trusting(text)
    return text


def reason(error: Exception) -> str:
    """Why a connection could not be had, in words, where TLS is the reason too."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS with it: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return str(error) or type(error).__name__
