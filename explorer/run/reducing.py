"""Reductions with what is made for them: elementwise operations run block by block, and each is combined at once."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.expr import Expr
from explorer.core.pieces import Index, cut
from explorer.core.types import Array, TensorType
from explorer.plan.cutting import boxes, halved
from explorer.plan.schedule import Kernel
from explorer.run.kernels import Operands, Steps, Values, run_all
from explorer.run.memory import allocate
from explorer.run.workers import worth_sharing


class Reducing:
    """A reduction, and elementwise operations that nobody else reads; their blocks are those of the plan.

    ``lasting``: every operand lies in the same memory at each run, so that the blocks are cut once.
    """

    def __init__(
        self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Array | None, lasting: bool
    ) -> None:
        blocks, kind = kernel.blocks, kernel.result.type
        assert isinstance(kind, TensorType)
        assert blocks is not None
        assert blocks.cutting is not None
        self._kind, self._out, self._last = kind, out, kernel.channels_last
        self._operation, self._cutting = kernel.result.operation, blocks.cutting
        in_parts = self._cutting.in_parts
        axes = (0,) if self._cutting.halvings else self._cutting.axes
        self._steps = Steps(
            blocks, kernel.reads, operands, functools.partial(_part, self._operation, axes) if in_parts else None
        )
        self._reads = [slots[read.uid] for read in self._steps.reads]
        self._lasting = lasting and out is not None and not in_parts
        self.shared = worth_sharing(kernel)
        self._tasks: list[Callable[[], None]] = []

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, in the last run."""
        return self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        self._steps.failed = None
        out: Array = allocate(self._kind, self._last) if self._out is None else self._out
        cutting, operation = self._cutting, self._operation
        inputs = [values[slot] for slot in self._reads]
        if not cutting.in_parts:
            tasks = self._tasks or self._whole_rows(inputs, out)
            if self._lasting:
                self._tasks = tasks
            run_all(tasks, self.shared)
            return out
        laid = np.empty([cutting.parts[axis] for axis in cutting.order], operation.part_dtype(out.dtype))
        parts = laid.transpose(np.argsort(cutting.order))
        run_all(self._runs(inputs, parts) if cutting.halvings else self._parts(inputs, parts), self.shared)
        count = math.prod([cutting.shape[axis] for axis in cutting.axes])
        operation.finish(out, self._joined(parts).reshape(out.shape), count)
        return out

    def _whole_rows(self, inputs: list[Array], out: Array) -> list[Callable[[], None]]:
        """Blocks of whole rows: the reduction makes its part of the result of each."""
        cutting, rank = self._cutting, len(self._cutting.shape)
        if cutting.blocks == 1:
            return [self._steps.reduce(inputs, out, cutting.shape, cutting.order)]
        tasks = []
        for index, _ in cutting.indices():
            kept = [part for axis, part in enumerate(index) if out.ndim == rank or axis not in cutting.axes]
            place: Any = (*kept, ...)  # an array, be it of one number
            given = [cut(array, index, rank) for array in inputs]
            tasks.append(self._steps.reduce(given, out[place], _shape(index), cutting.order))
        return tasks

    def _parts(self, inputs: list[Array], parts: Array) -> list[Callable[[], None]]:
        """Blocks of parts of rows."""
        cutting = self._cutting
        return [
            self._steps.reduce(
                [cut(array, index, parts.ndim) for array in inputs], parts[place], _shape(index), cutting.order
            )
            for index, place in cutting.indices()
        ]

    def _runs(self, inputs: list[Array], parts: Array) -> list[Callable[[], None]]:
        """Runs of memory, of which each row is several."""
        cutting, run, rank = self._cutting, self._cutting.run, parts.ndim
        sizes = tuple([cutting.shape[axis] for axis in run])
        pieces = halved(math.prod(sizes), cutting.halvings)
        beside = [[None] if axis in run else range(cutting.shape[axis]) for axis in range(rank)]
        tasks = []
        for row in itertools.product(*beside):
            index = tuple([slice(None) if place is None else slice(place, place + 1) for place in row])
            given = [cut(array, index, rank) for array in inputs]
            places = parts[index].reshape(-1)
            flat = [_as_run(array, sizes, cutting.order) for array in given]
            for number, (start, stop) in enumerate(pieces):
                into = places[number : number + 1]
                if all(array is not None for array in flat):
                    ends = [[array[start:stop] if array.ndim else array for array in flat if array is not None]]
                    tasks.append(self._steps.reduce_run(ends, into, [(stop - start,)], (0,)))
                    continue
                found = [_placed(box, run, rank) for box in boxes(sizes, start, stop)]
                ends = [[cut(array, box, rank) for array in given] for box in found]
                shapes = [
                    tuple([1 if axis not in run else _length(box[axis]) for axis in range(rank)]) for box in found
                ]
                tasks.append(self._steps.reduce_run(ends, into, shapes, cutting.order))
        return tasks

    def _joined(self, parts: Array) -> Array:
        """What the values of parts of rows make together: those of halves as NumPy's pairwise summation adds them."""
        cutting, joins = self._cutting, self._operation.joins
        assert joins is not None
        if cutting.halvings:
            turned = np.moveaxis(parts, cutting.run[-1], 0)
            while len(turned) > 1:
                turned = joins(turned[0::2], turned[1::2])
            parts = np.moveaxis(turned, 0, cutting.run[-1])
        found: Array = joins.reduce(parts, axis=cutting.axes, dtype=parts.dtype)
        return found


def _part(operation: Any, axes: tuple[int, ...], into: Array, x: Array) -> Array:
    operation.part(into, x, axes)
    return into


def _as_run(array: Array, sizes: Sequence[int], order: tuple[int, ...]) -> Array | None:
    """A row as one run of memory, or its one number; None where it is broadcast or lies otherwise."""
    if array.size == 1:
        return array.reshape(())
    if array.size != math.prod(sizes):
        return None
    laid = array.reshape((1,) * (len(order) - array.ndim) + array.shape).transpose(order)
    return laid.reshape(-1) if laid.flags.c_contiguous else None


def _placed(box: Index, run: tuple[int, ...], rank: int) -> Index:
    """A part of the axes of a run as a part of all axes."""
    found = [slice(None)] * rank
    for axis, part in zip(run, box, strict=True):
        found[axis] = part
    return tuple(found)


def _shape(index: Index) -> tuple[int, ...]:
    return tuple(map(_length, index))


def _length(part: slice) -> int:
    length: int = part.stop - part.start
    return length
