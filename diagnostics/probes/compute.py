"""Does this node compute right, and how fast: products of matrices whose result is known.

The matrices are circulant with small whole numbers: their product is circulant too, its first row
is a cyclic convolution done in Python's integers, and every sum is exact in float32 (below 2**24),
in whatever order it is added up. So the product is compared bit for bit.
"""

import time

import torch

from holdfast.diagnostics.probes import Measured
from holdfast.protocol.messages import DiagnosticOrder

CPU_SIZE = 512
GPU_SIZE = 4_096
LARGEST = 8
"""Elements lie in [-8, 8]: 4096 products of them add up to less than 2**24."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """The best of `order.repeats` products on the slowest device of this node.

    On a CPU one thread and its own CPU time count, for nodes may share a machine; on GPUs the wall.
    """
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
        return on_device(torch.device("cpu"), CPU_SIZE, order.repeats)
    found = [
        on_device(torch.device("cuda", number), GPU_SIZE, order.repeats)
        for number in range(torch.cuda.device_count())
    ]
    return min(found, key=lambda one: (bool(one.ok), one.value or 0.0))


def on_device(device: torch.device, size: int, repeats: int) -> Measured:
    """Multiply `size` x `size` matrices on one device and check every bit of the product."""
    first = [(7 * place) % (2 * LARGEST + 1) - LARGEST for place in range(size)]
    second = [(5 * place + 3) % (2 * LARGEST + 1) - LARGEST for place in range(size)]
    left, right = circulant(first).to(device), circulant(second).to(device)
    expected = circulant(convolution(first, second)).to(device)
    stamps, wrong = [], 0
    for _ in range(max(1, repeats)):
        begin_s = _now_s(device)
        product = left @ right
        stamps.append(_now_s(device) - begin_s)
        wrong = max(wrong, int((product != expected).sum()))
    if wrong:
        detail = f"{device}: {wrong} of {size * size} elements are wrong"
        return Measured(ok=False, wrong=True, detail=detail)
    speed = 2 * size**3 / min(stamps) / 1e9
    return Measured(ok=True, value=speed, detail=str(device))


def circulant(row: list[int]) -> torch.Tensor:
    """The matrix whose element (i, j) is row[(j - i) mod n], as float32."""
    twice = torch.tensor(row + row, dtype=torch.float32)
    size = len(row)
    return torch.stack([twice[size - place : 2 * size - place] for place in range(size)])


def convolution(first: list[int], second: list[int]) -> list[int]:
    """Cyclic convolution by Kronecker substitution: one product of two large whole numbers."""
    size, bits = len(first), 32
    shift = LARGEST  # makes all digits positive: sum (f + s)(g + s) = sum f g + s(F + G) + n s s
    extra = shift * (sum(first) + sum(second)) + size * shift * shift
    numbers = [
        sum((digit + shift) << (bits * place) for place, digit in enumerate(row))
        for row in (first, second)
    ]
    product, mask = numbers[0] * numbers[1], (1 << bits) - 1
    digits = [(product >> (bits * place)) & mask for place in range(2 * size)]
    return [digits[place] + digits[place + size] - extra for place in range(size)]


def _now_s(device: torch.device) -> float:
    if device.type != "cuda":
        return time.thread_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()
