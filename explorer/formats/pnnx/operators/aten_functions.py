"""Functions of torch that pnnx leaves under their inner names, by operations that explorer has.

Operands go by position, in the order of torch's signatures.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.registry import function
from explorer.core.types.tensor_type import broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.arguments import flag, integer, number, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.formats.pnnx.operators.places.indexing import coordinates
from explorer.formats.pnnx.operators.reduce import axes_of
from explorer.formats.pnnx.operators.reshape import chunk
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute
from explorer.ops.linalg.einsum import einsum
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.put import add_along_axis
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.reduction.reduce import sum
from explorer.ops.reduction.sorting import argsort

_INT64 = np.dtype(np.int64)


@file_operator("aten::mT", "aten::mH", "aten::adjoint", operands=Count(1, 1))
def turned(op: OperatorContext) -> Expr:
    """Matrices with rows and columns exchanged."""
    x = op.x
    if x.ndim < 2 or (x.dtype.kind == "c" and op.definition.type != "aten::mT"):
        raise OperandError(
            f"an operand {x.type}", rule=f"{op.definition.type}: there must be matrices, of real numbers but for mT"
        )
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@file_operator(
    "Tensor.clone",
    "torch.clone",
    "aten::clone",
    "Tensor.contiguous",
    "aten::contiguous",
    "aten::detach",
    "Tensor.detach",
    operands=Count(1, 2),
    ignored=("memory_format", 1),
)
def same(op: OperatorContext) -> Expr:
    """The operand itself: values have no memory that others could write to."""
    return op.x


@file_operator("Tensor.fill", "aten::fill", operands=Count(1, 2))
def fill(op: OperatorContext) -> Expr:
    """One value for all elements."""
    x, element = op.x, value(op, 1, "value")
    if isinstance(element, Expr):
        return broadcast_to(cast(element, x.dtype), x.shape)
    return full(x.shape, element, x.dtype)


@file_operator("aten::where", operands=Count(1, 3))
def places_or_choice(op: OperatorContext) -> Any:
    """One of two values by a condition; with a condition alone the indices, along each axis, where it holds."""
    if len(op.passed) == 1:
        x = op.x
        return tuple(coordinates(op, x if x.dtype.kind == "b" else x != 0))
    return where(op.x, *promoted([op.operand(1), op.operand(2)]))


@file_operator("aten::argwhere", operands=Count(1, 1))
def argwhere(op: OperatorContext) -> Expr:
    """The indices of the elements that are not 0: one row for each, (count, axes)."""
    x = op.x
    if not x.ndim:
        raise OperandError(f"an operand {x.type}", rule="aten::argwhere: the operand must have an axis or more")
    return stack(coordinates(op, x if x.dtype.kind == "b" else x != 0), 1)


@file_operator("aten::unsafe_chunk", operands=Count(2, 3))
def unsafe_chunk(op: OperatorContext) -> tuple[Expr, ...]:
    """An axis in so many parts of equal size, the last one smaller."""
    return chunk(op.x, integer(op, 1, "chunks"), integer(op, 2, "dim", 0))


@file_operator("aten::unfold", "Tensor.unfold", operands=Count(1, 4))
def windows(op: OperatorContext) -> Expr:
    """Windows along an axis, each one a row on a new last axis."""
    x = op.x
    axis = normalize_axis(integer(op, 1, "dimension"), x.ndim, "unfold")
    size, step = integer(op, 2, "size"), integer(op, 3, "step")
    if not 0 < size <= x.shape[axis] or step < 1:
        raise OperandError(
            f"windows of {size} with step {step} along {x.shape[axis]} elements",
            rule=f"{op.definition.type}: a window must lie within the axis, and the step must be 1 or more",
        )
    count = (x.shape[axis] - size) // step + 1
    claim_steps("unfold", size)
    front = (slice(None),) * axis
    return stack([x[(*front, slice(place, place + (count - 1) * step + 1, step))] for place in range(size)], x.ndim)


@file_operator("aten::lerp", "torch.lerp", operands=Count(2, 3))
def lerp(op: OperatorContext) -> Expr:
    """a + w · (b − a)."""
    weight = value(op, 2, "weight")
    result: Expr = op.x + (op.tensor(1, "end") - op.x) * weight
    return result


@file_operator("aten::addcmul", "aten::addcdiv", "torch.addcmul", "torch.addcdiv", operands=Count(3, 4))
def combined(op: OperatorContext) -> Expr:
    """a + v · b · c, or a + v · b / c."""
    b, c, factor = op.tensor(1, "tensor1"), op.tensor(2, "tensor2"), value(op, 3, "value", 1)
    term = b * c if op.definition.type.endswith("mul") else b / c
    return op.x + (term if factor == 1 else term * factor)


@file_operator("aten::frac", "torch.frac", operands=Count(1, 1))
def frac(op: OperatorContext) -> Expr:
    """The part behind the point, with the number's sign."""
    whole: Expr = function("trunc")(op.x)
    return op.x - whole


def _enter(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}", operands=Count(2, 2))
    def binary(op: OperatorContext) -> Expr:
        x, other = promoted([op.x, op.operand(1, "other")], is_floating=name == "copysign")
        result: Expr = function(name)(x, other)
        if name != "heaviside":
            return result
        # torch counts a number that is none as one below 0
        return where(x != x, 0, result) if x.dtype.kind == "f" else cast(result, x.dtype)

    binary.__doc__ = f"{name}, element by element."


for _name in ("hypot", "copysign", "heaviside"):
    _enter(_name)


@file_operator("aten::nan_to_num", "torch.nan_to_num", operands=Count(1, 4))
def nan_to_num(op: OperatorContext) -> Expr:
    """NaN and infinite elements replaced, by 0 and the ends of the dtype unless others are given."""
    x = op.x
    if x.dtype.kind != "f":
        return x
    ends = np.finfo(x.dtype)
    given = [value(op, place, name, None) for place, name in ((1, "nan"), (2, "posinf"), (3, "neginf"))]
    nan, high, low = (
        default if number is None else number
        for number, default in zip(given, (0.0, float(ends.max), float(ends.min)), strict=True)
    )
    kept = where(x == math.inf, high, where(x == -math.inf, low, x))
    return where(function("isnan")(x), nan, kept)


@file_operator("aten::logit", "torch.logit", operands=Count(1, 2))
def logit(op: OperatorContext) -> Expr:
    """log (x / (1 − x)), of numbers kept from 0 and 1 where eps says so."""
    x = op.x
    if value(op, 1, "eps", None) is not None:
        eps = number(op, 1, "eps")
        x = function("clip")(x, eps, 1 - eps)
    result: Expr = function("log")(x / (1 - x))
    return result


@file_operator("aten::broadcast_tensors", "torch.broadcast_tensors")
def together(op: OperatorContext) -> Any:
    """Tensors of one shape, axes of size 1 repeated."""
    values = op.tensors()
    shape: Any = ()
    for each in values:
        shape = None if shape is None else broadcast_shapes(shape, each.shape)
    if shape is None:
        raise OperandError(
            ", ".join(str(each.type) for each in values), rule=f"{op.definition.type}: operands must broadcast together"
        )
    return tuple([broadcast_to(each, shape) for each in values])


@file_operator("aten::count_nonzero", operands=Count(1, 2))
def count_nonzero(op: OperatorContext) -> Expr:
    """The number of elements that are not 0, along axes."""
    return sum(cast(op.x != 0, _INT64), axes_of(op))


@file_operator("aten::diff", operands=Count(1, 5))
def diff(op: OperatorContext) -> Expr:
    """Differences of neighbours along an axis, so many times."""
    x, times = op.x, integer(op, 1, "n", 1)
    axis = normalize_axis(integer(op, 2, "dim", -1), x.ndim, "diff")
    if any(value(op, place, name, None) is not None for place, name in ((3, "prepend"), (4, "append"))) or times < 0:
        raise OperandError(
            f"n={times}, or further elements", rule="aten::diff: n must be 0 or more, and prepend and append be absent"
        )
    claim_steps("diff", times)
    front = (slice(None),) * axis
    for _ in range(times):
        later, earlier = x[(*front, slice(1, None))], x[(*front, slice(0, -1))]
        x = later != earlier if x.dtype.kind == "b" else later - earlier
    return x


@file_operator("aten::trapezoid", "torch.trapezoid", "aten::trapz", operands=Count(1, 3))
def trapezoid(op: OperatorContext) -> Expr:
    """The integral along an axis by the trapezoidal rule, over equal steps or between the points x."""
    y, step = op.x, value(op, 1, "dx", 1.0)
    axis = normalize_axis(integer(op, 2, "dim", -1), y.ndim, "trapezoid")
    front = (slice(None),) * axis
    both = y[(*front, slice(1, None))] + y[(*front, slice(0, -1))]
    if not isinstance(step, Expr):
        return sum(both, axis) * (number(op, 1, "dx", 1.0) / 2)
    if step.shape not in (y.shape, y.shape[axis : axis + 1]):
        raise OperandError(
            f"points {step.type} for {y.type}",
            rule=f"{op.definition.type}: there must be one point for each element, or for each place of the axis",
        )
    place = (slice(None),) * (axis if step.ndim == y.ndim else 0)
    widths = step[(*place, slice(1, None))] - step[(*place, slice(0, -1))]
    if step.ndim < y.ndim:
        widths = reshape(widths, (widths.size, *[1] * (y.ndim - axis - 1)))
    return sum(both * widths, axis) / 2


@file_operator("aten::median", "aten::kthvalue", operands=Count(1, 4))
def ordered_place(op: OperatorContext) -> Any:
    """The lower of the two middle elements, of all or along an axis, or the k-th smallest, with its place."""
    x = op.x
    if op.definition.type == "aten::median" and len(op.passed) == 1:
        return _median(reshape(x, (x.size,)), 0, False)[0]
    first = 1 if op.definition.type == "aten::median" else 2
    axis = normalize_axis(integer(op, first, "dim", -1), x.ndim, "median")
    keep = flag(op, first + 1, "keepdim", False)
    return _median(x, axis, keep) if first == 1 else _kth(x, integer(op, 1, "k") - 1, axis, keep)


def _median(x: Expr, axis: int, keep: bool) -> tuple[Expr, Expr]:
    """Return the lower of the two middle elements, or the first NaN if there is one, and its place."""
    place = (x.shape[axis] - 1) // 2
    if x.dtype.kind != "f" or place < 0:
        return _kth(x, place, axis, keep)
    # NaN is sorted last
    count = sum(cast(x == x, _INT64), (axis,), keepdims=True)
    return _parts(x, TakeAlong(axis)(argsort(x, axis), where(count < x.shape[axis], count, place)), axis, keep)


def _kth(x: Expr, place: int, axis: int, keep: bool) -> tuple[Expr, Expr]:
    if not 0 <= place < x.shape[axis]:
        raise OperandError(f"element {place + 1} of {x.type} along axis {axis}", rule="there must be so many elements")
    return _parts(x, argsort(x, axis)[(*[slice(None)] * axis, slice(place, place + 1))], axis, keep)


def _parts(x: Expr, numbers: Expr, axis: int, keep: bool) -> tuple[Expr, Expr]:
    """Return the elements at one place along an axis, and the place."""
    element = TakeAlong(axis)(x, numbers)
    if keep:
        return element, numbers
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return reshape(element, shape), reshape(numbers, shape)


@file_operator("aten::take_along_dim", "torch.take_along_dim", operands=Count(2, 3))
def take_along(op: OperatorContext) -> Expr:
    """For each number the element at its place along an axis; other axes are broadcast."""
    x, numbers = op.x, op.tensor(1, "indices")
    axis = normalize_axis(integer(op, 2, "dim"), x.ndim, "take_along_dim")
    rest = None
    if numbers.ndim == x.ndim:
        one = [(*s[:axis], 1, *s[axis + 1 :]) for s in (x.shape, numbers.shape)]
        rest = broadcast_shapes(*one)
    if rest is None:
        raise OperandError(
            f"{numbers.type} of {x.type}", rule=f"{op.definition.type}: both must broadcast but for the axis"
        )
    shapes = [(*rest[:axis], each.shape[axis], *rest[axis + 1 :]) for each in (x, numbers)]
    return TakeAlong(axis)(broadcast_to(x, shapes[0]), broadcast_to(numbers, shapes[1]))


@file_operator("aten::bincount", operands=Count(1, 3))
def bincount(op: OperatorContext) -> Expr:
    """How often each whole number from 0 to the largest occurs."""
    x, least = op.x, integer(op, 2, "minlength", 0)
    if x.ndim != 1 or x.dtype.kind not in "iu" or value(op, 1, "weights", None) is not None or least < 0:
        raise OperandError(
            f"an operand {x.type}, minlength={least}",
            rule="aten::bincount: there must be a list of integers, without weights, and minlength 0 or more",
        )
    count = op.ask("the largest number", [x], _ends, x.size)
    assert isinstance(count, tuple)
    if count[0] < 0:
        raise OperandError(f"the number {count[0]}", rule="aten::bincount: the numbers must be 0 or more")
    bins = max(count[1] + 1, least)
    claim_constant("bins", bins)
    return add_along_axis(np.zeros(bins, np.int64), cast(x, _INT64), 1, 0)


def _ends(arrays: Any) -> tuple[int, int]:
    """Return the least number, and the largest; 0 and −1 where there are none."""
    (x,) = arrays
    return (int(x.min()), int(x.max())) if x.size else (0, -1)


@file_operator("aten::isclose", operands=Count(2, 5))
def isclose(op: OperatorContext) -> Expr:
    """Whether |a − b| ≤ atol + rtol · |b|."""
    x, y = op.x, op.tensor(1, "other")
    rtol, atol = value(op, 2, "rtol", 1e-5), value(op, 3, "atol", 1e-8)
    near: Expr = function("less_equal")(absolute(x - y), atol + rtol * absolute(y))
    # infinite elements are close to themselves alone
    close: Expr = function("logical_or")(x == y, function("logical_and")(near, function("isfinite")(y)))
    if flag(op, 4, "equal_nan", False):
        close = function("logical_or")(close, function("logical_and")(x != x, y != y))
    return close


@file_operator("aten::trace", operands=Count(1, 1))
def trace(op: OperatorContext) -> Expr:
    """The sum of a matrix' diagonal."""
    x = op.x
    if x.ndim != 2:
        raise OperandError(f"an operand {x.type}", rule="aten::trace: the operand must be a matrix")
    size = min(x.shape)
    return einsum("ii->", x[:size, :size])
