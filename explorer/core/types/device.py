"""Devices: memory with its own kernels.

The interface is as small as a plan's needs: allocate, write, read. Views of buffers are NumPy's where the device's
arrays are (``addressable``), and kernels are registered apart (``ex.kernel``), so that a new device can begin with a
few operations.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from explorer.core.argument_checks import check_type
from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError
from explorer.core.registry_base import Registry

_ALIGNMENT = 64
"""bytes of a cache line, and of the widest vector registers"""


class Device:
    """Device with memory of its own; operations register a kernel for each device that they run on
    (``ex.kernel``).

    A device has NumPy's memory unless a subclass overrides ``empty``, ``write`` and ``read``. There is one object per
    name: if its class is declared again, the object becomes one of the new class, and keeps its arrays and kernels.

    >>> class Board(ex.Device):
    ...     "An accelerator board; here its memory is NumPy's."
    >>> x = ex.tensor([1.0, 2.0], device=Board("second board"))
    >>> x.device
    Device('second board')
    >>> ex.evaluate(x.to_device(ex.cpu) + 1)
    array([2., 3.])
    """

    __slots__ = ("name",)
    name: str
    addressable: ClassVar[bool] = True
    """whether its arrays are NumPy's, so that views need no kernel"""

    def __init_subclass__(cls) -> None:
        check_names(cls, Device, "the device")

    def __new__(cls, name: str) -> Device:
        """Return the device of a name: one object, however often it is declared."""
        declared = _devices.get(name)
        if declared is None:
            return object.__new__(cls)
        known_class = type(declared)
        if (known_class.__module__, known_class.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DeclarationError(
                f"a second device {name!r}", rule="a device's name must be unique", fix=f"use device({name!r})"
            )
        # in place: arrays and kernels that know the device keep it
        declared.__class__ = cls
        return declared

    def __init__(self, name: str) -> None:
        self.name = name
        _devices[name] = self

    def new(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a block of uninitialised memory of ``nbytes`` bytes, aligned to 64 bytes."""
        # NumPy itself may align to 16 bytes only
        block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -block.ctypes.data % _ALIGNMENT
        return block[start : start + nbytes]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised array of the device."""
        return np.empty(shape, dtype)

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy NumPy's values into an array of the device, of the same shape and dtype."""
        np.copyto(array, values)

    def read(self, array: Any) -> NDArray[Any]:
        """Return the values of the device's array as NumPy's; the memory may be shared."""
        values: NDArray[Any] = array
        return values

    def put(self, values: NDArray[Any]) -> Any:
        """Copy NumPy's values to a new array of the device."""
        target = self.empty(values.shape, values.dtype)
        self.write(target, values)
        return target

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


_devices: Registry[str, Device] = Registry("device")
cpu = Device("cpu")


def device(name: str) -> Device:
    """Return the device of a name; raises UnknownNameError if none was declared.

    >>> ex.device("cpu") is ex.cpu
    True
    """
    return _devices.find(name)


def check_device(device: Any) -> None:
    """Raise OperandError for an argument that is no device."""
    check_type(device, "device", Device, "a device, or None", 'device=ex.cpu, or ex.device("name")')
