"""Reductions: sums, means and extrema over axes.

Each reduction declares the ufunc that combines partial results, so the plan can run its kernel block by block and fuse
elementwise operands into it. The functions have NumPy's names and therefore shadow built-in functions such as ``sum``.
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
"""ufunc → name of the equivalent array method, because GPU arrays support ``ufunc.reduce`` only for sums and
products"""


def reduce_array(
    ufunc: np.ufunc,
    x: Array,
    axes: tuple[int, ...],
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = None,
) -> Array:
    """Combine the elements of ``x`` along ``axes`` with ``ufunc``, starting from ``initial`` unless it is None."""
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
    """Base class of operations that combine elements along ``axes`` (counted from the front, ascending).

    If the reduced axes have no elements, a sum is 0, a product is 1, ``all`` is True and ``any`` is False; extrema
    raise an error. (ONNX: ReduceSum and similar; PNNX: torch.sum and similar.)
    """

    family = "reduction"
    axes: tuple[int, ...]
    keepdims: bool = False
    ufunc: ClassVar[np.ufunc]
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def result_shape(self, x: TensorType) -> Shape:
        """Return the result's shape: without the reduced axes, or with size 1 along them if ``keepdims`` is true."""
        if builtins.any(not 0 <= axis < x.rank for axis in self.axes):
            raise self.refuse((x,), f"the axes {self.axes} must be in 0 … {x.rank - 1}")
        if self.keepdims:
            return tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return tuple([size for axis, size in enumerate(x.shape) if axis not in self.axes])

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(self.result_shape(x), self.result_dtype(x.dtype), x.device)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the result's dtype for an operand of ``dtype``."""
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
        """Broadcast ``value``, which has the result's shape, along the reduced axes to the shape of ``x``."""
        kept = tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return broadcast_to(reshape(value, kept), x.shape)


@functools.cache
def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum of ``dtype``; as in NumPy, narrow integers give the platform's default integer."""
    # ask NumPy, so that the dtype cannot differ from NumPy's rules
    dtype_of_sum: np.dtype[Any] = np.sum(np.empty(0, dtype)).dtype
    return dtype_of_sum


class Sum(Adjustable, Reduction):
    """Sum over axes; as in NumPy, narrow integers are summed in the platform's default integer.

    A sum over no axes returns the operand unchanged, including any −0.0; every other sum starts from 0.0, as in NumPy.
    AccumulationPolicy selects another combining operation or a wider dtype.
    """

    linear = accumulates = True
    policies = (AccumulationPolicy.by, AccumulationPolicy.dtype)
    ufunc = np.add
    c_rows = ("sum({0})",)
    examples: ClassVar[tuple[Example, ...]] = (*EXAMPLES, Example(integers(2, 3, dtype="int32"), axes=(0,)))

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return sum_dtype(dtype)

    def with_policies(self, policies: Policies) -> Operation:
        """Return the operation that ``policies`` select: a product, or a sum with or without a wider dtype."""
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
    """Mean over axes; integers give a floating result.

    The mean of no elements is NaN; the mean over no axes is the operand.
    """

    linear = accumulates = True
    policies = (AccumulationPolicy.dtype,)
    ufunc = np.add
    c_rows = ("total = sum({0})", "total / {n}")

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return dtype if is_floating(dtype) or dtype.kind == "c" else np.dtype(np.float64)

    def kernel(self, out: Array, x: Array) -> Array:
        if not self.axes:
            np.copyto(out, x)
            return out
        count = math.prod([x.shape[axis] for axis in self.axes])
        if not count:
            # the mean of no elements is NaN as in NumPy, but without NumPy's warning
            out[...] = complex(np.nan, np.nan) if out.dtype.kind == "c" else np.nan
            return out
        np.add.reduce(x, axis=self.axes, keepdims=self.keepdims, dtype=out.dtype, out=out)
        return self.finalize(out, out, count)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        count = math.prod([x.shape[axis] for axis in self.axes])
        if type(self).kernel is not Mean.kernel or not self.axes or not count:
            return super().bind_kernel(out, x)
        add_up, divide = self._bound(out, x), np.divide
        # NumPy's ufuncs convert a 0-d array faster than a number; other devices accept only numbers
        divisor = np.array(count, out.dtype) if isinstance(out, np.ndarray) else count
        return lambda: divide(add_up(), divisor, out)

    def finalize(self, out: Array, joined: Array, count: int) -> Array:
        return np.divide(joined, count, out=out, casting="unsafe")

    def with_policies(self, policies: Policies) -> Operation:
        """Return the mean with the accumulation dtype set by ``policies``, if any."""
        return accumulating(self, policies)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        count = math.prod([x.shape[axis] for axis in self.axes])
        with np.errstate(over="ignore"):
            is_exact = float(x.dtype.type(count)) == count
        return (self.spread(g / count if is_exact else _divided(g, count), x),)


class Prod(Adjustable, Reduction):
    """Product over axes, with the same result dtype as a sum. Gradients are correct even if elements are 0."""

    ufunc = np.multiply
    accumulates = True
    policies = (AccumulationPolicy.dtype,)
    examples: ClassVar[tuple[Example, ...]] = (*EXAMPLES, Example(integers(2, 3, dtype="int32"), axes=(0,)))

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return sum_dtype(dtype)

    def with_policies(self, policies: Policies) -> Operation:
        """Return the product with the accumulation dtype set by ``policies``, if any."""
        return accumulating(self, policies)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        """Record g times the product of the other elements."""
        # an empty operand has no other elements
        if not x.size:
            return (self.spread(g, x),)
        return (_times_other_elements(self.spread(g, x), x, self.axes),)


@rounded_once
def _times_other_elements(g: Expr, x: Expr, axes: tuple[int, ...]) -> Expr:
    # the product tree needs the reduced axes as one last axis
    kept = tuple([axis for axis in range(x.ndim) if axis not in axes])
    order = kept + axes
    last = function("transpose")(x, order)
    rows = reshape(last, (*[x.shape[axis] for axis in kept], math.prod([x.shape[axis] for axis in axes])))
    others = reshape(products_of_others(rows), last.shape)
    gradient: Expr = g * function("inverse_transpose")(others, order)
    return gradient


class TruthReduction(Reduction, abstract=True):
    """Base class of operations that test whether elements along axes are nonzero."""

    nondifferentiable = "booleans have no derivative"
    idempotent = True

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(bool)


class All(TruthReduction):
    """Whether all elements along the axes are nonzero."""

    ufunc = np.logical_and


class AnyOf(TruthReduction):
    """Whether any element along the axes is nonzero."""

    name, ufunc = "any", np.logical_or


class Extreme(Reduction, abstract=True):
    """Base class of maximum and minimum; elements equal to the extremum share the gradient."""

    idempotent = True

    def infer(self, x: TensorType) -> TensorType:
        if builtins.any(x.shape[axis] == 0 for axis in self.axes if axis < x.rank):
            raise self.refuse((x,), "the reduced axes must have at least one element")
        return super().infer(x)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        # if the extremum is NaN, no element equals it, so dividing by 0 makes the gradient NaN
        chosen = cast(x == self.spread(y, x), accumulator_dtype(x.dtype))
        share = _divided(g, reshape(Sum(self.axes, True)(chosen), g.shape))
        return (cast(chosen, x.dtype) * self.spread(cast(share, x.dtype), x),)


class Max(Extreme):
    """Maximum over axes; NaN if an element is NaN."""

    ufunc = np.maximum
    c_rows = ("max({0})",)


class Min(Extreme):
    """Minimum over axes; NaN if an element is NaN."""

    ufunc = np.minimum
    c_rows = ("min({0})",)


@rounded_once
def _divided(g: Expr, count: Any) -> Expr:
    """Divide ``g`` by ``count``, a number of elements that may exceed float16."""
    divided: Expr = g / count
    return divided


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
    if (
        not rank and axis in (0, -1) and operation_class is not Mean
    ):  # NumPy's ufuncs treat a scalar as a vector of one element
        axis = ()
    return operation_class(normalize_axes(axis, rank, operation_class.name), keepdims)


_over_axis = functools.lru_cache(maxsize=256, typed=True)(_over)
"""results of ``_over`` for one axis or None; the cache is typed, because True and 1 are equal keys but different
attributes"""


@public
def sum(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Sum over axes, or over all axes if ``axis`` is None; if it is (), return ``x`` itself.

    ``keepdims`` keeps the reduced axes with size 1. AccumulationPolicy can select a product or a wider dtype.

    >>> x = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ex.evaluate(ex.sum(x, axis=0)), ex.sum(x, axis=0, keepdims=True).shape
    (array([4., 6.]), (1, 2))
    """
    return _reduce(Sum, x, axis, keepdims, policies)


@public
def mean(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Average over axes, or over all axes if ``axis`` is None; if it is (), return ``x`` itself.

    Integers give float64; half precision is summed in single precision. The mean of no elements is NaN.

    >>> float(ex.mean(np.array([1, 2])))
    1.5
    """
    return _reduce(Mean, x, axis, keepdims, policies)


@public
def max(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Return the maximum over axes, or over all axes if ``axis`` is None; NaN if an element is NaN.

    Equal maxima share the gradient. Raises OperandError if an axis is empty.

    >>> x = ex.tensor([3.0, 3.0, 1.0])
    >>> ex.evaluate([ex.max(x), ex.grad(ex.max(x), x)])
    [array(3.), array([0.5, 0.5, 0. ])]
    """
    return _reduce(Max, x, axis, keepdims)


@public
def min(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Return the minimum over axes, or over all axes if ``axis`` is None; NaN if an element is NaN.

    Example: see ``ex.max``.
    """
    return _reduce(Min, x, axis, keepdims)


@public
def prod(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = NO_POLICIES
) -> Expr:
    """Multiply the elements along axes, or along all axes if ``axis`` is None.

    The gradient of an element is the product of the other elements; it is correct even if some of them are 0.

    >>> x = ex.tensor([0.0, 2.0, 3.0])
    >>> ex.evaluate([ex.prod(x), ex.grad(ex.prod(x), x)])
    [array(0.), array([6., 0., 0.])]
    """
    return _reduce(Prod, x, axis, keepdims, policies)


@public
def all(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Test whether all elements are nonzero along axes, or along all axes if ``axis`` is None.

    >>> ex.evaluate(ex.all(np.array([[1, 2], [0, 3]]), axis=1))
    array([ True, False])
    """
    return _reduce(All, x, axis, keepdims)


@public
def any(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Test whether any element is nonzero along axes, or along all axes if ``axis`` is None.

    Example: see ``ex.all``.
    """
    return _reduce(AnyOf, x, axis, keepdims)
