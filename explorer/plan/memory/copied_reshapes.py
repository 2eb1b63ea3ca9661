"""Reshapes that copy.

As in NumPy, a reshape is a view if strides allow it; otherwise the plan allocates memory for the result. Kernels write
their results in row-major order, or with channels last if the pass `MemoryFormat` requires it. Therefore, the strides
of views are known before the run, and the plan knows which reshapes copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, StopGradient, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.plan.codegen.kernel_code import KernelCode
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.schedule.schedule import Kernel

_VIEWS = (Reshape, Transpose, BroadcastTo, Slice, Index0, StopGradient)
"""views whose strides NumPy can compute; the strides of user-defined views are known only in a run"""


class _Layout(NamedTuple):
    strides: tuple[int, ...] | None
    """stride of each axis, in elements; None for row-major order"""
    copies: bool
    """whether the result is a row-major copy instead of a view"""


def with_copies(kernels: Sequence[Kernel], cost_model: CostModel) -> tuple[Kernel, ...]:
    """Return the kernels, with copying reshapes marked and their costs including the copy.

    The working memory of a kernel with C code includes copies of views that the code reads in another memory layout.
    Operands whose strides are known only in a run count as row-major: parameters, tensors, results of calls, and
    user-defined views. Kernels that run once for all runs are unchanged, because their results are not in the planned
    memory.
    """
    layouts = _Layouts()
    marked = list(kernels)
    for index, kernel in enumerate(kernels):
        if kernel.code is not None and (copied := _copied_bytes(kernel.code, layouts.strides_of)):
            kernel = replace(kernel, cost=kernel.cost._replace(workspace=kernel.cost.workspace + copied))
            marked[index] = kernel
        if layouts.copies(kernel):
            size = kernel.result.type.nbytes
            estimate = cost_model.call + 2 * size / cost_model.bandwidth
            marked[index] = replace(kernel, copies=True, cost=kernel.cost._replace(bytes=size, estimate=estimate))
    return tuple(marked)


def strides_of(
    leaves: Sequence[Expr], kernels: Sequence[Kernel], inputs: Mapping[int, tuple[Expr, ...]]
) -> Mapping[int, tuple[int, ...]]:
    """Return the stride of each axis, in elements, of leaves and results that are not row-major, by uid.

    ``inputs`` maps the uid of a node to its operands in the graph.
    """
    layouts = _Layouts()
    for leaf in leaves:
        layouts.view_copies(leaf, inputs.get(leaf.uid, ()))
    for kernel in kernels:
        layouts.copies(kernel)
    return layouts.strides_of


class _Layouts:
    """Memory layouts of the results of kernels, which are added in the order of the schedule."""

    def __init__(self) -> None:
        self.strides_of: dict[int, tuple[int, ...]] = {}
        """uid of a value that is not row-major → its strides"""
        self._of_views: dict[tuple[Operation, TensorType, tuple[int, ...] | None], _Layout] = {}
        """(view, operand type, operand strides) → layout of the view; cached, because a loop records thousands of
        equal views"""

    def copies(self, kernel: Kernel) -> bool:
        """Add the result of a kernel; return whether it is a reshape that copies."""
        # Only these kernels have results that are not row-major; other values with strides are views.
        result = kernel.result
        if kernel.channels_last:
            self.strides_of[result.uid] = _pixel_by_pixel(result.shape)
            return False
        return not kernel.constant and self.view_copies(result, kernel.reads)

    def view_copies(self, view: Expr, operands: Sequence[Expr]) -> bool:
        """Add a view; return whether it is a reshape that copies. Other values are row-major."""
        operation = view.operation
        if not isinstance(operation, _VIEWS) or len(operands) != 1:
            return False
        (operand,) = operands
        type_, strides = operand.type, self.strides_of.get(operand.uid)
        # A reshape or a row of a row-major value is a row-major view.
        if not isinstance(type_, TensorType) or (strides is None and isinstance(operation, (Reshape, Index0))):
            return False
        layout = self._of_views.get((operation, type_, strides))
        if layout is None:
            layout = self._of_views[operation, type_, strides] = _layout(operation, type_.shape, strides)
        if layout.strides is not None:
            self.strides_of[view.uid] = layout.strides
        return layout.copies


def _copied_bytes(code: KernelCode, strides_of: Mapping[int, tuple[int, ...]]) -> int:
    """Return the number of bytes of operands that are copied because the code requires another memory layout."""
    total = 0
    for read, required in zip(code.reads, code.strides, strict=False):
        strides = strides_of.get(read.uid)
        if strides is not None and any(strides[axis] != step for axis, step in required):
            total += read.type.nbytes
    return total


def _pixel_by_pixel(shape: Shape) -> tuple[int, ...]:
    _, channels, height, width = shape
    return height * width * channels, 1, width * channels, channels


def _layout(operation: Operation, shape: Shape, strides: tuple[int, ...] | None) -> _Layout:
    """Return the layout of the view ``operation`` of an array with ``shape`` and ``strides``.

    NumPy computes it: the view is applied to an array of bytes whose elements are never read.
    """
    if strides is None:
        strides = tuple(np.cumprod((1, *shape[:0:-1])).tolist()[::-1]) if shape else ()
    # Elements of one byte make strides in bytes equal to strides in elements. The memory does not exist, but no view's
    # kernel reads it.
    operand = as_strided(np.empty(1, np.uint8), shape, strides)
    if isinstance(operation, Reshape):
        try:
            # NumPy 2 raises ValueError if a copy would be needed.
            view = np.reshape(operand, operation.shape, copy=False)
        except ValueError:
            return _Layout(None, copies=True)
    else:
        view = operation.kernel(None, operand)
    return _Layout(None if view.flags.c_contiguous else view.strides, copies=False)
