"""Elementwise arithmetic and comparisons of two or more tensors.

Most operations are NumPy ufuncs. Their classes define only the gradient, and the flags that rewrite rules read.
Gradients are composed of these operations too, so they can be differentiated again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import WEAK, Expr
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.registry import function, public
from explorer.core.types.tensor_type import Array, Number, TensorType
from explorer.ops.base import EXPENSIVE, Elementwise, Ufunc
from explorer.ops.creation.constants import Full, full

__all__ = [
    "add",
    "add_n",
    "divide",
    "equal",
    "greater",
    "greater_equal",
    "interpolate",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "not_equal",
    "power",
    "subtract",
    "where",
]

PAIRS = (
    Example(real(2, 3), real(2, 3)),
    Example(real(2, 3), real(3)),
    Example(real(), real(2, 1, 3)),
    Example(real(2, 1), real(1, 3)),
)
POSITIVE_PAIRS = (Example(real(2, 3, low=0.5, high=2.0), real(3, low=0.5, high=2.0)),)
APART = (Example(real(2, 3, low=0.5, high=1.0), real(3, low=-1.0, high=0.4)),)
_BOOLEANS = (
    Example(integers(2, 3, high=2, dtype="bool"), integers(3, high=2, dtype="bool")),
    Example(real(2, 3), integers(3, high=2)),
)
_NONDIFFERENTIABLE = "comparisons are constant wherever they have a derivative"


class Add(Ufunc):
    """Sum, a + b. As in NumPy, integers wrap around, and the sum of booleans is their logical or."""

    ufunc, linear, commutative, associative, c = np.add, True, True, True, "{0} + {1}"
    examples = (*PAIRS, Example(integers(3), integers(3)))

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g, g


class Subtract(Ufunc):
    """Difference, a − b."""

    ufunc, linear, examples, c = np.subtract, True, PAIRS, "{0} - {1}"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g, -g


class Multiply(Ufunc):
    """Elementwise product, a · b; 0 · ∞ is NaN. The gradients are g · b and g · a."""

    ufunc, linear, commutative, associative, examples = np.multiply, True, True, True, PAIRS
    c = "{0} * {1}"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g * b, g * a


class Divide(Ufunc):
    """Quotient, a / b; ±∞ or NaN for b = 0. Integers give a floating result. The gradients are g / b and −g · y / b."""

    ufunc, weight, examples, c = np.divide, 4, POSITIVE_PAIRS, "{0} / {1}"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g / b, -g * y / b


class Power(Ufunc):
    """Power, aᵇ. The gradient of b requires a ≥ 0; it is 0 if a is 0 and b is not negative.

    The gradients are g · b · aᵇ⁻¹ and g · aᵇ · log a. A constant b has no gradient, so no logarithm is computed, and
    rules can simplify the gradient of a (2 · a for a²).
    """

    ufunc, weight, examples = np.power, 2 * EXPENSIVE, POSITIVE_PAIRS
    c = "pow_{t}({0}, {1})"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr | None]:
        if isinstance(b.operation, Full):
            return g * _power_slope(a, b.operation.value), None
        lower = where(logical_and(a == 0, b == 0), 1, b - 1)  # 0⁻¹ would make the gradient of 0⁰ NaN
        # aᵇ · log a tends to 0 as a tends to 0, but 0 · log 0 would be NaN. ``where`` computes both of its operands, so
        # the logarithm gets 1 instead of 0.
        zero = logical_and(a == 0, b >= 0)
        return g * b * a**lower, where(zero, 0, g * y * function("log")(where(zero, 1, a)))


def _power_slope(a: Expr, exponent: Number) -> Expr:
    """Record the derivative of a to the power of the number ``exponent``; the derivative of a⁰ is 0 even at a = 0."""
    if exponent == 2:
        return 2 * a
    return exponent * a ** (exponent - 1) if exponent else full((), 0, a.dtype, a.device)


class Maximum(Ufunc):
    """Maximum of a and b; NaN if either is NaN. If a and b are equal, each gets half of the gradient.

    One half is the mean of the one-sided derivatives, and gives max(x, x) = x the correct gradient g.
    """

    ufunc, commutative, associative, idempotent, monotone, examples = np.maximum, True, True, True, True, APART
    c = "maximum_{t}({0}, {1})"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return _max_gradients(g, a, b)


class Minimum(Ufunc):
    """Minimum of a and b; NaN if either is NaN. If a and b are equal, each gets half of the gradient."""

    ufunc, commutative, associative, idempotent, monotone, examples = np.minimum, True, True, True, True, APART
    c = "minimum_{t}({0}, {1})"

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        second, first = _max_gradients(g, a, b)
        return first, second


def _max_gradients(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    half = where(a == b, 0.5 * g, 0)
    return where(a > b, g, half), where(a < b, g, half)


class Comparison(Ufunc, abstract=True):
    """Base class of comparisons; their results are booleans."""

    nondifferentiable = _NONDIFFERENTIABLE
    examples = (*PAIRS, Example(integers(3), integers(3)))
    reuses_operand = False

    def convert_out_of_range_int(self, number: int, computed: np.dtype[Any]) -> np.generic:
        # NumPy compares an int exactly even if it is out of range for the other dtype. Converting the int to a dtype
        # that can represent it, or else to ±∞, gives the same result.
        smallest_dtype = np.min_scalar_type(number)
        return np.float64(math.copysign(math.inf, number)) if smallest_dtype.hasobject else smallest_dtype.type(number)


class Equal(Comparison):
    """a = b."""

    ufunc, commutative, accepts_strings, c = np.equal, True, True, "{0} == {1}"


class NotEqual(Comparison):
    """a ≠ b."""

    ufunc, commutative, accepts_strings, c = np.not_equal, True, True, "{0} != {1}"


class Less(Comparison):
    """a < b."""

    ufunc, c = np.less, "{0} < {1}"


class LessEqual(Comparison):
    """a ≤ b."""

    ufunc, c = np.less_equal, "{0} <= {1}"


class Greater(Comparison):
    """a > b."""

    ufunc, c = np.greater, "{0} > {1}"


class GreaterEqual(Comparison):
    """a ≥ b."""

    ufunc, c = np.greater_equal, "{0} >= {1}"


class Logic(Ufunc, abstract=True):
    """Base class of logical operations; nonzero numbers are true."""

    nondifferentiable = "booleans have no derivative"
    c_of_booleans = True


class LogicalAnd(Logic):
    """Whether a and b are both true."""

    ufunc, commutative, associative, idempotent, examples = np.logical_and, True, True, True, _BOOLEANS
    c = "{0} != 0 && {1} != 0"


class LogicalOr(Logic):
    """Whether at least one of a and b is true."""

    ufunc, commutative, associative, idempotent, examples = np.logical_or, True, True, True, _BOOLEANS
    c = "{0} != 0 || {1} != 0"


class LogicalXor(Logic):
    """Whether exactly one of a and b is true."""

    ufunc, commutative, associative, examples = np.logical_xor, True, True, _BOOLEANS


class LogicalNot(Logic):
    """Whether a is false."""

    ufunc, involution, c = np.logical_not, True, "{0} == 0"
    examples = (Example(integers(2, 3, high=2, dtype="bool")), Example(real(3)))


_BITS = {np.dtype(name).char: np.dtype(f"i{np.dtype(name).itemsize}") for name in ("f2", "f4", "f8", "i2", "i4", "i8")}
"""dtype character → signed integer dtype of the same size"""


class Select(Elementwise):
    """Elements of a where the condition is true, and of b elsewhere."""

    accepts_strings, string_operands = True, slice(1, None)
    name = "where"
    reuses_operand = True
    c, c_of_booleans = "{0} ? {1} : {2}", True
    examples = (Example(integers(2, 3, high=2, dtype="bool"), real(2, 3), real(3)),)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        if dtypes[0].kind != "b":
            raise self.refuse_dtypes(dtypes, "the condition must be boolean", "compare it first: x != 0")
        return np.result_type(*dtypes[1:])

    def kernel(self, out: Array, condition: Array, a: Array, b: Array) -> Array:
        bits = _BITS.get(out.dtype.char)
        if bits is None or not a.dtype == b.dtype == out.dtype or condition.dtype != np.bool_:
            np.copyto(out, np.where(condition, a, b), casting="same_kind")
            return out
        # Select by bit operations on the elements, which is exact. NumPy's ``where`` uses a branch for each element,
        # which takes ten times as long for irregular conditions, as in the gradient of relu.
        selected, other = a.view(bits), b.view(bits)
        if not other.ndim and not other:
            np.multiply(selected, condition.astype(bits), out=out.view(bits))
        elif not selected.ndim and not selected:
            np.multiply(other, np.logical_not(condition).astype(bits), out=out.view(bits))
        else:
            differing = np.bitwise_xor(selected, other, out=np.empty_like(out, dtype=bits))
            np.bitwise_xor(other, np.multiply(differing, condition.astype(bits), out=differing), out=out.view(bits))
        return out

    def bind_kernel(self, out: Array, condition: Array, a: Array, b: Array) -> Callable[[], Any]:
        bits = _BITS.get(out.dtype.char)
        if bits is None or not a.dtype == b.dtype == out.dtype or condition.dtype != np.bool_ or b.ndim:
            return super().bind_kernel(out, condition, a, b)
        selected, number, target = a.view(bits), b.view(bits), out.view(bits)

        def select() -> Array:
            if number:
                return self.kernel(out, condition, a, b)
            np.multiply(selected, condition, target)
            return out

        return select

    def gradient(self, g: Expr, y: Expr, condition: Expr, a: Expr, b: Expr) -> tuple[None, Expr, Expr]:
        return None, where(condition, g, 0), where(condition, 0, g)


@public
def where(condition: Any, a: Any, b: Any) -> Expr:
    """Select elements of a where the condition is true (or nonzero), and elements of b elsewhere.

    The condition, a and b are broadcast. A Python number gets the dtype of the other operand.

    All elements of a and b are computed. A NaN in an unselected element does not affect the result, but the gradient of
    an unselected element is 0 times its derivative, so it is NaN if the derivative is infinite. (ONNX: Where; PNNX:
    torch.where.)

    >>> x = ex.tensor([-1.0, 2.0])
    >>> ex.evaluate(ex.where(x > 0, x, 0.0))
    array([0., 2.])
    """
    dtype = getattr(condition, "dtype", None)
    # np.where accepts numeric conditions too; Select rejects other dtypes
    if type(condition) in WEAK:
        condition = np.asarray(bool(condition))
    elif isinstance(dtype, np.dtype) and dtype.kind in "iufc":
        condition = not_equal(condition, 0)
    return Select()(condition, a, b)


class AddN(Elementwise):
    """Sum of any number of tensors, added from left to right.

    The backward pass uses it to add the gradients of a value with several uses. One kernel computes the whole sum,
    whereas a chain of additions would store each partial sum.
    """

    linear, commutative, associative = True, True, True
    examples = (Example(real(2, 3), real(2, 3), real(2, 3)), Example(real(3)))

    def c_expression(self, suffix: str, *operands: str) -> str:
        return " + ".join(operands)

    def infer(self, *types: TensorType) -> TensorType:
        if not types:
            raise self.refuse(types, "a sum must have at least one term")
        return super().infer(*types)

    def kernel(self, out: Array, *terms: Array) -> Array:
        if len(terms) == 1:
            np.copyto(out, terms[0])
            return out
        # from left to right, so that the result is exactly the same as for a chain of +
        np.add(terms[0], terms[1], out=out)
        for term in terms[2:]:
            np.add(out, term, out=out)
        return out

    def gradient(self, g: Expr, y: Expr, *terms: Expr) -> tuple[Expr, ...]:
        return (g,) * len(terms)

    def flops(self, result: Any, *types: TensorType) -> int:
        return (len(types) - 1) * int(result.size)


add, subtract, multiply, divide, power = Add(), Subtract(), Multiply(), Divide(), Power()
maximum, minimum = Maximum(), Minimum()
equal, not_equal, less, less_equal = Equal(), NotEqual(), Less(), LessEqual()
logical_and, logical_or, logical_xor, logical_not = LogicalAnd(), LogicalOr(), LogicalXor(), LogicalNot()
greater, greater_equal = Greater(), GreaterEqual()
add_n = AddN()


class Interpolate(Elementwise):
    """Interpolation, a·weight + b·(1 − weight) (MetaNN: Interpolate)."""

    reuses_operand = True
    weight, examples = (
        4,
        (
            Example(real(2, 3), real(2, 3), real(2, 3, low=0.0)),
            Example(real(2, 1), real(3), real()),
            Example(real(), real(2, 2), real(2, low=0.0)),
        ),
    )

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        dtype = np.result_type(*dtypes)
        if dtype.kind == "b":
            raise self.refuse_dtypes(dtypes, "operands must be numeric", "choose between booleans with ex.where")
        return dtype

    def kernel(self, out: Array, a: Array, b: Array, weight: Array) -> Array:
        rest = b * np.subtract(1, weight, dtype=np.result_type(weight, out.dtype))
        np.multiply(a, weight, out=out)
        np.add(out, rest, out=out)
        return out

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr, weight: Expr) -> tuple[Expr, Expr, Expr]:
        return g * weight, g * (1 - weight), g * (a - b)


interpolate = Interpolate()
