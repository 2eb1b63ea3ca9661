"""Fused reductions, which compute elementwise operations block by block and reduce each block immediately.

Blocks are whole rows if there are enough rows, else parts of rows, whose partial results are combined afterwards.
Partial sums are combined in the order of NumPy's pairwise summation, so the result has the same bits for any blocks and
any number of threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import widened
from explorer.core.ir.tiles import Index, cut
from explorer.core.types.tensor_type import Array, Shape, TensorType
from explorer.plan.schedule.schedule import Kernel
from explorer.plan.schedule.tiling import boxes, halved
from explorer.run.kernels.elementwise_chain import BlockedRunner
from explorer.run.kernels.runners import BoundStep, BoxRegisterFiles, Operands, Steps, Values


class FusedReduction(BlockedRunner):
    """Reduction fused with elementwise operations that only it reads, run over the plan's blocks.

    ``scratch`` contains the partial results of parts of rows.
    """

    def __init__(
        self,
        kernel: Kernel,
        operands: Operands,
        slots: dict[int, int],
        out: Array | None,
        scratch: Array | None,
        fixed_memory: bool,
    ) -> None:
        blocks, type_ = kernel.blocks, kernel.result.type
        assert isinstance(type_, TensorType)
        assert blocks is not None
        assert blocks.tiling is not None
        self._operation, self._tiling = kernel.result.operation, blocks.tiling
        in_parts = self._tiling.in_parts
        axes = (0,) if self._tiling.halvings else self._tiling.axes
        part = functools.partial(_part, self._operation, axes) if in_parts else None
        whole = (self._tiling.shape, self._tiling.order) if self._tiling.blocks == 1 else None
        fixed_memory = fixed_memory and (out is not None or in_parts)
        steps = Steps(blocks, kernel.reads, operands, part, fixed_memory)
        super().__init__(kernel, steps, slots, out, fixed_memory, whole)
        self._parts = self._partials = None
        if in_parts:  # partial results are in scratch memory, in the order of the parts
            assert scratch is not None
            shape = [self._tiling.parts[axis] for axis in self._tiling.order]
            self._partials = np.ndarray(shape, self._operation.partial_dtype(type_.dtype), scratch)
            self._parts = self._partials.transpose(np.argsort(self._tiling.order))
            if self._tiling.halvings:  # the partial results of one row are adjacent
                self._partials = self._partials.reshape(-1, 1 << self._tiling.halvings)
        self._size = type_.size
        self._count = math.prod([self._tiling.shape[axis] for axis in self._tiling.axes])
        # All rows of a tensor are divided in the same way, so boxes are computed once.
        self._boxes_of: dict[tuple[int, int], tuple[list[Index], BoxRegisterFiles]] = {}
        """(start, stop) of a part of a row → boxes of the part, and their registers"""

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        out = super().__call__(values)
        if self._partials is not None:
            # For a mean, this divides the sums by the length of a whole row.
            self._operation.finalize(out, self._combined(self._partials).reshape(out.shape), self._count)
        return out

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the steps of a kernel with a single block; None if partial results are combined."""
        return super().bound_steps() if self._partials is None else None

    def _cut(self, inputs: list[Array], out: Array) -> list[Callable[[], None]]:
        """Return one task per block: whole rows with their slice of the result, or parts of rows."""
        if self._tiling.halvings:
            return self._cut_runs(inputs)
        tiling, over, rank = self._tiling, self._steps.over, len(self._tiling.shape)
        tasks = []
        for index, part in self._indices:
            if self._parts is None:
                result_index: Any = [
                    part_slice for axis, part_slice in enumerate(index) if out.ndim == rank or axis not in tiling.axes
                ]
                target = out[(*result_index, ...)]  # with the ellipsis, it remains an array if it has only one element
            else:
                target = self._parts[part]
            shape = tuple([part_slice.stop - part_slice.start for part_slice in index])
            tasks.append(
                over(
                    [cut(array, index, rank) for array in inputs],
                    target,
                    self._steps.register_file(shape, tiling.order),
                )
            )
        return tasks

    @functools.cached_property
    def _indices(self) -> list[tuple[Index, Index]]:
        """Return, for each block, its index in the operands and its index in the result."""
        return [*self._tiling.indices()]

    def _cut_runs(self, inputs: list[Array]) -> list[Callable[[], None]]:
        """Return one task for each part of the rows; the elements of a part are contiguous in memory."""
        tiling, run, rank = self._tiling, self._tiling.run, len(self._tiling.shape)
        assert self._parts is not None
        sizes = tuple([tiling.shape[axis] for axis in run])
        run_parts = halved(math.prod(sizes), tiling.halvings)
        positions = [[None] if axis in run else range(tiling.shape[axis]) for axis in range(rank)]
        tasks = []
        for row in itertools.product(*positions):
            index = tuple([slice(None) if position is None else slice(position, position + 1) for position in row])
            row_inputs = [cut(array, index, rank) for array in inputs]
            targets = self._parts[index].reshape(-1)
            flat = [
                run_of_input
                for array in row_inputs
                if (run_of_input := _as_run(array, sizes, tiling.order)) is not None
            ]
            for part_index, (start, stop) in enumerate(run_parts):
                target = targets[part_index : part_index + 1]
                # With broadcast operands, a part of a row is not contiguous, so it is divided into boxes.
                if len(flat) == len(row_inputs):
                    part_inputs = [array[start:stop] if array.ndim else array for array in flat]
                    tasks.append(
                        self._steps.over(part_inputs, target, self._steps.register_file((stop - start,), (0,)))
                    )
                else:
                    box_indices, register_files = self._boxes(start, stop)
                    box_inputs = [[cut(array, box, rank) for array in row_inputs] for box in box_indices]
                    tasks.append(self._steps.over_boxes(box_inputs, target, register_files))
        return tasks

    def _boxes(self, start: int, stop: int) -> tuple[list[Index], BoxRegisterFiles]:
        """Return the boxes of a part of a row, and their registers."""
        cached = self._boxes_of.get((start, stop))
        if cached is None:
            tiling, run = self._tiling, self._tiling.run
            indices: list[Index] = []
            shapes: list[Shape] = []
            for box in boxes([tiling.shape[axis] for axis in run], start, stop):
                index, shape = [slice(None)] * len(tiling.shape), [1] * len(tiling.shape)
                for axis, part in zip(run, box, strict=True):
                    index[axis], shape[axis] = part, part.stop - part.start
                indices.append(tuple(index))
                shapes.append(tuple(shape))
            cached = self._boxes_of[start, stop] = indices, self._steps.box_register_files(shapes, tiling.order)
        return cached

    def _combined(self, partials: Array) -> Array:
        """Combine partial results of parts of rows; halves are added as in NumPy's pairwise summation."""
        tiling, joins = self._tiling, self._operation.combine_ufunc
        assert joins is not None
        # NumPy halves a long row repeatedly and adds the sums of the halves. The same sums are added here, smallest
        # first.
        for _ in range(tiling.halvings):
            # Adjacent parts are the two halves of a larger part.
            partials = joins(partials[:, 0::2], partials[:, 1::2])
        if tiling.halvings:
            partials = partials.reshape([1 if axis in tiling.run else tiling.shape[axis] for axis in tiling.order])
        # The parts along outer axes must still be combined.
        if partials.size > self._size:
            axes = tuple([position for position, axis in enumerate(tiling.order) if axis in tiling.axes])
            partials = joins.reduce(partials, axis=axes, keepdims=True, dtype=partials.dtype)
        return partials if partials.size < 2 else partials.transpose(np.argsort(tiling.order))


def _part(operation: Any, axes: tuple[int, ...], target: Array, x: Array) -> Array:
    """Reduce the block ``x`` along ``axes`` into ``target``."""
    operation.partial_reduce(target, widened(x) if operation.accumulates else x, axes)
    return target


def _as_run(array: Array, sizes: Shape, order: tuple[int, ...]) -> Array | None:
    """Return a row as a contiguous array or a scalar; None if it is broadcast or has another order in memory."""
    if array.size == 1:
        return array.reshape(())
    if array.size != math.prod(sizes):
        return None
    reordered = array.reshape((1,) * (len(order) - array.ndim) + array.shape).transpose(order)
    return reordered.reshape(-1) if reordered.flags.c_contiguous else None
