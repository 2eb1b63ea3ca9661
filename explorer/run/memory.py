"""The memory of a schedule: one arena, and views of it for results and scratch memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import RunError
from explorer.core.types import Array
from explorer.plan.schedule import Kernel, Schedule
from explorer.run.kernels import device_of, placed


class Memory:
    """An arena as large as its schedule says, or a piece of another one's scratch memory.

    Raises RunError, which names the largest result, where the device has not as much.
    """

    def __init__(self, schedule: Schedule, within: Array | None = None) -> None:
        self.arena: Array = _allocated(schedule) if within is None else within

    def result(self, kernel: Kernel) -> Any:
        """The memory of a kernel's result, an array or a tuple of them; None for a view and for memory of its own."""
        if kernel.offset < 0:
            return None
        return placed(kernel.result.type, self.arena[kernel.offset :])

    def scratch(self, kernel: Kernel) -> Array | None:
        """``kernel.scratch`` uninitialised bytes, aligned to 64, that are the kernel's while it runs; None without."""
        if kernel.scratch_offset < 0:
            return None
        return self.arena[kernel.scratch_offset : kernel.scratch_offset + kernel.scratch]


def _allocated(schedule: Schedule) -> Array:
    if not schedule.arena:
        return np.empty(0, np.uint8)
    try:
        found: Array = device_of(schedule.kernels[0].result.type).new(schedule.arena)
    except MemoryError as error:
        largest = max(schedule.kernels, key=lambda kernel: kernel.bytes).result
        raise RunError(
            f"an arena of {schedule.arena:,} bytes; the largest result is {largest!r}",
            rule="results and scratch memory that live at one time fit into the device's memory",
            fix="evaluate smaller parts, or a smaller dtype",
        ) from error
    return found
