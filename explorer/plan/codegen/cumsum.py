"""C code of cumulative sums, which add in NumPy's order, so they have the same bits.

Along the innermost axis, the code is a loop over rows with one sum each. Along another axis, each row of the axes after
it is the row before plus the operand's row.
"""

from __future__ import annotations

import math

from explorer.ops.base import c_literal
from explorer.ops.reduction.sorting import CumulativeSum
from explorer.plan.codegen.elements import BOOLEAN, TYPES, suffix
from explorer.plan.codegen.indexing import distances
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec, Obstacle
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.values import Values


def cumsum_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a kernel that computes only a cumulative sum, or the obstacle."""
    (node,) = kernel.nodes
    (x,) = kernel.operands(node)
    assert isinstance(node.operation, CumulativeSum)
    for each in (x, node):
        if each.dtype not in TYPES or each.dtype == BOOLEAN:
            return Obstacle("dtype", node, {"dtype": str(each.dtype)})
    depth, sizes = kernel.order.index(node.operation.axis), [node.shape[axis] for axis in kernel.order]
    parts, length, columns = math.prod(sizes[:depth]), sizes[depth], math.prod(sizes[depth + 1 :])
    values = Values(kernel, {"part", "column", "total", "first"})
    result = values.name(node)
    text = KernelText(kernel, f"{counted(kernel.nodes)} on {math.prod(sizes)} elements", values, lambda index: True)

    def element(offset: str) -> str:
        return values.literal(x) or f"{values.name(x)}[{offset}]"

    text.loop("part", "stop", "start")
    if columns == 1:
        # the sum of no numbers is -0, since -0 + -0 is -0
        text.add(f"{TYPES[node.dtype]} total = {c_literal(-0.0, suffix(node.dtype))};")
        text.loop("i", length)
        text.compute(node, f"total += {element(f'part * {length} + i')};")
        text.add(f"{result}[part * {length} + i] = total;")
    else:
        first = f"part * {length * columns} + column"
        text.comment(node)
        text.add("VECTORIZE")
        around = text.loop("column", columns)
        text.add(f"{result}[{first}] = {element(first)};")
        text.close(around)
        text.loop("row", length, 1)
        text.add(f"const int64_t first = (part * {length} + row) * {columns};")
        text.add("VECTORIZE")
        text.loop("column", columns)
        total = f"{result}[first - {columns} + column] + {element('first + column')}"
        text.compute(node, f"{result}[first + column] = {total};")
    memory = distances(node.shape, kernel.order)
    strides = (memory,) * (len(values.reads) + 1)
    return KernelCode(kernel.name, text.ended(), text.lines, values.reads, strides, parts, length * columns)
