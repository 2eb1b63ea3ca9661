"""Operator types for reshaping, slicing, conversion and copying, and StopGradient.

With ``in_place``, an input and an output may have the same name, as in Caffe2. No memory is overwritten; later readers
of the name read the new value.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.reshape import StopGradient as Barrier
from explorer.ops.manipulation.reshape import cast, reshape, transpose
from explorer.record.reasons import counted_text


@net_operator(in_place=True)
def Reshape(x: Expr, *, shape: Annotated[tuple[int, ...], "0 keeps an axis, −1 is inferred"]) -> Expr:
    """Return the elements in another shape."""
    if 0 in shape[x.ndim :]:
        raise OperandError(
            f"shape={shape} for {x.type}", rule="0 keeps the axis at its position, so the operand must have that axis"
        )
    return reshape(x, tuple(size or x.shape[axis] for axis, size in enumerate(shape)))


@net_operator()
def Transpose(x: Expr, *, axes: Annotated[tuple[int, ...] | None, "None reverses them"] = None) -> Expr:
    """Return the operand with its axes permuted."""
    return transpose(x, axes)


@net_operator()
def Concat(first: Expr, *others: Expr, axis: int = 1) -> Expr:
    """Return the operands concatenated along an axis."""
    return concatenate((first, *others), axis)


@net_operator()
def Split(
    x: Expr,
    *,
    outputs: int,
    axis: int = 1,
    split: Annotated[tuple[int, ...] | None, "a length for each part; None makes them equal"] = None,
) -> tuple[Expr, ...]:
    """Return the operand split along ``axis``, with one part for each output."""
    at = normalize_axis(axis, x.ndim, "Split")
    length = x.shape[at]
    sizes = (length // outputs,) * outputs if split is None else split
    if len(sizes) != outputs or sum(sizes) != length or min(sizes) < 0:
        raise OperandError(
            f"{counted_text(outputs, 'part')} of {x.type} with split={split}",
            rule=f"the sizes of the outputs must add up to {length}, the length of axis {at}",
            fix="give split=(…), a length for each output",
        )
    ends = accumulate(sizes)
    before = (slice(None),) * at
    return tuple(x[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))


@net_operator()
def Slice(
    x: Expr,
    *,
    starts: tuple[int, ...],
    ends: Annotated[tuple[int, ...], "exclusive; −1 is the end of the axis, −2 excludes its last element"],
) -> Expr:
    """Return the slice from ``starts`` to ``ends``, one range for each of the first axes."""
    if not len(starts) == len(ends) <= x.ndim:
        raise OperandError(
            f"starts={starts}, ends={ends} for {x.type}",
            rule="starts and ends must have the same length, at most the number of axes",
            fix="start 0 and end −1 for a whole axis",
        )
    spans = zip(starts, ends, x.shape, strict=False)
    return x[tuple(slice(*(at if at >= 0 else size + 1 + at for at in (start, end))) for start, end, size in spans)]


@net_operator(no_gradient=(1,))
def Gather(x: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    """Return the elements at the given indices along ``axis``."""
    return take(x, indices, axis)


@net_operator(in_place=True)
def Cast(x: Expr, *, to: Annotated[str, "a dtype's name"]) -> Expr:
    """Return the elements converted to another dtype."""
    return cast(x, to)


@net_operator()
def Copy(x: Expr) -> Expr:
    """Return a copy of the operand, which later writes to the operand do not affect."""
    return x


@net_operator(in_place=True, gradient="none")
def StopGradient(x: Expr) -> Expr:
    """Return the operand unchanged; its gradient is not computed."""
    stopped: Expr = Barrier()(x)
    return stopped
