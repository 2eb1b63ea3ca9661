"""A device: memory and kernels of one kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import DeclarationError, UnknownNameError

_ALIGNMENT = 64


class Device:
    """Memory of one kind; operations register a kernel for each device that they run on."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if name in _devices:
            raise DeclarationError(
                f"a second device {name!r}", rule="a device's name is unique", fix="use device(name)"
            )
        self.name = name
        _devices[name] = self

    def new(self, nbytes: int) -> NDArray[np.uint8]:
        """A block of uninitialised memory of ``nbytes`` bytes, aligned to 64 bytes."""
        block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -block.ctypes.data % _ALIGNMENT
        return block[start : start + nbytes]

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


_devices: dict[str, Device] = {}
cpu = Device("cpu")


def device(name: str) -> Device:
    """The device of a name; raises UnknownNameError where none was declared."""
    try:
        return _devices[name]
    except KeyError:
        raise UnknownNameError(name, kind="device", known=_devices) from None
