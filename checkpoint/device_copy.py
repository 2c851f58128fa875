"""From a CUDA device into a slot, on a stream beside the training's. Used by `overlap` in ranks."""

from collections.abc import Mapping

import torch

from holdfast.checkpoint.filling import Area
from holdfast.checkpoint.marks import Marks


class DeviceCopy:
    """Made by the thread that trains, whose work so far the copy waits for; run by another one."""

    def __init__(self, area: Area, tensors: Mapping[str, torch.Tensor], marks: Marks) -> None:
        self._area = area
        self._marks = marks
        devices = {tensor.device for tensor in tensors.values()}
        self._streams = {device: _stream(device) for device in devices}
        for device, stream in self._streams.items():
            stream.wait_stream(torch.cuda.current_stream(device))
        self._by_device = {
            device: {name: one for name, one in tensors.items() if one.device == device}
            for device in devices
        }

    def run(self) -> None:
        """Returns once all bytes are in the slot. The tensors are held until then."""
        for device, stream in self._streams.items():
            with torch.cuda.stream(stream):
                self._area.put(self._by_device[device], wait=False)
                self._marks.land()
        for stream in self._streams.values():
            stream.synchronize()


_STREAMS: dict[torch.device, torch.cuda.Stream] = {}


def _stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return _STREAMS[device]
