"""Positions of extrema, sorting and cumulative sums.

Sorting is recorded as argsort and a gather, so its gradient is the gather's. ``topk`` returns the first elements and
their positions.

NaN is treated as larger than every number, so it is sorted last. Equal elements keep their order, so results are the
same on every machine. Positions are int64, as in ONNX. (ONNX: ArgMax, ArgMin, TopK, CumSum; PNNX: torch.argmax,
torch.topk, torch.cumsum.)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, as_integer, normalize_axis
from explorer.ops.base import reshape
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.manipulation.reshape import Movement, flatten, vector_of_scalar
from explorer.ops.reduction.reduce import sum_dtype

__all__ = ["argmax", "argmin", "argsort", "cumsum", "sort", "topk"]

_NONDIFFERENTIABLE = "positions are integers and constant wherever they have a derivative"
_EXAMPLES = (Example(real(2, 3, 4), axis=1), Example(real(5), axis=0))


class ArgExtreme(Operation, abstract=True):
    """Base class of operations that return the position of an axis's first extremum; NaN counts as an extremum."""

    family = "reduction"
    axis: int
    keepdims: bool = False
    nondifferentiable = _NONDIFFERENTIABLE
    examples: ClassVar[tuple[Example, ...]] = (
        *_EXAMPLES,
        Example(integers(3, 2), axis=0, keepdims=True),
    )

    def infer(self, x: TensorType) -> TensorType:
        if not 0 <= self.axis < x.rank or not x.shape[self.axis] or x.dtype.kind == "c":
            raise self.refuse((x,), f"the operand must be real, and axis {self.axis} must have at least one element")
        kept = (1,) * self.keepdims
        return TensorType((*x.shape[: self.axis], *kept, *x.shape[self.axis + 1 :]), np.int64)

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return type(self)(self.axis + 1, self.keepdims)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


class ArgMax(ArgExtreme):
    """Position of the first maximum along an axis; NaN counts as the maximum."""

    name = "argmax"

    def kernel(self, out: Array, x: Array) -> Array:
        # copy, because NumPy's out must have the platform's index dtype, which is narrower on 32-bit systems
        np.copyto(out, np.argmax(x, self.axis, keepdims=self.keepdims))
        return out


class ArgMin(ArgExtreme):
    """Position of the first minimum along an axis; NaN counts as the minimum."""

    name = "argmin"

    def kernel(self, out: Array, x: Array) -> Array:
        np.copyto(out, np.argmin(x, self.axis, keepdims=self.keepdims))
        return out


_PARTITION_RATIO = 8
"""minimum ratio of axis length to count for which only the first ``count`` elements are sorted"""


class ArgSort(Operation):
    """Positions that sort the elements along an axis in ascending or descending order; the sort is stable.

    ``count`` is the number of positions that are kept; None keeps all. NaN is treated as larger than all numbers.
    """

    name = "argsort"
    axis: int
    descending: bool = False
    count: int | None = None
    nondifferentiable = _NONDIFFERENTIABLE
    examples = (
        *_EXAMPLES,
        Example(integers(3, 6, high=3), axis=1, descending=True),
        Example(real(2, 40), axis=1, descending=True, count=3),
        Example(real(40, 2), axis=0, count=2),
    )

    def infer(self, x: TensorType) -> TensorType:
        if not 0 <= self.axis < x.rank or x.dtype.kind == "c":
            raise self.refuse((x,), f"the operand must be real and have an axis {self.axis}")
        length = x.shape[self.axis]
        if self.count is not None and not 0 <= self.count <= length:
            raise self.refuse((x,), f"count must be in 0 … {length}, the length of axis {self.axis}")
        kept = length if self.count is None else self.count
        return x.with_dtype(np.int64).with_shape((*x.shape[: self.axis], kept, *x.shape[self.axis + 1 :]))

    def kernel(self, out: Array, x: Array) -> Array:
        count, length = out.shape[self.axis], x.shape[self.axis]
        if 0 < count * _PARTITION_RATIO <= length and x.size and isinstance(x, np.ndarray) and x.dtype.kind in "iuf":
            selected = _first_positions(np.moveaxis(x, self.axis, -1), count, self.descending)
            if selected is not None:
                np.copyto(np.moveaxis(out, self.axis, -1), selected)
                return out
        first = (*[slice(None)] * self.axis, slice(count))
        if not self.descending:
            np.copyto(out, np.argsort(x, self.axis, kind="stable")[first])
            return out
        backwards = np.argsort(
            np.flip(x, self.axis), self.axis, kind="stable"
        )  # in the flipped order, the last of equal elements comes first
        np.subtract(length - 1, np.flip(backwards, self.axis)[first], out=out)
        return out

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return ArgSort(self.axis + 1, self.descending, self.count)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        length = types[0].shape[self.axis]
        return types[0].size * max(1, length - 1).bit_length()


def _first_positions(x: Array, count: int, descending: bool) -> Array | None:
    """Return the positions of each row's first ``count`` elements after sorting, or None if a row contains NaN.

    Each row is partitioned at the ``count``-th element. Among elements equal to it, the first ones are selected.
    """
    # The maximum of a row with NaN is NaN.
    if x.dtype.kind not in "iub" and np.isnan(np.maximum.reduce(x, axis=-1)).any():
        return None
    length = x.shape[-1]
    normalized = length - count if descending else count - 1
    limit = np.partition(x, normalized, axis=-1)[..., normalized, None]
    selected = x >= limit if descending else x <= limit
    if np.count_nonzero(selected) > limit.size * count:
        is_before, is_limit = (x > limit if descending else x < limit), x == limit
        missing = count - is_before.sum(-1, keepdims=True)
        selected = is_before | (is_limit & (np.cumsum(is_limit, -1) <= missing))
    positions = (np.flatnonzero(selected) % length).reshape(*x.shape[:-1], count)
    values = np.take_along_axis(x, positions, -1)
    if descending:
        order = count - 1 - np.flip(np.argsort(np.flip(values, -1), -1, kind="stable"), -1)
    else:
        order = np.argsort(values, -1, kind="stable")
    first: Array = np.take_along_axis(positions, order, -1)
    return first


class CumulativeSum(Movement):
    """Cumulative sum along an axis."""

    name = "cumsum"
    axis: int
    accumulates = True
    examples = (
        Example(real(2, 3, 4), axis=1),
        Example(real(5), axis=0),
        Example(integers(2, 3, dtype="int32"), axis=1),
    )

    def infer(self, x: TensorType) -> TensorType:
        if not 0 <= self.axis < x.rank:
            raise self.refuse((x,), f"the operand must have an axis {self.axis}")
        return x.with_dtype(sum_dtype(x.dtype))

    def kernel(self, out: Array, x: Array) -> Array:
        return np.cumsum(x, self.axis, dtype=out.dtype, out=out)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        # each element is part of its own and all later sums, so its gradient is the sum of their gradients
        return (flip(self(flip(g, self.axis)), self.axis),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return CumulativeSum(self.axis + 1)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _position(operation_class: type[ArgExtreme], x: Any, axis: int | None, keepdims: bool) -> Expr:
    (x,) = as_operands((x,))
    if axis is None or (x.ndim == 0 and axis in (0, -1)):  # NumPy treats a scalar as a vector of one element
        position = operation_class(0)(flatten(x))
        return reshape(position, (1,) * x.ndim) if keepdims else position
    return operation_class(normalize_axis(axis, x.ndim, operation_class.name), bool(keepdims))(x)


@public
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Return the position (int64) of the maximum along ``axis``; if the axis is None, ``x`` is flattened first.

    >>> ex.evaluate(ex.argmax(np.array([[1, 5, 2], [7, 0, 7]]), axis=1))
    array([1, 0])
    """
    return _position(ArgMax, x, axis, keepdims)


@public
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Return the position (int64) of the minimum along ``axis``; if the axis is None, ``x`` is flattened first.

    >>> ex.evaluate(ex.argmin(np.array([[1, 5, 2], [7, 0, 7]]), axis=1))
    array([0, 1])
    """
    return _position(ArgMin, x, axis, keepdims)


@public
def argsort(x: Any, axis: int = -1, descending: bool = False) -> Expr:
    """Return the positions (int64), with the shape of ``x``, that sort the elements along an axis; the sort is stable.

    >>> ex.evaluate(ex.argsort(np.array([3, 1, 2])))
    array([1, 2, 0])
    """
    (x,) = as_operands((x,))
    x = vector_of_scalar(x, axis)
    return ArgSort(normalize_axis(axis, x.ndim, "argsort"), bool(descending))(x)


@public
def sort(x: Any, axis: int = -1, descending: bool = False) -> Expr:
    """Sort the elements along an axis in ascending or descending order; NaN is treated as larger than all numbers.

    Equal elements keep their order. The gradient of each sorted element goes to its original position.

    >>> ex.evaluate(ex.sort(np.array([2.0, np.nan, 1.0])))
    array([ 1.,  2., nan])
    """
    (x,) = as_operands((x,))
    return TakeAlong(normalize_axis(axis, x.ndim, "sort"))(x, argsort(x, axis, descending))


@public
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Expr, Expr]:
    """Return the k largest or smallest elements along an axis in sorted order, and their positions (int64).

    Equal elements keep their order. Raises OperandError if k exceeds the axis length.

    >>> values, positions = ex.topk(np.array([1.0, 5.0, 3.0]), 2)
    >>> ex.evaluate([values, positions])
    [array([5., 3.]), array([1, 2])]
    """
    (x,) = as_operands((x,))
    normalized, count = normalize_axis(axis, x.ndim, "topk"), as_integer(k, "topk: k")
    if not 0 <= count <= x.shape[normalized]:
        raise OperandError(
            f"topk: {count} of {x.type}",
            rule=f"k must be in 0 … {x.shape[normalized]}, the length of axis {normalized}",
            fix=f"k={x.shape[normalized]} sorts the whole axis",
        )
    positions = ArgSort(normalized, bool(largest), count)(x)
    return TakeAlong(normalized)(x, positions), positions


@public
def cumsum(x: Any, axis: int | None = None, *, exclusive: bool = False, reverse: bool = False) -> Expr:
    """Compute the cumulative sum along ``axis``; if the axis is None, ``x`` is flattened first.

    If ``exclusive`` is true, an element is not included in its own sum. If ``reverse`` is true, the sum starts at the
    end. Narrow integers are summed in the platform's default integer.

    >>> ex.evaluate(ex.cumsum(np.array([1.0, 2.0, 3.0]), exclusive=True))
    array([0., 1., 3.])
    """
    (x,) = as_operands((x,))
    if axis is None:
        x, axis = flatten(x), 0
    x = vector_of_scalar(x, axis)
    normalized = normalize_axis(axis, x.ndim, "cumsum")
    y = CumulativeSum(normalized)(flip(x, normalized) if reverse else x)
    if exclusive and x.shape[normalized]:
        # insert a 0 in front and drop the last sum, so that each sum excludes its own element
        y = padded(y, tuple([(1, -1) if i == normalized else (0, 0) for i in range(x.ndim)]))
    return flip(y, normalized) if reverse else y
