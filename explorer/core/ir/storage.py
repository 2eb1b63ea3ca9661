"""Storages of tensors: arrays with an identity, on any device.

A tensor is an expression and never changes; its storage is what may be written to, until somebody else reads it. Value
numbers and traced functions know a value by its storage's token and version, and read no element for it.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from explorer.core.types.device import Device, cpu

_tokens = count()


class Storage:
    """Array with an identity: expressions that use one storage use one value, and nobody else writes to it.

    ``array`` is the device's own array; ``shared`` says who else may read it ("" while only one tensor does);
    ``version`` counts the writes until then.
    """

    __slots__ = ("array", "device", "shared", "token", "version")

    def __init__(
        self, array: Any, device: Device = cpu, shared: str = "the array that it was built from holds it, too"
    ) -> None:
        if device is cpu:
            array.setflags(write=False)
        self.array, self.device, self.shared = array, device, shared
        self.token = next(_tokens)
        self.version = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.device.name}, written {self.version} times>"

    def peek(self) -> Any:
        """Return the array for a single look; a storage that reads a file keeps nothing for it."""
        return self.array
