"""All-reduces that run on the GPU as NCCL's do, of several ranks that share one GPU, for tests.

NCCL refuses two ranks on one GPU. Here a group enqueues onto a stream of its own: a copy into
memory that the ranks share, a word that says so, the GPU's own wait for the words of the others
(cuStreamWaitValue32), and the sum. The thread that calls it waits for nothing, and who waits for
the work has its stream wait. `init(rank, size, folder)` makes "streamed" the default group.
"""

import ctypes
import datetime
import mmap
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from holdfast.telemetry import hooks, methods

MOST_BYTES = 8 << 20
WORD_BYTES = 64


class Shared:
    """Memory of all ranks: a word for each, and two buffers for each, used in turn."""

    def __init__(self, path: Path, size: int) -> None:
        bytes_ = size * (WORD_BYTES + 2 * MOST_BYTES)
        with path.open("a+b") as file:
            file.truncate(bytes_)
            self._map = mmap.mmap(file.fileno(), bytes_)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)
        pinned = torch.cuda.cudart().cudaHostRegister(self.tensor.data_ptr(), bytes_, 0)
        assert int(pinned) == 0, pinned
        self._buffers = size * WORD_BYTES

    def word(self, rank: int) -> int:
        return self.tensor.data_ptr() + rank * WORD_BYTES

    def buffer(self, rank: int, number: int, bytes_: int) -> torch.Tensor:
        at = self._buffers + (2 * rank + number % 2) * MOST_BYTES
        return self.tensor[at : at + bytes_]


class Done(dist._Work):  # type: ignore[misc]
    def __init__(self, event: torch.cuda.Event) -> None:
        super().__init__()
        self._event = event

    @hooks.telling_wait
    def wait(self, timeout: Any = None) -> bool:
        torch.cuda.current_stream().wait_event(self._event)
        return True

    def is_completed(self) -> bool:
        return bool(self._event.query())


class Streamed(dist.ProcessGroup):
    def __init__(self, rank: int, size: int, folder: Path) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._number = rank, size, 0
        self._shared = Shared(folder / "streamed", size)
        self._stream = torch.cuda.Stream()
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def allreduce(self, tensors: Any, options: Any = None) -> Done:
        return self._run([tensors] if isinstance(tensors, torch.Tensor) else tensors)

    allreduce = methods.telling("allreduce", allreduce)

    def getBackendName(self) -> str:
        return "streamed"

    def _run(self, tensors: list[torch.Tensor]) -> Done:
        self._stream.wait_stream(torch.cuda.current_stream())
        event = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            for each in tensors:
                self._sum(each)
            event.record()
        return Done(event)

    def _sum(self, tensor: torch.Tensor) -> None:
        self._number += 1
        flat = tensor.detach().contiguous().view(-1)
        bytes_ = flat.numel() * flat.element_size()
        assert bytes_ <= MOST_BYTES
        mine = self._shared.buffer(self._rank, self._number, bytes_)
        mine.copy_(flat.view(torch.uint8), non_blocking=True)
        self._do("cuStreamWriteValue32_v2", self._rank)
        total = flat.clone()
        for other in range(self._size):
            if other == self._rank:
                continue
            self._do("cuStreamWaitValue32_v2", other)
            theirs = torch.empty_like(flat)
            place = self._shared.buffer(other, self._number, bytes_)
            theirs.view(torch.uint8).copy_(place, non_blocking=True)
            total += theirs
        tensor.detach().copy_(total.view_as(tensor))

    def _do(self, what: str, rank: int) -> None:
        """Flags 0: a wait is over once the word is as large, a write comes after all before it."""
        failed = getattr(self._cuda, what)(
            ctypes.c_void_p(self._stream.cuda_stream),
            ctypes.c_uint64(self._shared.word(rank)),
            ctypes.c_uint32(self._number),
            ctypes.c_uint(0),
        )
        assert failed == 0, f"{what}: {failed}"


def init(rank: int, size: int, folder: Path) -> None:
    """Make it the default group of this process."""

    def make(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Streamed:
        return Streamed(rank, size, folder)

    torch.cuda.init()
    dist.Backend.register_backend("streamed", make, devices=["cuda"])
    dist.init_process_group(
        "streamed", init_method=f"file://{folder}/store", rank=rank, world_size=size
    )
