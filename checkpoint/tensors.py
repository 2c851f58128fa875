"""Torch's tensors and the bytes of a slot or shard. Used by the checkpointer in ranks only."""

import torch

from holdfast.checkpoint.layout import Placed, Spec

_TYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def spec(name: str, tensor: torch.Tensor) -> Spec:
    """Raises `TypeError` for an element type that safetensors does not have."""
    if tensor.dtype not in _NAMES:
        raise TypeError(f"{name}: {tensor.dtype} cannot be saved. Convert it to one of a kind.")
    return Spec(_NAMES[tensor.dtype], tuple(tensor.shape))


def view(data: memoryview | bytearray, placed: Placed) -> torch.Tensor:
    """The tensor that lies at this place; it shares the memory and must not outlive it."""
    dtype, shape = _TYPES[placed.spec.dtype], placed.spec.shape
    if placed.begin == placed.end:
        return torch.empty(shape, dtype=dtype)
    count = (placed.end - placed.begin) // dtype.itemsize
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=placed.begin)
    return flat.reshape(shape)


def view_as(data: bytearray, spec: Spec) -> torch.Tensor:
    """The tensor that these bytes are; it shares the memory."""
    return view(data, Placed(spec, 0, spec.size_bytes))


def empty(spec: Spec) -> torch.Tensor:
    """A new one of that type and shape."""
    return torch.empty(spec.shape, dtype=_TYPES[spec.dtype])


def octets(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor, in the host's memory, in the order of its indices."""
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")
