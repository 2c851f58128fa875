"""The drivers' own CA, and the certificates that it gives to their listeners.

Made by `driver.serve.tls`, which has the CA out of the journal; all that is of `cryptography`
stands here. Must not write or log a key.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.driver.ports import Pair
from holdfast.kit.clock import Clock

LIFE_OF_CA = timedelta(days=3_650)
"""Pods are told of the CA when they are made, so it has to outlive every pod."""

LIFE = timedelta(days=7)
"""Of a listener's certificate: nobody asks whether it was revoked."""

SKEW = timedelta(hours=1)
"""How far a node's clock may be behind the driver's."""

_USES = (
    "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
    "key_cert_sign crl_sign encipher_only decipher_only"
).split()


class Issued:
    """Called, it gives the listener's certificate: a new one when half of its life is over."""

    def __init__(self, authority: Pair, hosts: Sequence[str], clock: Clock) -> None:
        self._authority = authority
        self._hosts = hosts
        self._clock = clock
        self._made_at = datetime.min
        self._pair: Pair | None = None

    def __call__(self) -> Pair:
        now = self._clock.wall()
        if self._pair is None or not self._made_at <= now < self._made_at + LIFE / 2:
            self._pair, self._made_at = issue(self._authority, self._hosts, now), now
        return self._pair


def new_authority(now: datetime) -> Pair:
    """A CA of which nobody knows yet: certificate and key, ECDSA on P-256 (FIPS 186-5)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Holdfast drivers")
    made = _begun(name, key, now, LIFE_OF_CA).issuer_name(name)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_may("key_cert_sign", "crl_sign"), critical=True)
    return _pair(made.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, hosts: Sequence[str], now: datetime) -> Pair:
    """A certificate for a server of these names and addresses, and its new key."""
    ca = x509.load_pem_x509_certificate(authority.certificate.encode())
    signs = serialization.load_pem_private_key(authority.key.encode(), password=None)
    assert isinstance(signs, ec.EllipticCurvePrivateKey)  # new_authority made it
    key = ec.generate_private_key(ec.SECP256R1())
    made = _begun(_name("Holdfast driver"), key, now, LIFE).issuer_name(ca.subject)
    of_ca = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_may("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_host(each) for each in hosts]), False),
        (of_ca, False),
    ):
        made = made.add_extension(extension, critical=critical)
    return _pair(made.sign(signs, hashes.SHA256()), key)


def _begun(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    known_as = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(known_as, critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _may(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in uses for use in _USES})


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    return Pair(certificate=public.decode(), key=secret.decode())
