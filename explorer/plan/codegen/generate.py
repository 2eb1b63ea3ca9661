"""C code of kernels, by kind: each kind is a file of this package that writes the code of its kernels."""

from __future__ import annotations

from explorer.ops.reduction.sorting import CumulativeSum
from explorer.plan.codegen.cumsum import cumsum_code
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec, Obstacle
from explorer.plan.codegen.loops import loop_code
from explorer.plan.codegen.products import product_code
from explorer.plan.codegen.rows import row_code
from explorer.plan.codegen.windows import combines_windows, window_code


def kernel_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a kernel, or the obstacle."""
    if (product := product_code(kernel)) is not None:
        return product
    first = kernel.nodes[0]
    if isinstance(first.operation, CumulativeSum):
        return cumsum_code(kernel)
    if combines_windows(first, kernel.operands(first)):
        return window_code(kernel)
    if first.operation.is_tileable or all(node.operation.elementwise for node in kernel.nodes):
        return loop_code(kernel)
    return row_code(kernel)
