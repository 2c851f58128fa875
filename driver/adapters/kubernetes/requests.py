"""What a pod asks of its node, and what a node offers: quantities by resource. Pure.

Used by `facts` and `room`, by the rules of the scheduler's NodeResourcesFit: a resource that is not
named is 0. Amounts are whole thousandths (of a cpu, a byte, a device), rounded up.
"""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

Amounts = dict[str, int]
"""Thousandths by resource."""

Quantities = Mapping[str, str | int | float]

PODS = "pods"
"""Each pod takes one of these of its node."""

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)")
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class Resources(msgspec.Struct, frozen=True):
    """`resources` of a container, or of a pod as a whole."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """Of a container, what counts here. `restart_policy` Always: an init container that stays."""

    resources: Resources = Resources()
    restart_policy: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a pod's spec, what counts here."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: Resources | None = None
    node_name: str = ""
    priority: int = 0


@lru_cache(maxsize=4_096)
def amount(quantity: str | float) -> int:
    """A quantity as the API server writes it, in thousandths. Raises `ValueError`."""
    matched = _QUANTITY.fullmatch(str(quantity).strip())
    if matched is None:
        raise ValueError(f"{quantity!r} is no quantity, as 100m, 2 or 8Gi")
    number, suffix = Decimal(matched[1]), matched[2]
    if suffix in _TWOS:
        return math.ceil(number * 1000 * (1 << _TWOS[suffix]))
    tens = _TENS[suffix] if suffix in _TENS else int(suffix[1:])
    return math.ceil(number.scaleb(tens + 3))


def amounts(quantities: Quantities | None) -> Amounts:
    return {name: amount(quantity) for name, quantity in (quantities or {}).items()}


def request_of(spec: PodSpec) -> Amounts:
    """What the pod takes of its node: all that stays, or an init container where that is more."""
    stays: Amounts = {}
    peak: Amounts = {}
    for init in spec.init_containers or ():
        if init.restart_policy == "Always":
            stays = _sum(stays, _of(init.resources))
            peak = _largest(peak, stays)
        else:
            peak = _largest(peak, _sum(stays, _of(init.resources)))
    for container in spec.containers:
        stays = _sum(stays, _of(container.resources))
    whole = _largest(peak, stays)
    if spec.resources is not None:  # said of the pod as a whole, that counts
        whole = whole | _of(spec.resources)
    return _sum(whole, amounts(spec.overhead)) | {PODS: 1000}


def request_of_manifest(spec: Mapping[str, Any]) -> Amounts:
    """The same of a pod's spec as it is posted."""
    return request_of(msgspec.convert(spec, PodSpec))


def said(thousandths: int) -> str:
    """As people write it: 2, 0.5, 8Gi."""
    for suffix in ("Ti", "Gi", "Mi"):
        size = 1000 << _TWOS[suffix]
        if thousandths >= size and thousandths * 10 % size == 0:
            return f"{thousandths / size:g}{suffix}"
    if thousandths >= 10 * 1000 * 2**20:
        return f"{thousandths / (1000 * 2**20):.0f}Mi"
    return f"{thousandths / 1000:g}"


def _of(resources: Resources) -> Amounts:
    """Where no request is named the limit is it, as the API server has it."""
    return amounts({**(resources.limits or {}), **(resources.requests or {})})


def _sum(*of: Amounts) -> Amounts:
    return _joined(of, sum)


def _largest(*of: Amounts) -> Amounts:
    return _joined(of, max)


def _joined(of: Iterable[Amounts], how: Any) -> Amounts:
    each = tuple(of)
    names = dict.fromkeys(name for one in each for name in one)
    return {name: how([one.get(name, 0) for one in each]) for name in names}
