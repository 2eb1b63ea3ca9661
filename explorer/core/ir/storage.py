"""Storages of tensors: arrays with an identity, on any device.

A tensor is an expression and never changes, but its storage may be written to as long as nothing else reads it.
Fingerprints and traced functions identify a value by its storage's token and version, without reading the elements.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from explorer.core.types.device import Device, cpu

_tokens = count()


class Storage:
    """Array with an identity. All expressions that use a storage have the same value, and nothing else writes to it.

    ``array`` is an array of the device. ``shared`` describes other readers, or is "" if only one tensor reads the
    storage. ``version`` counts the writes before the storage was shared.
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
        """Return the array for a single access, without keeping it in memory if it comes from a file."""
        return self.array
