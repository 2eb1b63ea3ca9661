"""Softmax, its gradient, log-softmax and log-sum-exp.

They are operations instead of compositions of exp, sum and divide, because a single kernel processes a row while it is
in the cache. The kernels subtract the row's maximum first, so exponentials cannot overflow. log(softmax(x)) can lose
digits or give −∞, so rewrite rules replace it with ``log_softmax``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, normalize_axes
from explorer.ops.base import EXPENSIVE, broadcast_to, c_literal, float_dtype, reshape
from explorer.ops.elementwise.unary import exp
from explorer.ops.reduction.reduce import Sum, reduce_array
from explorer.ops.reduction.row_extremes import row_extremes

__all__ = ["log_softmax", "logsumexp", "softmax", "softmax_gradient"]

_EXAMPLES = (Example(real(2, 3), axes=(1,)), Example(real(4), axes=(0,)), Example(real(2, 3, 2), axes=(1, 2)))


class Normalization(Operation, abstract=True):
    """Base class of operations that normalize ``x`` along ``axes`` and keep its shape."""

    family = "normalization"
    axes: tuple[int, ...]
    weight: ClassVar[int] = EXPENSIVE + 4
    accumulates = True
    examples: ClassVar[tuple[Example, ...]] = _EXAMPLES

    def infer(self, x: TensorType) -> TensorType:
        if any(not 0 <= axis < x.rank for axis in self.axes) or not self.axes:
            raise self.refuse((x,), f"the axes {self.axes} must be in 0 … {x.rank - 1}, with at least one axis")
        return x.with_dtype(float_dtype(x.dtype))

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return self.axes

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return type(self)(tuple([axis + 1 for axis in self.axes]))(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return self.weight * types[0].size


@functools.cache
def _largest_finite(dtype: np.dtype[Any]) -> Any:
    return np.finfo(dtype).max


def _finite_maximum(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the maximum over ``axes``, with size 1 along them; ±∞ are replaced with the largest finite numbers.

    The result is subtracted from ``x``. Subtracting a finite number leaves ±∞ unchanged, whereas ∞ − ∞ would be NaN.
    """
    largest_finite = _largest_finite(x.dtype)
    # the initial value is needed because empty rows have no maximum
    largest = np.empty(_keepdims_shape(x, axes), x.dtype, like=x)
    reduce_array(np.maximum, x, axes, largest, keepdims=True, initial=-largest_finite)
    finite: Array = np.minimum(largest, largest_finite)
    return finite


class Softmax(Normalization):
    """eˣ / Σ eˣ over axes; the maximum is subtracted first."""

    range = "unit"
    c_rows = (
        "largest = largest({0})",
        "limit = finite_{t}(largest)",
        "power = exp_nonpositive_{t}({0} - limit)",
        "total = sum(power)",
        "power / total",
    )

    def kernel(self, out: Array, x: Array) -> Array:
        with np.errstate(invalid="ignore"):  # ∞ / ∞ and 0 / 0 are NaN, as in the formula
            return _softmax(out, x.astype(out.dtype, copy=False), self.axes)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        if x.dtype != out.dtype:
            return super().bind_kernel(out, x)
        if not isinstance(x, np.ndarray):  # other devices' ufunc reductions cannot write into existing memory
            return functools.partial(_softmax, out, x, self.axes)
        return _bound_softmax(out, x, self.axes)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (SoftmaxGradient(self.axes)(g, y),)


class SoftmaxGradient(Operation):
    """Gradient of a softmax with output y: y·(g − Σ g·y) (MetaNN: SoftmaxGrad)."""

    family = "normalization"
    axes: tuple[int, ...]
    accumulates = True
    examples = (Example(real(2, 3), real(2, 3, low=0.1, high=0.6), axes=(1,)),)
    c_rows = ("product = {0} * {1}", "inner = sum(product)", "{1} * ({0} - inner)")

    def infer(self, g: TensorType, y: TensorType) -> TensorType:
        if g.shape != y.shape:
            raise self.refuse((g, y), "the gradient must have the output's shape")
        Softmax(self.axes).infer(y)
        return TensorType(y.shape, float_dtype(np.result_type(g.dtype, y.dtype)))

    def kernel(self, out: Array, g: Array, y: Array) -> Array:
        inner = np.sum(g * y, axis=self.axes, keepdims=True)
        np.multiply(y, np.subtract(g, inner, dtype=out.dtype), out=out)
        return out

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return self.axes

    def gradient(self, upstream: Expr, result: Expr, g: Expr, y: Expr) -> tuple[Expr, Expr]:
        inner = Sum(self.axes, True)(g * y)
        weighted = Sum(self.axes, True)(upstream * y)
        return y * (upstream - weighted), upstream * (g - inner) - g * weighted

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, y: Expr) -> Expr:
        g, y = (
            x if is_batched else broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip((g, y), batched, strict=True)
        )
        return SoftmaxGradient(tuple([axis + 1 for axis in self.axes]))(g, y)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 4 * types[0].size


class LogSoftmax(Normalization):
    """x − log Σ eˣ over axes; finite if x is finite."""

    c_rows = (
        "largest = largest({0})",
        "limit = finite_{t}(largest)",
        "shifted = {0} - limit",
        "power = exp_nonpositive_{t}(shifted)",
        "total = sum(power)",
        "logarithm = log_{t}(total)",
        "shifted - logarithm",
    )

    def kernel(self, out: Array, x: Array) -> Array:
        # as in the formula, the sum of a row of −∞ is 0, so log 0 = −∞ and −∞ − (−∞) = NaN
        with np.errstate(divide="ignore", invalid="ignore"):
            return _log_softmax(out, x.astype(out.dtype, copy=False), self.axes)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        if x.dtype != out.dtype:
            return super().bind_kernel(out, x)
        return _bound_log_softmax(out, x, self.axes)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g - exp(y) * Sum(self.axes, True)(g),)


def _softmax(out: Array, x: Array, axes: tuple[int, ...]) -> Array:
    np.subtract(x, _finite_maximum(x, axes), out)
    np.exp(out, out)
    np.divide(out, np.add.reduce(out, axis=axes, keepdims=True), out)
    return out


def _bound_softmax(out: Array, x: Array, axes: tuple[int, ...]) -> Callable[[], Array]:
    shift = _bound_shift(out, x, axes)
    total = np.empty(_keepdims_shape(x, axes), x.dtype)
    compute_total = functools.partial(np.add.reduce, out, axes, None, total, True)
    exp, divide = np.exp, np.divide

    def run() -> Array:
        shift()
        exp(out, out)
        compute_total()
        divide(out, total, out)
        return out

    return run


def _bound_log_softmax(out: Array, x: Array, axes: tuple[int, ...]) -> Callable[[], Array]:
    shift = _bound_shift(out, x, axes)
    total = np.empty(_keepdims_shape(x, axes), x.dtype)
    compute_total: Any = np.add.reduce
    exp, log, subtract = np.exp, np.log, np.subtract

    def run() -> Array:
        shift()
        compute_total(exp(out), axes, None, total, True)
        log(total, total)
        subtract(out, total, out)
        return out

    return run


def _bound_shift(out: Array, x: Array, axes: tuple[int, ...]) -> Callable[[], None]:
    """Return a function that writes ``x`` minus its finite maximum over ``axes`` into ``out``."""
    largest_finite, largest = _largest_finite(x.dtype), np.empty(_keepdims_shape(x, axes), x.dtype)
    limit = np.array(largest_finite)
    find_largest = row_extremes(np.maximum, x, axes, largest, -largest_finite)
    if find_largest is None:
        find_largest = functools.partial(np.maximum.reduce, x, axes, None, largest, True, -largest_finite)
    minimum, subtract = np.minimum, np.subtract

    def shift() -> None:
        find_largest()
        minimum(largest, limit, out=largest)
        subtract(x, largest, out)

    return shift


def _keepdims_shape(x: Array, axes: tuple[int, ...]) -> list[int]:
    return [1 if axis in axes else size for axis, size in enumerate(x.shape)]


def _log_softmax(out: Array, x: Array, axes: tuple[int, ...]) -> Array:
    np.subtract(x, _finite_maximum(x, axes), out)
    total = np.add.reduce(np.exp(out), axis=axes, keepdims=True)
    np.subtract(out, np.log(total, total), out)
    return out


class LogSumExp(Operation):
    """log(scale · Σ eˣ) over axes, without overflow."""

    name = "logsumexp"
    family = "reduction"
    axes: tuple[int, ...]
    keepdims: bool = False
    scale: float = 1.0
    accumulates = True
    examples = (
        Example(real(2, 3), axes=(1,)),
        Example(real(2, 3), axes=(0, 1), keepdims=True),
        Example(real(2, 3), axes=(1,), scale=0.25),
    )

    @property
    def c_rows(self) -> tuple[str, ...]:  # type: ignore[override]
        """C lines; the scale is a factor of the sum."""
        scaled = "" if self.scale == 1 else f" * ({{t}}){c_literal(self.scale, 'f64')}"
        return (
            "largest = largest({0})",
            "limit = finite_{t}(largest)",
            "power = exp_nonpositive_{t}({0} - limit)",
            "total = sum(power)",
            f"log_{{t}}(total{scaled}) + limit",
        )

    def infer(self, x: TensorType) -> TensorType:
        type_ = Sum(self.axes, self.keepdims).infer(x)
        return type_.with_dtype(float_dtype(x.dtype))

    def kernel(self, out: Array, x: Array) -> Array:
        x = x.astype(out.dtype, copy=False)
        shift = _finite_maximum(x, self.axes)
        with np.errstate(divide="ignore"):  # the logarithm of an empty sum is −∞
            powers = np.sum(np.exp(x - shift), axis=self.axes, keepdims=True)
            total = np.log(powers if self.scale == 1 else powers * self.scale) + shift
        np.copyto(out, total.reshape(out.shape))
        return out

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return self.axes

    @property
    def combine_ufunc(self) -> np.ufunc | None:
        return np.logaddexp if self.scale == 1 else None

    def partial_reduce(self, out: Array, x: Array, axes: tuple[int, ...]) -> Array:
        return LogSumExp(axes, True).kernel(out, x)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        if not self.axes:  # without axes, the result is log eˣ
            return (g,)
        kept_shape = tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return (reshape(g, kept_shape) * Softmax(self.axes)(x),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return LogSumExp(tuple([axis + 1 for axis in self.axes]), self.keepdims, self.scale)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return (EXPENSIVE + 2) * types[0].size


def _over(operation_class: Any, x: Any, axis: int | tuple[int, ...] | None, **options: Any) -> Expr:
    (x,) = as_operands((x,))
    result: Expr = operation_class(normalize_axes(axis, x.ndim, operation_class.name), **options)(x)
    return result


@public
def softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Expr:
    """Compute eˣ / Σ eˣ over axes; the result has the shape of ``x``.

    Integers become floating. A row that contains NaN becomes NaN. An element ∞ becomes NaN, and the finite elements of
    its row become 0. An element −∞ becomes 0, or NaN if the whole row is −∞. The gradient is y · (g − Σ g · y) for the
    result y. (ONNX: Softmax; PNNX: nn.Softmax, F.softmax.)

    >>> ex.evaluate(ex.softmax(np.array([0.0, 0.0, -np.inf])))
    array([0.5, 0.5, 0. ])
    """
    return _over(Softmax, x, axis)


@public
def softmax_gradient(g: Any, y: Any, axis: int | tuple[int, ...] = -1) -> Expr:
    """Compute y·(g − Σ g·y) over axes for the result ``y`` of a softmax and its upstream gradient ``g``.

    >>> ex.evaluate(ex.softmax_gradient(np.array([1.0, 0.0]), np.array([0.5, 0.5])))
    array([ 0.25, -0.25])
    """
    g, y = as_operands((g, y))
    return SoftmaxGradient(normalize_axes(axis, y.ndim, "softmax_gradient"))(g, y)


@public
def log_softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Expr:
    """Compute the logarithm of softmax over axes in a numerically stable way.

    The result is finite if ``x`` is. The gradient is g − eʸ · Σ g for the result y. (ONNX: LogSoftmax; PNNX:
    nn.LogSoftmax, F.log_softmax.)

    >>> ex.evaluate(ex.log_softmax(np.array([0.0, -1000.0])))
    array([    0., -1000.])
    """
    return _over(LogSoftmax, x, axis)


@public
def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
    """Compute log Σ eˣ over axes, or over all axes if ``axis`` is None.

    The result over no elements is log 0 = −∞. The gradient is g times the softmax. (ONNX: ReduceLogSumExp; PNNX:
    torch.logsumexp.)

    >>> float(ex.logsumexp(np.array([1000.0, 1000.0])))
    1000.6931471805599
    """
    return _over(LogSumExp, x, axis, keepdims=keepdims)
