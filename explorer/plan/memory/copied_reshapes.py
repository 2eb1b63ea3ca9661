"""Reshapes that copy. A reshape is a view if strides allow it, as in NumPy; otherwise its result has planned memory.

Kernels write their results in row-major order, or channels last if the pass `MemoryFormat` requires it. Strides are
therefore known through any number of views, and the plan knows before the run which reshapes copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.core.ir.expr import Operation
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, StopGradient, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.schedule.schedule import Kernel

_VIEWS = (Reshape, Transpose, BroadcastTo, Slice, Index0, StopGradient)
"""views whose strides NumPy can compute; strides of custom views are known only in a run"""


class _Layout(NamedTuple):
    """Memory layout of a view's elements."""

    strides: tuple[int, ...] | None
    """stride of each axis, in elements; None for row-major order"""
    copies: bool
    """whether it is a row-major copy instead of a view"""


def with_copies(kernels: Sequence[Kernel], cost_model: CostModel) -> tuple[Kernel, ...]:
    """Return the kernels, with reshapes that copy marked and priced accordingly.

    Operands whose strides are known only in a run (parameters, tensors, results of calls, custom views) count as
    row-major. Kernels that run once for all runs are unchanged, because their results are outside the planned memory.
    """
    strides_of: dict[int, tuple[int, ...]] = {}
    """uid of a value that is not row-major → its strides"""
    layouts: dict[tuple[Operation, TensorType, tuple[int, ...] | None], _Layout] = {}
    """view of an operand with strides → its layout; cached because a loop records thousands of equal ones"""
    marked = list(kernels)
    for index, kernel in enumerate(kernels):
        result = kernel.nodes[-1]
        # Only these kernels' own results are not row-major; all other strides come from views.
        if kernel.channels_last:
            strides_of[result.uid] = _pixel_by_pixel(result.shape)
            continue
        operation = result.operation
        if not isinstance(operation, _VIEWS) or kernel.constant or len(kernel.reads) != 1:
            continue
        (operand,) = kernel.reads
        type_, strides = operand.type, strides_of.get(operand.uid)
        if not isinstance(type_, TensorType) or (strides is None and isinstance(operation, Reshape)):
            continue
        layout = layouts.get((operation, type_, strides))
        if layout is None:
            layout = layouts[operation, type_, strides] = _layout(operation, type_.shape, strides)
        if layout.strides is not None:
            strides_of[result.uid] = layout.strides
        if layout.copies:
            size = result.type.nbytes
            estimate = cost_model.call + 2 * size / cost_model.bandwidth
            marked[index] = replace(kernel, copies=True, cost=kernel.cost._replace(bytes=size, estimate=estimate))
    return tuple(marked)


def _pixel_by_pixel(shape: Shape) -> tuple[int, ...]:
    _, channels, height, width = shape
    return height * width * channels, 1, width * channels, channels


def _layout(operation: Operation, shape: Shape, strides: tuple[int, ...] | None) -> _Layout:
    """Return the layout of a view of an array with a shape and strides.

    NumPy computes it: the view is applied to an array of bytes whose elements are never read.
    """
    if strides is None:
        strides = tuple(np.cumprod((1, *shape[:0:-1])).tolist()[::-1]) if shape else ()
    # With one byte per element, strides in bytes equal strides in elements. The memory does not exist, but no view's
    # kernel reads it.
    operand = as_strided(np.empty(1, np.uint8), shape, strides)
    if isinstance(operation, Reshape):
        try:
            # NumPy 2 raises ValueError if a copy would be needed, which is the question here.
            view = np.reshape(operand, operation.shape, copy=False)
        except ValueError:
            return _Layout(None, copies=True)
    else:
        view = operation.kernel(None, operand)
    return _Layout(None if view.flags.c_contiguous else view.strides, copies=False)
