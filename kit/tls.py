"""TLS as whoever connects has it: whose certificates are trusted, and why one was not.

Used by executor, daemon and command line. Must not know a way round a refusal.
"""

import ssl
from pathlib import Path

NO_CERTIFICATE = "it has no certificate in PEM"


def trusting(ca: str) -> ssl.SSLContext:
    """For connections to whoever a CA of `ca` (PEM) vouches for; "" means this machine's own CAs.

    Raises `ValueError` where there is no certificate in it.
    """
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(NO_CERTIFICATE) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def ca_in(path: Path) -> str:
    """The PEM in a file, to be shown to whoever is to trust it.

    Raises `OSError`, and `ValueError` where there is no certificate in it, or a key beside it.
    """
    try:
        text = path.read_text(encoding="ascii")
    except UnicodeDecodeError as error:
        raise ValueError(NO_CERTIFICATE) from error
    if not text.strip():
        raise ValueError("it is empty")
    if "PRIVATE KEY" in text:
        raise ValueError("it has a private key, which is for nobody else to see")
    trusting(text)
    return text


def reason(error: Exception) -> str:
    """Why a connection could not be had, in words, where TLS is the reason too."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS with it: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return str(error) or type(error).__name__
