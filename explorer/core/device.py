"""A device: memory and kernels of one kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Device:
    """Memory of one kind; operations register a kernel for each device that they run on."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def new(self, nbytes: int) -> NDArray[np.uint8]:
        """A block of uninitialised memory, 64-byte aligned, of ``nbytes`` bytes."""
        block = np.empty(nbytes + 64, np.uint8)
        start = -block.ctypes.data % 64
        return block[start : start + nbytes]

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


cpu = Device("cpu")
_devices = {"cpu": cpu}


def device(name: str) -> Device:
    """The device of a name; devices are single objects."""
    return _devices.setdefault(name, Device(name))
