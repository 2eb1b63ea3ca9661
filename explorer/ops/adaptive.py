"""The largest elements of windows that cover axes evenly."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import public
from explorer.core.types.tensor_type import whole
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.reduction.reduce import max


@public
def adaptive_max_pool(x: Any, output: int | tuple[int, ...]) -> Expr:
    """The largest elements of ``output`` windows along the last axes; window i reaches from ⌊i·L/l⌋ to ⌈(i+1)·L/l⌉."""
    (x,) = as_operands((x,))
    sizes = output if isinstance(output, (tuple, list)) else (output,)
    counts = [whole(count, "adaptive_max_pool: a number of windows") for count in sizes]
    if len(counts) > x.ndim or any(count < 1 for count in counts) or 0 in x.shape[x.ndim - len(counts) :]:
        raise OperandError(
            f"adaptive_max_pool: {counts} windows of {x.type}",
            rule="there is one window at least along each of the last axes, and an element in each",
        )
    y: Expr = x
    for axis, count in enumerate(counts, x.ndim - len(counts)):
        length = y.shape[axis]
        if count == length:
            continue
        claim_steps("adaptive_max_pool", 2 * count)
        front = [slice(None)] * axis
        windows = [slice(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
        y = concatenate([max(part_of(y, (*front, window)), axis, keepdims=True) for window in windows], axis)
    return y
