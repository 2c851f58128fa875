"""Certificates that a cluster's own authority signs, asked for as a kubelet asks for its own.

Called by `given`; needs the extra `tls`. The key is made and stays here; what goes out is a
request, which we approve ourselves: whoever gave us the cluster is its admin. Certificates cannot
be taken back, so they are good for hours.
"""

import base64
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.lab.kubernetes import marks
from holdfast.lab.kubernetes.kubeconfigs import Unusable

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
KUBELETS = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENTS = "kubernetes.io/kube-apiserver-client"
"""Who signs for nodes, and who for anybody else."""
GOOD_FOR_S = 4 * 3_600
"""Longer than the longest scenario: each has nodes of its own."""
SIGNED_WITHIN_S = 60.0
LOOK_S = 0.05


class Signed(NamedTuple):
    """PEM, both."""

    certificate: str
    key: str


def signed(api: httpx.Client, name: str, *, run: str, user: str, groups: Sequence[str]) -> Signed:
    """A certificate of `user` in `groups`; nothing of the request stays. Raises `Unusable`."""
    key = ec.generate_private_key(ec.SECP256R1())
    wanted = _request(name, run, _signer(groups), _pem(key, user, groups))
    try:
        _answer(api.post(REQUESTS, json=wanted))
        _approve(api, name)
        return Signed(_certificate(api, name), _secret(key))
    finally:
        api.delete(f"{REQUESTS}/{name}")


def _signer(groups: Sequence[str]) -> str:
    return KUBELETS if "system:nodes" in groups else CLIENTS


def _request(name: str, run: str, signer: str, pem: bytes) -> dict[str, Any]:
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": signer,
        "expirationSeconds": GOOD_FOR_S,
        "usages": ["digital signature", "client auth"],
    }
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "labels": {marks.RUN: run}},
        "spec": spec,
    }


def _approve(api: httpx.Client, name: str) -> None:
    path = f"{REQUESTS}/{name}"
    request = _answer(api.get(path))
    said = {"type": "Approved", "status": "True", "reason": "Laboratory", "message": "our own"}
    body = request | {"status": {"conditions": [said]}}
    _answer(api.put(f"{path}/approval", json=body))


def _certificate(api: httpx.Client, name: str) -> str:
    """Once it is there; another controller signs it."""
    deadline_s = time.monotonic() + SIGNED_WITHIN_S
    while True:
        status = _answer(api.get(f"{REQUESTS}/{name}")).get("status", {})
        if made := status.get("certificate"):
            return base64.b64decode(made).decode()
        if failed := [each for each in status.get("conditions", ()) if each["type"] == "Failed"]:
            raise Unusable(f"certificate {name}: {failed[0].get('message')}")
        if time.monotonic() > deadline_s:
            raise Unusable(f"certificate {name} was not signed within {SIGNED_WITHIN_S:g} s.")
        time.sleep(LOOK_S)


def _answer(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise Unusable(f"no certificate: {answer.json().get('message', answer.text)}")
    found: dict[str, Any] = answer.json()
    return found


def _pem(key: ec.EllipticCurvePrivateKey, user: str, groups: Sequence[str]) -> bytes:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def _secret(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
