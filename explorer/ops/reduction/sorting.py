"""Positions of extremes, sorting, and cumulative sums.

Sorting is argsort followed by a gather, so that its gradient is the gather's; ``topk`` is a part of both.

NaN counts as larger than every number, and sorts last; equal elements keep their order, so that results are the same on
every machine. Positions are int64, as in ONNX. (ONNX: ArgMax, ArgMin, TopK, CumSum; PNNX: torch.argmax, torch.topk,
torch.cumsum.)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, normalize_axis, whole
from explorer.ops.base import reshape
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.manipulation.reshape import Movement, flatten, vector_of_scalar
from explorer.ops.reduction.reduce import sum_dtype

__all__ = ["argmax", "argmin", "argsort", "cumsum", "sort", "topk"]

_NUMBERS = "places are whole numbers and constant wherever they have a derivative"
_APART = (Example(real(2, 3, 4), axis=1), Example(real(5), axis=0))


class ArgExtreme(Operation, abstract=True):
    """Base of positions of an extreme element along an axis, the first of equal ones; NaN wins."""

    axis: int
    keepdims: bool = False
    nondifferentiable = _NUMBERS
    examples: ClassVar[tuple[Example, ...]] = (
        *_APART,
        Example(integers(3, 2), axis=0, keepdims=True),
    )

    def infer(self, x: TensorType) -> TensorType:
        if not 0 <= self.axis < x.rank or not x.shape[self.axis] or x.dtype.kind == "c":
            raise self.refuse((x,), f"the operand must be real, with an axis {self.axis} of at least one element")
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
    """Position of the largest element along an axis, the first of equal ones; NaN wins."""

    name = "argmax"

    def kernel(self, out: Array, x: Array) -> Array:
        # copied: NumPy's out must be of the platform's index dtype, which is narrower on 32 bits
        np.copyto(out, np.argmax(x, self.axis, keepdims=self.keepdims))
        return out


class ArgMin(ArgExtreme):
    """Position of the smallest element along an axis, the first of equal ones; NaN wins."""

    name = "argmin"

    def kernel(self, out: Array, x: Array) -> Array:
        np.copyto(out, np.argmin(x, self.axis, keepdims=self.keepdims))
        return out


_FEW = 8
"""of so many times fewer elements than there are the first ones are found without sorting the others"""


class ArgSort(Operation):
    """Positions of the elements along an axis in ascending or descending order; the sort is stable.

    ``count`` keeps the first so many, None all. NaN counts as larger than all numbers.
    """

    name = "argsort"
    axis: int
    descending: bool = False
    count: int | None = None
    nondifferentiable = _NUMBERS
    examples = (
        *_APART,
        Example(integers(3, 6, high=3), axis=1, descending=True),
        Example(real(2, 40), axis=1, descending=True, count=3),
        Example(real(40, 2), axis=0, count=2),
    )

    def infer(self, x: TensorType) -> TensorType:
        if not 0 <= self.axis < x.rank or x.dtype.kind == "c":
            raise self.refuse((x,), f"the operand must be real and have an axis {self.axis}")
        length = x.shape[self.axis]
        if self.count is not None and not 0 <= self.count <= length:
            raise self.refuse((x,), f"count must lie in 0 … {length}, the length of axis {self.axis}")
        kept = length if self.count is None else self.count
        return x.with_dtype(np.int64).with_shape((*x.shape[: self.axis], kept, *x.shape[self.axis + 1 :]))

    def kernel(self, out: Array, x: Array) -> Array:
        count, length = out.shape[self.axis], x.shape[self.axis]
        if 0 < count * _FEW <= length and x.size and isinstance(x, np.ndarray) and x.dtype.kind in "iuf":
            chosen = _first(np.moveaxis(x, self.axis, -1), count, self.descending)
            if chosen is not None:
                np.copyto(np.moveaxis(out, self.axis, -1), chosen)
                return out
        first = (*[slice(None)] * self.axis, slice(count))
        if not self.descending:
            np.copyto(out, np.argsort(x, self.axis, kind="stable")[first])
            return out
        backwards = np.argsort(np.flip(x, self.axis), self.axis, kind="stable")  # of equal ones the last comes first
        np.subtract(length - 1, np.flip(backwards, self.axis)[first], out=out)
        return out

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return ArgSort(self.axis + 1, self.descending, self.count)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        length = types[0].shape[self.axis]
        return types[0].size * max(1, length - 1).bit_length()


def _first(x: Array, count: int, descending: bool) -> Array | None:
    """Return the positions of the first elements of sorted rows, without sorting the others; None where a row has NaN.

    A row is cut at its element number ``count``; of those that are equal to it the first ones are taken.
    """
    # The largest element of a row with NaN is NaN.
    if x.dtype.kind not in "iub" and np.isnan(np.maximum.reduce(x, axis=-1)).any():
        return None
    length = x.shape[-1]
    place = length - count if descending else count - 1
    limit = np.partition(x, place, axis=-1)[..., place, None]
    chosen = x >= limit if descending else x <= limit
    if np.count_nonzero(chosen) > limit.size * count:
        is_before, is_limit = (x > limit if descending else x < limit), x == limit
        missing = count - is_before.sum(-1, keepdims=True)
        chosen = is_before | (is_limit & (np.cumsum(is_limit, -1) <= missing))
    places = (np.flatnonzero(chosen) % length).reshape(*x.shape[:-1], count)
    values = np.take_along_axis(x, places, -1)
    if descending:
        order = count - 1 - np.flip(np.argsort(np.flip(values, -1), -1, kind="stable"), -1)
    else:
        order = np.argsort(values, -1, kind="stable")
    first: Array = np.take_along_axis(places, order, -1)
    return first


class CumulativeSum(Movement):
    """Cumulative sum along an axis: each element with all before it."""

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
        # an element is part of its own sum and of all behind it: the gradient sums from the end
        return (flip(self(flip(g, self.axis)), self.axis),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return CumulativeSum(self.axis + 1)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _place(operation_class: type[ArgExtreme], x: Any, axis: int | None, keepdims: bool) -> Expr:
    (x,) = as_operands((x,))
    if axis is None or (x.ndim == 0 and axis in (0, -1)):  # NumPy takes a scalar for a vector of one element
        position = operation_class(0)(flatten(x))
        return reshape(position, (1,) * x.ndim) if keepdims else position
    return operation_class(normalize_axis(axis, x.ndim, operation_class.name), bool(keepdims))(x)


@public
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Find the position of the largest element along an axis (int64), of the flattened ``x`` for None.

    >>> ex.evaluate(ex.argmax(np.array([[1, 5, 2], [7, 0, 7]]), axis=1))
    array([1, 0])
    """
    return _place(ArgMax, x, axis, keepdims)


@public
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Find the position of the smallest element along an axis (int64), of the flattened ``x`` for None.

    >>> ex.evaluate(ex.argmin(np.array([[1, 5, 2], [7, 0, 7]]), axis=1))
    array([0, 1])
    """
    return _place(ArgMin, x, axis, keepdims)


@public
def argsort(x: Any, axis: int = -1, descending: bool = False) -> Expr:
    """Return the positions (int64) that sort the elements along an axis; the sort is stable. Shape as ``x``.

    >>> ex.evaluate(ex.argsort(np.array([3, 1, 2])))
    array([1, 2, 0])
    """
    (x,) = as_operands((x,))
    x = vector_of_scalar(x, axis)
    return ArgSort(normalize_axis(axis, x.ndim, "argsort"), bool(descending))(x)


@public
def sort(x: Any, axis: int = -1, descending: bool = False) -> Expr:
    """Sort the elements along an axis, ascending or descending; NaN counts as larger than all numbers.

    Equal elements keep their order. The gradient goes back to the places that the elements came from.

    >>> ex.evaluate(ex.sort(np.array([2.0, np.nan, 1.0])))
    array([ 1.,  2., nan])
    """
    (x,) = as_operands((x,))
    return TakeAlong(normalize_axis(axis, x.ndim, "sort"))(x, argsort(x, axis, descending))


@public
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Expr, Expr]:
    """Return the k largest or smallest elements along an axis in order, and their positions (int64).

    Of equal elements the first come first. Raises OperandError for more elements than the axis has.

    >>> values, places = ex.topk(np.array([1.0, 5.0, 3.0]), 2)
    >>> ex.evaluate([values, places])
    [array([5., 3.]), array([1, 2])]
    """
    (x,) = as_operands((x,))
    place, count = normalize_axis(axis, x.ndim, "topk"), whole(k, "topk: k")
    if not 0 <= count <= x.shape[place]:
        raise OperandError(
            f"topk: {count} of {x.type}",
            rule=f"k must lie in 0 … {x.shape[place]}, the length of axis {place}",
            fix=f"k={x.shape[place]} sorts the whole axis",
        )
    numbers = ArgSort(place, bool(largest), count)(x)
    return TakeAlong(place)(x, numbers), numbers


@public
def cumsum(x: Any, axis: int | None = None, *, exclusive: bool = False, reverse: bool = False) -> Expr:
    """Sum cumulatively along an axis, of the flattened ``x`` for None; ``exclusive`` leaves each element itself out.

    ``reverse`` sums from the end. Small integers are summed in the platform's integer.

    >>> ex.evaluate(ex.cumsum(np.array([1.0, 2.0, 3.0]), exclusive=True))
    array([0., 1., 3.])
    """
    (x,) = as_operands((x,))
    if axis is None:
        x, axis = flatten(x), 0
    x = vector_of_scalar(x, axis)
    place = normalize_axis(axis, x.ndim, "cumsum")
    y = CumulativeSum(place)(flip(x, place) if reverse else x)
    if exclusive and x.shape[place]:
        # one 0 in front, the last sum dropped: each element without itself
        y = padded(y, tuple([(1, -1) if i == place else (0, 0) for i in range(x.ndim)]))
    return flip(y, place) if reverse else y
