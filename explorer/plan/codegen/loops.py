"""C code of kernels of elementwise operations: one loop, with one line per operation.

The code depends only on the kernel's operations, shapes and dtypes. Axes along which the same operands are broadcast
are joined. If one axis is left, the code is a single loop. Otherwise the last axis is the inner loop, and all others
are joined in a loop over rows, which threads divide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from explorer.core.types.tensor_type import Shape
from explorer.ops.nn.conv import Conv2dImageGradient
from explorer.plan.codegen.elements import expression_obstacle
from explorer.plan.codegen.indexing import distances, offset
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec, Obstacle
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.operands import Operands
from explorer.plan.codegen.values import Values


class _Axis(NamedTuple):
    """Axes that are one loop, since each operand is broadcast along all of them or along none."""

    size: int
    present: tuple[bool, ...]
    """for each operand, whether it has elements along the axis"""


def loop_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a kernel of elementwise operations, or the obstacle.

    If the kernel begins with a product, a call computes the other operations on a tile of the result: a part of each of
    some rows. The last address that it receives is that of the first and the last element of this part.
    """
    product = kernel.nodes[0]
    tiles = product.operation.is_tileable
    if tiles:
        if isinstance(product.operation, Conv2dImageGradient) and product.operation.strides != (1, 1):
            return Obstacle("spaced_pixels", product)
        kernel = kernel._replace(nodes=kernel.nodes[1:])
    for node in kernel.nodes:
        if (obstacle := expression_obstacle(node, kernel.operands(node))) is not None:
            return obstacle
    return _Writer(kernel, tiles).code()


class _Writer:
    """Writes the code of one kernel."""

    def __init__(self, kernel: KernelSpec, tiles: bool) -> None:
        self._kernel, self._tiles = kernel, tiles
        self._values = Values(kernel, {"part"} if tiles else ())
        self._reads = self._values.reads
        self._shape: Shape = kernel.result.shape
        self._operands = Operands(kernel, self._reads)
        axes = [
            (self._shape[axis], tuple([present[axis] for present in self._operands.present])) for axis in kernel.order
        ]
        self._axes = _joined(axes, len(self._reads), tiles)

    def code(self) -> KernelCode:
        """Return the code."""
        kernel, values = self._kernel, self._values
        outer, inner = self._axes[:-1], self._axes[-1]
        sizes = "×".join(map(str, self._shape)) or "1"
        title = f"{counted(kernel.nodes)} on {'tiles of a product of ' * self._tiles}{sizes} elements"
        text = KernelText(kernel, title, values, self._operands.is_array)
        if self._tiles:
            text.add(f"const int64_t *part = arrays[{len(self._reads) + 1}];")
        if outer:
            text.loop("row", "stop", "start")
        text.add("VECTORIZE")
        first, last = ("part[0]", "part[1]") if self._tiles else ("0", str(inner.size)) if outer else ("start", "stop")
        text.loop("i", last, first)
        target = f"{values.name(kernel.result)}[{f'row * {inner.size} + i' if outer else 'i'}]"
        for node, line in values.lines(kernel.nodes, target, self._offset):
            text.compute(node, line)
        rows = math.prod(axis.size for axis in outer)
        return KernelCode(
            kernel.name,
            text.ended(),
            text.lines,
            self._reads,
            (*self._operands.strides, distances(self._shape, kernel.order)),
            rows if outer else inner.size,
            inner.size if outer else 1,
            is_flat=not outer,
        )

    def _offset(self, index: int) -> str | None:
        """Return the position of an element of an operand as a C expression; None if the operand has one element."""
        if not any(axis.present[index] for axis in self._axes):
            return None
        terms = [self._row_offset(index), "i" if self._axes[-1].present[index] else ""]
        return " + ".join([term for term in terms if term])

    def _row_offset(self, index: int) -> str:
        """Return the offset of an operand's row as a C expression of ``row``; "" if it is 0."""
        *outer, inner = self._axes
        axes = [(axis.size, axis.present[index]) for axis in outer]
        return offset(axes, "row", inner.size if inner.present[index] else 1)


def _joined(axes: Sequence[tuple[int, tuple[bool, ...]]], count: int, tiles: bool) -> tuple[_Axis, ...]:
    """Join consecutive axes along which the same of ``count`` operands have elements; axes of size 1 are left out.

    With ``tiles``, the last axis is not joined with others, and there are at least two.
    """
    none = _Axis(1, (False,) * count)
    *outer, last = [_Axis(size, present) for size, present in axes if size > 1] or [none]
    joined: list[_Axis] = []
    for axis in outer if tiles else (*outer, last):
        if joined and joined[-1].present == axis.present:
            joined[-1] = _Axis(joined[-1].size * axis.size, axis.present)
        else:
            joined.append(axis)
    return (*(joined or [none]), last) if tiles else tuple(joined)
