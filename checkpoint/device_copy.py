"""From a CUDA device into a slot, on a stream beside the training's. Used by `overlap` in ranks.

The slot's pages are registered with the driver, so that the device writes them by itself; where
that is refused, as it is of files on a disk, the copies go through torch's own buffers, and take
longer.
"""

import logging
import weakref
from collections.abc import Mapping
from threading import Thread

import torch

from holdfast.checkpoint.filling import Area
from holdfast.checkpoint.marks import Marks

_LOG = logging.getLogger("holdfast.checkpoint")


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
        _register(self._area, next(iter(self._streams)))
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


_REGISTERED: "weakref.WeakSet[Area]" = weakref.WeakSet()


def _register(area: Area, device: torch.device) -> None:
    """Once for each area; what it maps is given back before it goes.

    In a thread of its own: CUDA keeps a refusal for the thread that asked, and whoever starts a
    kernel there next is told of it.
    """
    if area not in _REGISTERED:
        _REGISTERED.add(area)
        thread = Thread(target=_ask, args=(area, device), name="pin", daemon=True)
        thread.start()
        thread.join()


def _ask(area: Area, device: torch.device) -> None:
    with torch.cuda.device(device):
        cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        address, size_bytes = area.place
        if code := int(cudart.cudaHostRegister(address, size_bytes, 0)):
            _LOG.warning("a slot cannot be pinned (cudaHostRegister: %d); copies take longer", code)
            return
        weakref.finalize(area, cudart.cudaHostUnregister, address)
