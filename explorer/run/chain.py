"""Chains: elementwise operations that run block by block, while what lies between them is in the cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from explorer.core.expr import Expr
from explorer.core.pieces import Index, cut
from explorer.core.types import Array, TensorType
from explorer.plan.blocks import BLOCK_BYTES
from explorer.plan.cutting import PIXEL_BY_PIXEL
from explorer.plan.schedule import Kernel
from explorer.run.kernels import Operands, Steps, Values, run_all
from explorer.run.memory import allocate
from explorer.run.workers import worth_sharing


class Chain:
    """Elementwise operations that run block by block over the result.

    ``lasting``: every operand lies in the same memory at each run, so that the blocks are cut once.
    """

    def __init__(
        self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Array | None, lasting: bool
    ) -> None:
        kind = kernel.result.type
        assert isinstance(kind, TensorType)
        assert kernel.blocks is not None
        self._kind, self._out, self._last = kind, out, kernel.channels_last
        self._steps = Steps(kernel.blocks, kernel.reads, operands)
        self._reads = [slots[read.uid] for read in self._steps.reads]
        self._lasting = lasting and out is not None
        self.shared = worth_sharing(kernel)
        order = PIXEL_BY_PIXEL if kernel.channels_last else tuple(range(kind.rank))
        self._whole = self._steps.room(kind.shape, order) if kind.nbytes <= BLOCK_BYTES else None
        self._tasks: list[Callable[[], None]] = []

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, in the last run."""
        return self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        self._steps.failed = None
        out = allocate(self._kind, self._last) if self._out is None else self._out
        if self._whole is not None:
            self._steps.run([*[values[slot] for slot in self._reads], out, *self._whole()])
            return out
        tasks = self._tasks
        if not tasks:
            tasks = self._cut(out, [values[slot] for slot in self._reads])
            if self._lasting:
                self._tasks = tasks
        run_all(tasks, self.shared)
        return out

    def _cut(self, out: Array, inputs: list[Array]) -> list[Callable[[], None]]:
        flat = _flattened(inputs, out)
        if flat is not None:
            return [self._steps.bind(*block) for block in _flat_blocks(*flat)]
        rank = out.ndim
        return [
            self._steps.bind([cut(array, index, rank) for array in inputs], out[index])
            for index in blocks(out, BLOCK_BYTES)
        ]


def blocks(out: Array, most: int) -> list[Index]:
    """The blocks of a result, none larger than ``most`` bytes: cut along its outermost axes in memory."""
    parts = [[slice(None)] for _ in out.shape]
    nbytes = out.nbytes
    for axis in sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True):
        size = out.shape[axis]
        if nbytes <= most:
            break
        rows = max(1, most * size // nbytes)
        parts[axis] = [slice(start, start + rows) for start in range(0, size, rows)]
        nbytes = nbytes // size * rows
    return [*itertools.product(*parts)]


def _flattened(inputs: list[Array], out: Array) -> tuple[list[Array], Array] | None:
    """All as one row of memory, where every operand is dense, whole and laid as the result, or one number."""
    memory = out.transpose(sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True))
    if not memory.flags.c_contiguous:
        return None
    flat = []
    for array in inputs:
        if array.ndim:
            if array.shape != out.shape or _steps_of(array) != _steps_of(out):
                return None
            array = _as_row(array)
        flat.append(array)
    return flat, _as_row(out)


def _steps_of(array: Array) -> list[int]:
    """From element to element along each axis that has more than one."""
    return [step // array.itemsize for step, size in zip(array.strides, array.shape, strict=True) if size > 1]


def _as_row(array: Array) -> Array:
    """A dense array's memory as one row."""
    axes = sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)
    return array.transpose(axes).reshape(-1, copy=False)


def _flat_blocks(flat: list[Array], out: Array) -> list[tuple[list[Array], Array]]:
    step = max(1, BLOCK_BYTES // out.itemsize)
    return [
        ([array[start : start + step] if array.ndim else array for array in flat], out[start : start + step])
        for start in range(0, out.size, step)
    ]
