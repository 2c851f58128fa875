"""Marks of `gpuclock` as CUDA events. Loads no torch: a rank that has CUDA has it.

Called inside a rank. Tried with torch 2.11 on an H200.
"""

import sys
from typing import Any

from holdfast.telemetry import current


def is_there() -> bool:
    """Whether this process uses a GPU already: nothing of ours is the first."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def hook_streams(module: Any) -> None:
    """`torch.cuda.streams`: FSDP2's collectives run on streams of their own, for which the one that
    trains waits, with no `Work` in sight."""
    inner = module.Stream.wait_event

    def wait_event(self: Any, event: Any) -> None:
        if (recorder := current.recorder) is None:
            inner(self, event)
            return
        begin = recorder.gpu.stream_waits(self)
        try:
            inner(self, event)
        finally:
            recorder.gpu.waited(begin)

    module.Stream.wait_event = wait_event


class CudaMarks:
    """Of the stream on which the thread that made this enqueues, on its device."""

    def __init__(self) -> None:
        self._torch = sys.modules["torch"]
        self._free: list[Any] = []
        self.follow()

    def follow(self) -> None:
        if self._torch.cuda.is_current_stream_capturing():
            return
        self._stream = self._torch.cuda.current_stream()
        self._device, self._raw = self._stream.device.index, self._stream.cuda_stream

    def here(self) -> bool:
        c = self._torch._C
        mine = c._cuda_getCurrentRawStream(self._device) == self._raw
        return bool(mine) and not c._cuda_isCurrentStreamCapturing()

    def is_mine(self, stream: Any) -> bool:
        """Whether `stream` is that one, and the calling thread's device its device."""
        return bool(stream.cuda_stream == self._raw) and stream.device.index == self._device

    def mark(self) -> Any:
        event = self._free.pop() if self._free else self._torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def is_past(self, mark: Any) -> bool:
        return bool(mark.query())

    def between_ns(self, first: Any, second: Any) -> int:
        return int(1e6 * first.elapsed_time(second))

    def free(self, mark: Any) -> None:
        self._free.append(mark)
