"""Reductions: sums, means and extremes over axes.

Each declares the ufunc that combines partial results, so that the plan can fuse elementwise producers into its kernel
and run it block by block. Python's ``sum``, ``max`` and their like are shadowed on purpose: the functions have NumPy's
names.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.ir.policy_operations import Adjustable
from explorer.core.policy import NO_POLICIES, Items, Policies
from explorer.core.registry import function, public
from explorer.core.types.custom_dtypes import accumulator_dtype, is_floating
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, normalize_axes
from explorer.ops.accumulation_dtype import AccumulationPolicy, accumulating, rounded_once
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.reduction.product_tree import products_of_others
from explorer.ops.reduction.row_extremes import row_extremes

__all__ = ["all", "any", "max", "mean", "min", "prod", "sum"]


EXAMPLES = (
    Example(real(2, 3, 4), axes=(0, 2)),
    Example(real(2, 3), axes=(1,), keepdims=True),
    Example(real(3), axes=(0,)),
    Example(real(2, 3), axes=()),
)


_METHODS: dict[np.ufunc, str] = {np.maximum: "max", np.minimum: "min", np.logical_and: "all", np.logical_or: "any"}
"""methods of arrays that reduce as ufuncs do: GPUs' arrays know ``ufunc.reduce`` of sums and products alone"""


def reduce_array(
    ufunc: np.ufunc,
    x: Array,
    axes: tuple[int, ...],
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = None,
) -> Array:
    """Combine elements along axes by a ufunc, beginning with ``initial`` if it is given, on any device."""
    result: Array
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    method = _METHODS.get(ufunc)
    if isinstance(x, np.ndarray) or method is None:
        if initial is not None:
            options["initial"] = initial
        if out is not None:
            reduce_rows = row_extremes(ufunc, x, axes, out, initial)
            if reduce_rows is not None:
                return reduce_rows()
            options |= {"out": out, "dtype": out.dtype}
        result = ufunc.reduce(x, **options)
        return result
    if x.size:
        result = getattr(x, method)(**options)
    else:
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        shape = kept if keepdims else [size for axis, size in enumerate(kept) if axis not in axes]
        result = np.empty(shape, x.dtype, like=x)
        result.fill(ufunc.identity if initial is None else initial)
    if initial is not None:
        result = ufunc(result, initial)
    if out is None:
        return result
    np.copyto(out, result)
    return out


class Reduction(Operation, abstract=True):
    """Base of operations that combine the elements along ``axes`` (counted from the front, ascending).

    Over empty axes a sum is 0, a product 1, ``all`` True and ``any`` False; extremes refuse, since there is none.
    (ONNX: ReduceSum and its like; PNNX: torch.sum and its like.)
    """

    axes: tuple[int, ...]
    keepdims: bool = False
    ufunc: ClassVar[np.ufunc]
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def result_shape(self, x: TensorType) -> Shape:
        """Return the shape without the reduced axes, or with size 1 there."""
        if builtins.any(not 0 <= axis < x.rank for axis in self.axes):
            raise self.refuse((x,), f"the axes {self.axes} must lie in 0 … {x.rank - 1}")
        if self.keepdims:
            return tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return tuple([size for axis, size in enumerate(x.shape) if axis not in self.axes])

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(self.result_shape(x), self.result_dtype(x.dtype), x.device)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the result."""
        return dtype

    def kernel(self, out: Array, x: Array) -> Array:
        return reduce_array(self.ufunc, x, self.axes, out, self.keepdims)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        if type(self).kernel is not Reduction.kernel:
            return super().bind_kernel(out, x)
        return self._bound(out, x)

    def _bound(self, out: Array, x: Array) -> Callable[[], Any]:
        reduce_rows = row_extremes(self.ufunc, x, self.axes, out)
        if reduce_rows is not None:
            return reduce_rows
        reduce: Callable[..., Any] = self.ufunc.reduce
        return functools.partial(reduce, x, self.axes, out.dtype, out, self.keepdims)

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return self.axes

    @property
    def combine_ufunc(self) -> np.ufunc:
        return self.ufunc

    def partial_reduce(self, out: Array, x: Array, axes: tuple[int, ...]) -> Array:
        return reduce_array(self.ufunc, x, axes, out, keepdims=True)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return type(self)(tuple([axis + 1 for axis in self.axes]), self.keepdims)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size

    def spread(self, value: Expr, x: Expr) -> Expr:
        """Repeat a value of the result's shape along the reduced axes."""
        kept = tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return broadcast_to(reshape(value, kept), x.shape)


@functools.cache
def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of sums: small integers are summed in the platform's integer, as in NumPy."""
    # asked of NumPy, so that no table of dtypes can differ from its own
    dtype_of_sum: np.dtype[Any] = np.sum(np.empty(0, dtype)).dtype
    return dtype_of_sum


class Sum(Adjustable, Reduction):
    """Sum over axes; small integers are summed in the platform's integer, as in NumPy.

    A sum over no axis is its operand, −0.0 included; any other starts from 0.0, as in NumPy. AccumulationPolicy chooses
    another combining operation, or a wider dtype.
    """

    linear = accumulates = True
    policies = (AccumulationPolicy.by, AccumulationPolicy.dtype)
    ufunc = np.add
    examples: ClassVar[tuple[Example, ...]] = (*EXAMPLES, Example(integers(2, 3, dtype="int32"), axes=(0,)))

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return sum_dtype(dtype)

    def under(self, policies: Policies) -> Operation:
        """Return the product over the axes, or the sum in a wider dtype, as the policies ask."""
        product = policies.select(AccumulationPolicy).by == "product"
        return accumulating(Prod(self.axes, self.keepdims) if product else self, policies)

    def kernel(self, out: Array, x: Array) -> Array:
        if self.axes:
            return super().kernel(out, x)
        np.copyto(out, x)
        return out

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        if type(self).kernel is not Sum.kernel or not self.axes:
            return super().bind_kernel(out, x)
        return self._bound(out, x)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (self.spread(g, x),)


class Mean(Adjustable, Reduction):
    """Mean over axes; integers give a floating result. The mean of nothing is NaN, that over no axis the operand."""

    linear = accumulates = True
    policies = (AccumulationPolicy.dtype,)
    ufunc = np.add

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return dtype if is_floating(dtype) or dtype.kind == "c" else np.dtype(np.float64)

    def kernel(self, out: Array, x: Array) -> Array:
        if not self.axes:
            np.copyto(out, x)
            return out
        count = math.prod([x.shape[axis] for axis in self.axes])
        if not count:
            # NumPy's mean of nothing, without its warning
            out[...] = complex(np.nan, np.nan) if out.dtype.kind == "c" else np.nan
            return out
        np.add.reduce(x, axis=self.axes, keepdims=self.keepdims, dtype=out.dtype, out=out)
        return self.finalize(out, out, count)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        count = math.prod([x.shape[axis] for axis in self.axes])
        if type(self).kernel is not Mean.kernel or not self.axes or not count:
            return super().bind_kernel(out, x)
        add_up, divide = self._bound(out, x), np.divide
        # an array of no axis, which NumPy's ufuncs take sooner than numbers, and other devices' not at all
        divisor = np.array(count, out.dtype) if isinstance(out, np.ndarray) else count
        return lambda: divide(add_up(), divisor, out)

    def finalize(self, out: Array, joined: Array, count: int) -> Array:
        return np.divide(joined, count, out=out, casting="unsafe")

    def under(self, policies: Policies) -> Operation:
        """Return the mean that accumulates in the policies' dtype."""
        return accumulating(self, policies)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        count = math.prod([x.shape[axis] for axis in self.axes])
        with np.errstate(over="ignore"):
            is_held = float(x.dtype.type(count)) == count
        return (self.spread(g / count if is_held else _divided(g, count), x),)


class Prod(Adjustable, Reduction):
    """Product over axes, in the dtype of a sum; its gradients are exact for elements that are 0, too."""

    ufunc = np.multiply
    accumulates = True
    policies = (AccumulationPolicy.dtype,)
    examples: ClassVar[tuple[Example, ...]] = (*EXAMPLES, Example(integers(2, 3, dtype="int32"), axes=(0,)))

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return sum_dtype(dtype)

    def under(self, policies: Policies) -> Operation:
        """Return the product that accumulates in the policies' dtype."""
        return accumulating(self, policies)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        """Record g · the product of the other elements."""
        # no element, no product of others
        if not x.size:
            return (self.spread(g, x),)
        return (_times_others(self.spread(g, x), x, self.axes),)


@rounded_once
def _times_others(g: Expr, x: Expr, axes: tuple[int, ...]) -> Expr:
    """Record g times the product of the other elements along axes."""
    # the reduced axes become one last axis, for the tree of products
    kept = tuple([axis for axis in range(x.ndim) if axis not in axes])
    order = kept + axes
    last = function("transpose")(x, order)
    rows = reshape(last, (*[x.shape[axis] for axis in kept], math.prod([x.shape[axis] for axis in axes])))
    others = reshape(products_of_others(rows), last.shape)
    gradient: Expr = g * function("inverse_transpose")(others, order)
    return gradient


class TruthReduction(Reduction, abstract=True):
    """Base of tests whether elements along axes are not 0."""

    nondifferentiable = "truth values have no derivative"
    idempotent = True

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(bool)


class All(TruthReduction):
    """Whether all elements over axes hold: are not 0."""

    ufunc = np.logical_and


class AnyOf(TruthReduction):
    """Whether any element over axes holds: is not 0."""

    name, ufunc = "any", np.logical_or


class Extreme(Reduction, abstract=True):
    """Base of largest and smallest elements; equal extremes share the gradient."""

    idempotent = True

    def infer(self, x: TensorType) -> TensorType:
        if builtins.any(x.shape[axis] == 0 for axis in self.axes if axis < x.rank):
            raise self.refuse((x,), "the reduced axes must hold at least one element")
        return super().infer(x)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        # an extreme that is NaN equals nothing: a share of 0 elements makes its gradient NaN
        chosen = cast(x == self.spread(y, x), accumulator_dtype(x.dtype))
        share = _divided(g, reshape(Sum(self.axes, True)(chosen), g.shape))
        return (cast(chosen, x.dtype) * self.spread(cast(share, x.dtype), x),)


class Max(Extreme):
    """The largest element over axes; NaN wins."""

    ufunc = np.maximum


class Min(Extreme):
    """The smallest element over axes; NaN wins."""

    ufunc = np.minimum


@rounded_once
def _divided(g: Expr, count: Any) -> Expr:
    """Return a gradient divided by a number of elements, which float16 may not hold."""
    share: Expr = g / count
    return share


def _reduce(
    operation_class: type[Reduction],
    x: Any,
    axis: int | tuple[int, ...] | None,
    keepdims: bool,
    policies: Items = NO_POLICIES,
) -> Expr:
    if not isinstance(x, Expr):
        (x,) = as_operands((x,))
    rank = len(x.tensor_type.shape)
    if axis is None or type(axis) is int:
        operation = _over_axis(operation_class, axis, rank, keepdims)
    else:
        operation = _over(operation_class, axis, rank, keepdims)
    return operation(x, policies=policies)


def _over(operation_class: type[Reduction], axis: int | tuple[int, ...] | None, rank: int, keepdims: bool) -> Reduction:
    """Return the reduction over axes of an operand of a rank."""
    if not rank and axis in (0, -1) and operation_class is not Mean:  # NumPy's ufuncs take a scalar for a vector of one
        axis = ()
    return operation_class(normalize_axes(axis, rank, operation_class.name), keepdims)


_over_axis = functools.lru_cache(maxsize=256, typed=True)(_over)
"""the same for one axis or all of them; typed, because True and 1 are equal keys, and are different attributes"""


@public
def sum(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Sum over axes, over all of them for None; over no axis, (), return ``x`` itself.

    ``keepdims`` keeps the axes with size 1. AccumulationPolicy can ask for a product, or a wider dtype. Example:
    ``ex.sum(x, axis=1)`` of (n, m) is (n,).

    >>> x = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ex.evaluate(ex.sum(x, axis=0)), ex.sum(x, axis=0, keepdims=True).shape
    (array([4., 6.]), (1, 2))
    """
    return _reduce(Sum, x, axis, keepdims, policies)


@public
def mean(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Average over axes, over all of them for None; over no axis, (), return ``x`` itself.

    Integers give float64; halves are summed in single precision. The mean of nothing is NaN.

    >>> float(ex.mean(np.array([1, 2])))
    1.5
    """
    return _reduce(Mean, x, axis, keepdims, policies)


@public
def max(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Take the largest element over axes, over all of them for None; NaN wins.

    Equal largest elements share the gradient. Raises OperandError if an axis is empty.

    >>> x = ex.tensor([3.0, 3.0, 1.0])
    >>> ex.evaluate([ex.max(x), ex.grad(ex.max(x), x)])
    [array(3.), array([0.5, 0.5, 0. ])]
    """
    return _reduce(Max, x, axis, keepdims)


@public
def min(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Take the smallest element over axes, over all of them for None; NaN wins. Example: see ``ex.max``."""
    return _reduce(Min, x, axis, keepdims)


@public
def prod(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Multiply the elements over axes, over all of them for None.

    The gradient of an element is the product of the others, exact where one of them is 0.

    >>> x = ex.tensor([0.0, 2.0, 3.0])
    >>> ex.evaluate([ex.prod(x), ex.grad(ex.prod(x), x)])
    [array(0.), array([6., 0., 0.])]
    """
    return _reduce(Prod, x, axis, keepdims, policies)


@public
def all(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Test whether all elements over axes are not 0, over all of them for None.

    >>> ex.evaluate(ex.all(np.array([[1, 2], [0, 3]]), axis=1))
    array([ True, False])
    """
    return _reduce(All, x, axis, keepdims)


@public
def any(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Test whether any element over axes is not 0, over all of them for None. Example: see ``ex.all``."""
    return _reduce(AnyOf, x, axis, keepdims)
