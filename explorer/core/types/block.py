"""Blocks: contiguous memory of a device, shared by the arrays and tensors on it; the last holder frees it.

NumPy's arrays know no allocator. A device whose memory is not NumPy's gives it out in blocks, and every view and tensor
on one holds it by Python's own reference counts, so that nobody has to say when memory is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.core.checked_functions import named_methods
from explorer.core.errors import OperandError


class Allocator(Protocol):
    """Device as far as a block needs it."""

    name: str

    def new(self, nbytes: int) -> Any:
        """Return memory."""

    def delete(self, memory: Any) -> None:
        """Free memory."""


@named_methods
class Block:
    """Memory of ``nbytes`` bytes, of ``device.new``, which its last holder gives back by ``device.delete``.

    Arrays on it, views of these, tensors and results hold it. ``destruct`` is called with the memory before that, to
    end the life of the values in it. ``memory`` is some that is there already, such as an array of objects.
    ``np.asarray(block)`` is an array of its bytes, if NumPy can address the memory.

    >>> block = ex.Block(ex.cpu, 24)
    >>> x = block.array((2, 3), np.float32)
    >>> x[:] = 1
    >>> float(x.sum()), block
    (6.0, <block of 24 bytes on cpu>)
    """

    __slots__ = ("__weakref__", "_destruct", "device", "memory", "nbytes")

    def __init__(
        self, device: Allocator, nbytes: int, destruct: Callable[[Any], None] | None = None, memory: Any = None
    ) -> None:
        self._destruct: Callable[[Any], None] | None = None
        self.memory: Any = None
        self.device, self.nbytes = device, nbytes
        self.memory = device.new(nbytes) if memory is None else memory
        self._destruct = destruct

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # An array over it holds the block itself, and so do views of that array.
        if isinstance(self.memory, np.ndarray) and self.memory.dtype.hasobject:
            raise OperandError(
                f"the bytes of {self!r}, which holds objects",
                rule="references must not be read as bytes",
                fix="block.memory is the array of the objects",
            )
        memory = np.frombuffer(self.memory, np.uint8) if self.nbytes else np.empty(0, np.uint8)
        interface: dict[str, Any] = memory.__array_interface__
        return interface

    def array(self, shape: tuple[int, ...], dtype: Any, offset: int = 0) -> NDArray[Any]:
        """Return a NumPy array on the memory from byte ``offset`` on; raises OperandError beyond its end."""
        exact = np.dtype(dtype)
        nbytes = math.prod(shape) * exact.itemsize
        if offset < 0 or offset + nbytes > self.nbytes:
            raise OperandError(
                f"an array of {nbytes} bytes at byte {offset} of a block of {self.nbytes}",
                rule="an array must lie within its block",
                fix=f"Block(device, {max(0, offset) + nbytes})",
            )
        array: NDArray[Any] = np.asarray(self)[offset : offset + nbytes].view(exact).reshape(shape)
        return array

    def __del__(self) -> None:
        # First, so that a destructor that fails or is interrupted does not free the memory a second time.
        memory, self.memory = self.memory, None
        if memory is None:
            return
        try:
            if self._destruct is not None:
                self._destruct(memory)
        finally:
            self.device.delete(memory)

    def __repr__(self) -> str:
        return f"<block of {self.nbytes} bytes on {self.device.name}>"
