"""A device: memory and kernels of one kind."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from explorer.core.argument_checks import check_type
from explorer.core.errors import DeclarationError, UnknownNameError

_ALIGNMENT = 64


class Device:
    """Memory of one kind; operations register a kernel for each device that they run on (``explorer.kernel``).

    A device has NumPy's memory unless a subclass says otherwise, by ``empty``, ``write`` and ``read``. A device of one
    name is one object: where its class is declared again, it is of the new class, and keeps its arrays and kernels.
    """

    __slots__ = ("name",)
    name: str
    addressable: ClassVar[bool] = True
    """its arrays are NumPy's: views need no kernel"""

    def __new__(cls, name: str) -> Device:
        """The device of a name: one object, however often it is declared."""
        held = _devices.get(name)
        if held is None:
            return object.__new__(cls)
        kind = type(held)
        if (kind.__module__, kind.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DeclarationError(
                f"a second device {name!r}", rule="a device's name is unique", fix=f"use device({name!r})"
            )
        held.__class__ = cls
        return held

    def __init__(self, name: str) -> None:
        self.name = name
        _devices[name] = self

    def new(self, nbytes: int) -> NDArray[np.uint8]:
        """A block of uninitialised memory of ``nbytes`` bytes, aligned to 64 bytes."""
        block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -block.ctypes.data % _ALIGNMENT
        return block[start : start + nbytes]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An uninitialised array of the device."""
        return np.empty(shape, dtype)

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy NumPy's values into an array of the device, of the same shape and dtype."""
        np.copyto(array, values)

    def read(self, array: Any) -> NDArray[Any]:
        """The values of an array of the device, as NumPy's; the memory may be shared."""
        found: NDArray[Any] = array
        return found

    def put(self, values: NDArray[Any]) -> Any:
        """A new array of the device, of NumPy's values."""
        made = self.empty(values.shape, values.dtype)
        self.write(made, values)
        return made

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


def check_device(device: Any) -> None:
    """Raise OperandError for an argument that is no device."""
    check_type(device, "device", Device, "a device, or None", 'device=ex.cpu, or ex.device("name")')
