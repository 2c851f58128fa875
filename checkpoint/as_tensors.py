"""What is saved as a tensor and is something else: complex128, bytes, NumPy's arrays and scalars.

Used by `tree` and `load_state`. Each comes back bit for bit; torch's own reader finds a tensor of
its name. NumPy is loaded only where a state has something of it.
"""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from holdfast.checkpoint.tensors import octets

COMPLEX, BYTES, BYTEARRAY = "$complex128", "$bytes", "$bytearray"
ARRAY, SCALAR = "$array", "$scalar"
WORDS = (COMPLEX, BYTES, BYTEARRAY, ARRAY, SCALAR)

NATIVE = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8".split())
"""NumPy's types that torch and safetensors have, too; of others the bytes are saved."""


class NoTensor(TypeError):
    """What NumPy has and no file can; the message says what it is."""


def is_numpy(value: object) -> bool:
    """Whether it is an array or a scalar of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def taken(value: Any) -> tuple[str, dict[str, Any], torch.Tensor] | None:
    """The word for it, what has to be known beside its tensor, and that; None where it is plain.

    Raises `NoTensor`.
    """
    if isinstance(value, torch.Tensor):
        plain = value.dtype != torch.complex128 or value.layout != torch.strided
        return None if plain else (COMPLEX, {}, torch.view_as_real(value.detach().resolve_conj()))
    if type(value) is bytes:
        return BYTES, {}, _octets(value)
    if type(value) is bytearray:
        return BYTEARRAY, {}, _octets(value)
    return _of_numpy(value) if is_numpy(value) else None


def _octets(data: bytes | bytearray) -> torch.Tensor:
    if not data:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _of_numpy(value: Any) -> tuple[str, dict[str, Any], torch.Tensor]:
    import numpy as np

    if (
        value.dtype.hasobject
        or value.dtype.fields
        or type(value) not in (np.ndarray, value.dtype.type)
    ):
        raise NoTensor(f"a {type(value).__name__} of {value.dtype}")
    beside = {"dtype": value.dtype.str, "shape": list(value.shape)}
    word = ARRAY if isinstance(value, np.ndarray) else SCALAR
    if value.dtype.isnative and value.dtype.str[1:] in NATIVE:
        array = np.require(value, requirements=["C", "W"]).reshape(value.shape)
        return word, beside, torch.from_numpy(array)
    return word, beside, _octets(value.tobytes())


def word_of(tree: Mapping[str, Any]) -> str | None:
    """The word of ours that a tree begins with."""
    return next((word for word in WORDS if word in tree), None)


def built(word: str, tree: Mapping[str, Any], saved: torch.Tensor) -> Any:
    """What it was, as a new object."""
    if word == COMPLEX:
        return torch.view_as_complex(saved.clone())
    if word == BYTES:
        return bytes(octets(saved))
    if word == BYTEARRAY:
        return bytearray(octets(saved))
    return _numpy(tree, saved, scalar=word == SCALAR)


def _numpy(tree: Mapping[str, Any], saved: torch.Tensor, *, scalar: bool) -> Any:
    import numpy as np

    dtype = np.dtype(tree["dtype"])
    array = np.frombuffer(bytes(octets(saved)), dtype).reshape(tree["shape"]).copy()
    return array[()] if scalar else array
