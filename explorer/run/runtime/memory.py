"""Memory of a schedule: one arena on the cpu, and views of it; results on other devices are allocated separately.

Arrays are created once per program, at the plan's offsets. Memory is not cleared, because a kernel writes its whole
result before anything reads it. A large result outside the arena is stored in the memory of a previous result, if that
was deleted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import RunError
from explorer.core.ir.tensor import Tensor
from explorer.core.memory_budget import budget, claim_memory
from explorer.core.types.device import Block, cpu
from explorer.core.types.tensor_type import Array, TensorType, TupleType
from explorer.plan.schedule.schedule import Kernel, Placement, Schedule, align_up
from explorer.record.reasons import bytes_text

_LARGE, _KEPT = 1 << 25, 1 << 28
"""minimum bytes of a result whose memory is used again, since C libraries return such memory to the system, which then
takes as long to clear new memory as a kernel to write it; and maximum bytes, since one block remains allocated"""


class _LastBlock:
    """Allocator that keeps the memory that was deleted last, until memory of another size is requested."""

    name = "cpu"

    def __init__(self) -> None:
        self._kept: dict[int, Array] = {}
        """at most one block, by its size; threads use only atomic methods"""

    def new(self, nbytes: int) -> Array:
        """Return uninitialised memory."""
        kept = self._kept.pop(nbytes, None)
        if kept is None:
            self._kept.clear()
            kept = cpu.new(nbytes)
        return kept

    def delete(self, memory: Array) -> None:
        """Keep memory instead of the memory that was deleted before."""
        self._kept.clear()
        self._kept[memory.nbytes] = memory


_last_block = _LastBlock()


def allocate(type_: TensorType | TupleType, channels_last: bool = False) -> Any:
    """Allocate memory for a result on its device, as an array or a tuple of arrays."""
    if isinstance(type_, TupleType):
        return tuple([part.device.empty(part.shape, part.dtype) for part in type_.parts])
    if type_.device is cpu and _LARGE <= type_.nbytes <= _KEPT and not type_.dtype.hasobject:
        return placed(type_, np.asarray(Block(_last_block, type_.nbytes)), channels_last)
    if not channels_last:
        return type_.device.empty(type_.shape, type_.dtype)
    n, c, h, w = type_.shape
    # The shape remains (N, C, H, W), but the channels of a pixel are adjacent in memory.
    return np.empty((n, h, w, c), type_.dtype).transpose(0, 3, 1, 2)


def placed(type_: TensorType | TupleType, block: Array, channels_last: bool = False) -> Any:
    """Return memory for a result inside a block; several outputs are consecutive, each aligned."""
    if isinstance(type_, TensorType):
        if channels_last:
            n, c, h, w = type_.shape
            return np.ndarray((n, h, w, c), type_.dtype, buffer=block).transpose(0, 3, 1, 2)
        return np.ndarray(type_.shape, type_.dtype, buffer=block)
    parts, offset = [], 0
    for part in type_.parts:
        parts.append(np.ndarray(part.shape, part.dtype, buffer=block, offset=offset))
        offset += align_up(part.nbytes)
    return tuple(parts)


def grant(schedule: Schedule) -> None:
    """Raise BudgetError, which names the largest value, if a schedule's peak memory exceeds the budget.

    It is called before anything is allocated or read for the schedule.
    """
    # Leaves count too, since arrays in a file are read when the run starts.
    tensors = [leaf for leaf in schedule.leaves if isinstance(leaf, Tensor)]
    required = schedule.peak + sum([leaf.type.nbytes for leaf in tensors])
    if required <= budget.memory:
        return
    largest = max([*tensors, *[kernel.result for kernel in schedule.kernels]], key=lambda node: node.type.nbytes)
    location = largest.location
    where = f" of {location.where} line {location.line}" if location is not None else ""
    claim_memory(
        f"the run, whose largest value is {largest!r}{where} with {bytes_text(largest.type.nbytes)},", required
    )


class Memory:
    """Arena of the size that a schedule needs, or a slice of another schedule's scratch memory.

    Raises RunError, which names the largest result, if there is not enough memory.
    """

    def __init__(self, schedule: Schedule, within: Array | None = None) -> None:
        self.arena: Array = _allocated(schedule) if within is None else within

    def result(self, kernel: Kernel, placement: Placement) -> Any:
        """Return memory for a kernel's result, an array or a tuple; None for a view or if the kernel allocates it."""
        if placement.offset < 0:
            return None
        return placed(kernel.result.type, self.arena[placement.offset :], kernel.channels_last)

    def scratch(self, kernel: Kernel, placement: Placement) -> Array | None:
        """Return uninitialised scratch memory for a kernel, aligned to 64 bytes; None if the kernel needs none."""
        start = placement.scratch_offset
        return None if start < 0 else self.arena[start : start + kernel.cost.scratch]


def _allocated(schedule: Schedule) -> Array:
    if not schedule.arena:
        return np.empty(0, np.uint8)
    try:
        arena: Array = cpu.new(schedule.arena)
    except (MemoryError, ValueError) as error:  # ValueError: the size exceeds the address space
        largest = max(schedule.kernels, key=lambda kernel: kernel.cost.bytes).result
        raise RunError(
            f"an arena of {schedule.arena:,} bytes; the largest result is {largest!r}",
            rule="results and scratch memory that are live at the same time must fit into the device's memory",
            fix="evaluate the expressions one at a time, or use a smaller dtype: x.astype('float32')",
        ) from error
    return arena
