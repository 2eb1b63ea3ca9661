"""Chains of elementwise operations, run block by block, so intermediate values stay in the cache.

This is the most frequent fused kernel. If all operands have the result's memory layout, blocks are flat: NumPy runs one
loop per block, and any shape is divided optimally. Otherwise arrays are divided along axes.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, kernel_of
from explorer.core.ir.tiles import Index, cut
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, Shape, TensorType
from explorer.ops.base import Ufunc
from explorer.plan.schedule.blocked_kernel import BLOCK_BYTES, blocks_of
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.runners import BoundBlock, BoundStep, Operands, Runner, Steps, Values, run_all
from explorer.run.runtime.memory import allocate
from explorer.run.runtime.thread_pool import worth_sharing


class BlockedRunner(ABC):
    """Kernel whose steps run block by block; independent blocks may run in parallel.

    With ``fixed_memory``, operands and result have the same addresses in every run, so they are divided only once.
    ``whole`` is the shape and memory order of a result that fits into one block.
    """

    def __init__(
        self,
        kernel: Kernel,
        steps: Steps,
        slots: dict[int, int],
        out: Array | None,
        fixed_memory: bool,
        whole: tuple[Shape, tuple[int, ...]] | None,
    ) -> None:
        self._kind, self._out, self._last = kernel.result.type, out, kernel.channels_last
        self._steps = steps
        self._reads = [slots[read.uid] for read in steps.reads]
        self._fixed_memory = fixed_memory
        self.shared = worth_sharing(kernel)
        self._whole = None if whole is None else steps.register_file(*whole)
        self._tasks: list[Callable[[], None]] = []

    @property
    def failed(self) -> Expr | None:
        """The operation that raised an error in the last run."""
        return self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        self._steps.failed = None
        out: Array = allocate(self._kind, self._last) if self._out is None else self._out
        tasks = self._tasks
        # Tasks are kept only for arrays at fixed addresses.
        if not tasks:
            inputs = [values[slot] for slot in self._reads]
            # A small result is a single block, so nothing is divided.
            if self._whole is None:
                tasks = self._cut(inputs, out)
            elif self._fixed_memory:
                tasks = [self._steps.over(inputs, out, self._whole)]
            else:
                self._steps.run([*inputs, out, *self._whole()])
                return out
            if self._fixed_memory:
                self._tasks = tasks
        run_all(tasks, self.shared)
        return out

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the steps of a kernel with a single block at fixed addresses, else None.

        Returns None for any other kernel.
        """
        (task,) = self._tasks if len(self._tasks) == 1 else (None,)
        return task.bound_steps() if isinstance(task, BoundBlock) else None

    @abstractmethod
    def _cut(self, inputs: list[Array], out: Array) -> list[Callable[[], None]]:
        """Return one task per block."""


_MIN_UFUNC_BLOCKS = 4
"""minimum number of blocks for a single ufunc: only then does a second thread compensate for the additional calls"""


class ElementwiseChain(BlockedRunner):
    """Chain of elementwise operations that run on each block of the result."""

    def __init__(
        self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Array | None, fixed_memory: bool
    ) -> None:
        type_ = kernel.result.type
        assert isinstance(type_, TensorType)
        assert kernel.blocks is not None
        whole = (type_.shape, kernel.order) if type_.nbytes <= BLOCK_BYTES else None
        fixed_memory = fixed_memory and out is not None
        steps = Steps(kernel.blocks, kernel.reads, operands, fixed_memory=fixed_memory)
        super().__init__(kernel, steps, slots, out, fixed_memory, whole)

    def _cut(self, inputs: list[Array], out: Array) -> list[Callable[[], None]]:
        """Return one task per block: blocks of flat memory if possible, else along the outermost axes."""
        # Flat blocks can fill the cache for any shape.
        flat = flattened(inputs, out)
        if flat is not None:
            return [self._steps.bind(*block) for block in _flat_blocks(*flat)]
        rank = out.ndim
        return [
            self._steps.bind([cut(array, index, rank) for array in inputs], out[index])
            for index in blocks(out, BLOCK_BYTES)
        ]


def in_blocks(kernel: Kernel, operands: tuple[Expr, ...]) -> Kernel | None:
    """Return one elementwise operation as a chain if its result is larger than a block; else None.

    Its temporaries then stay in the cache, and threads share the blocks. A ufunc has no temporaries, so it needs more
    blocks to be worth dividing.
    """
    (node,) = kernel.nodes
    operation, type_ = node.operation, node.type
    min_bytes = _MIN_UFUNC_BLOCKS * BLOCK_BYTES if isinstance(operation, Ufunc) else BLOCK_BYTES
    if not operation.elementwise or type_.nbytes <= min_bytes or not operands:
        return None
    types = [operand.type for operand in operands]
    # a kernel registered by a user needs whole arrays
    if (
        not all(value_type.plain for value_type in (type_, *types))
        or kernel_of(operation, cpu, type_, *types) != operation.kernel
    ):
        return None
    return replace(kernel, blocks=blocks_of(kernel.nodes, lambda _: operands))


def blocks(out: Array, max_bytes: int) -> list[Index]:
    """Return indices of blocks of ``out``, of at most ``max_bytes`` each, divided along the outermost axes in
    memory."""
    parts = [[slice(None)] for _ in out.shape]
    nbytes = out.nbytes
    for axis in sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True):
        size = out.shape[axis]
        if nbytes <= max_bytes:
            break
        rows = max(1, max_bytes * size // nbytes)
        parts[axis] = [slice(start, start + rows) for start in range(0, size, rows)]
        # Bytes of a block so far; the next axis is divided only if a row of this one is still too large.
        nbytes = nbytes // size * rows
    return [*itertools.product(*parts)]


def flattened(inputs: list[Array], out: Array) -> tuple[list[Array], Array] | None:
    """Return operands and result as flat arrays; None unless each operand is a scalar or dense like the result."""
    memory = out.transpose(sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True))
    if not memory.flags.c_contiguous:
        return None
    flat = []
    for array in inputs:
        if array.ndim:
            # Flat arrays correspond element by element only if their strides are equal.
            if array.shape != out.shape or _strides_of(array) != _strides_of(out):
                return None
            array = _as_row(array)
        flat.append(array)
    return flat, _as_row(out)


def _strides_of(array: Array) -> list[int]:
    """Return the strides, counted in elements, of all axes longer than one."""
    return [step // array.itemsize for step, size in zip(array.strides, array.shape, strict=True) if size > 1]


def _as_row(array: Array) -> Array:
    axes = sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)
    return array.transpose(axes).reshape(-1, copy=False)


def _flat_blocks(flat: list[Array], out: Array) -> list[tuple[list[Array], Array]]:
    """Return the flat operands and the flat result of each block."""
    step = max(1, BLOCK_BYTES // out.itemsize)
    return [
        ([array[start : start + step] if array.ndim else array for array in flat], out[start : start + step])
        for start in range(0, out.size, step)
    ]


class FixedView:
    """View of memory that is the same in every run."""

    def __init__(self, view: Any) -> None:
        self.value = view

    def __call__(self, values: Values) -> Any:
        """Return the view."""
        return self.value

    def bound_steps(self) -> list[BoundStep]:
        """Return an empty list, because there is nothing to compute."""
        return []


def fixed_view(runner: Runner, values: Values, source: Any) -> FixedView | None:
    """Return the runner of a view of ``source``, which has a fixed address; None if the result is new in each run.

    The result is new, for example, if the strides of a parameter do not allow a reshape to be a view.
    """
    if not isinstance(source, (tuple, np.ndarray)):  # a constant not computed yet, or a value on another device
        return None
    view = runner(values)
    # If it is a copy, later runs would return this run's values.
    return FixedView(view) if isinstance(source, tuple) or np.may_share_memory(view, source) else None
