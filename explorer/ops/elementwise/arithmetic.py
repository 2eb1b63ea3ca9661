"""Arithmetic and comparisons of two or more tensors, elementwise, with NumPy's broadcasting.

Most are NumPy ufuncs, so their class bodies hold only the flags that rewrite rules read and the gradient. Gradients are
written with the same operations, so that they can be differentiated again.
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
_TRUTHS = (
    Example(integers(2, 3, high=2, dtype="bool"), integers(3, high=2, dtype="bool")),
    Example(real(2, 3), integers(3, high=2)),
)
_STEPS = "comparisons are constant wherever they have a derivative"


class Add(Ufunc):
    """Sum, a + b; integers wrap around, booleans are joined by or, as in NumPy."""

    ufunc, linear, commutative, associative = np.add, True, True, True
    examples = (*PAIRS, Example(integers(3), integers(3)))

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g, g


class Subtract(Ufunc):
    """Difference, a − b."""

    ufunc, linear, examples = np.subtract, True, PAIRS

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g, -g


class Multiply(Ufunc):
    """Elementwise product, a · b, so that 0 · ∞ is NaN. The gradients are g · b and g · a."""

    ufunc, linear, commutative, associative, examples = np.multiply, True, True, True, PAIRS

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g * b, g * a


class Divide(Ufunc):
    """Quotient, a / b; ±∞ or NaN for b = 0, and floating for integers. The gradients are g / b and −g · y / b."""

    ufunc, weight, examples = np.divide, 4, POSITIVE_PAIRS

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return g / b, -g * y / b


class Power(Ufunc):
    """Power, aᵇ; the gradient for b needs a ≥ 0, and is 0 where a is 0 and b is not negative.

    The gradients are g · b · aᵇ⁻¹ and g · aᵇ · log a. A constant b has none, and is written into the gradient as a
    number: then rules simplify it (2 · a of a²), and no logarithm is computed.
    """

    ufunc, weight, examples = np.power, 2 * EXPENSIVE, POSITIVE_PAIRS

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr | None]:
        if isinstance(b.operation, Full):
            return g * _power_slope(a, b.operation.value), None
        lower = where(logical_and(a == 0, b == 0), 1, b - 1)  # 0 to the power −1 would make the gradient of 0⁰ NaN
        # log 0 = −∞ must not meet the factor aᵇ = 0: aᵇ · log a tends to 0, and 0 · ∞ would be NaN. Both operands of
        # ``where`` are computed, so the logarithm sees a 1 there instead
        zero = logical_and(a == 0, b >= 0)
        return g * b * a**lower, where(zero, 0, g * y * function("log")(where(zero, 1, a)))


def _power_slope(a: Expr, exponent: Number) -> Expr:
    """Record the derivative of a to a constant power; that of a⁰ is 0, also where a is 0."""
    if exponent == 2:
        return 2 * a
    return exponent * a ** (exponent - 1) if exponent else full((), 0, a.dtype, a.device)


class Maximum(Ufunc):
    """The larger of a and b; NaN wins. Where they are equal each gets half of the gradient.

    Half each is the mean of the one-sided derivatives, and keeps max(x, x) = x: its gradient is g.
    """

    ufunc, commutative, associative, idempotent, monotone, examples = np.maximum, True, True, True, True, APART

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return _shared(g, a, b)


class Minimum(Ufunc):
    """The smaller of a and b; NaN wins. Where they are equal each gets half of the gradient."""

    ufunc, commutative, associative, idempotent, monotone, examples = np.minimum, True, True, True, True, APART

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        second, first = _shared(g, a, b)
        return first, second


def _shared(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return the gradient for the larger of a and b, and for the other."""
    half = where(a == b, 0.5 * g, 0)
    return where(a > b, g, half), where(a < b, g, half)


class Comparison(Ufunc, abstract=True):
    """Base of comparisons, True or False for each pair of elements."""

    nondifferentiable = _STEPS
    examples = (*PAIRS, Example(integers(3), integers(3)))
    reuses_operand = False

    def beyond(self, number: int, computed: np.dtype[Any]) -> np.generic:
        # NumPy compares an int beyond a dtype exactly; a dtype that holds it, or ±∞ beyond all of them, gives the same
        # truth
        smallest_dtype = np.min_scalar_type(number)
        return np.float64(math.copysign(math.inf, number)) if smallest_dtype.hasobject else smallest_dtype.type(number)


class Equal(Comparison):
    """a = b."""

    ufunc, commutative, takes_text = np.equal, True, True


class NotEqual(Comparison):
    """a ≠ b."""

    ufunc, commutative, takes_text = np.not_equal, True, True


class Less(Comparison):
    """a < b."""

    ufunc = np.less


class LessEqual(Comparison):
    """a ≤ b."""

    ufunc = np.less_equal


class Greater(Comparison):
    """a > b."""

    ufunc = np.greater


class GreaterEqual(Comparison):
    """a ≥ b."""

    ufunc = np.greater_equal


class Logic(Ufunc, abstract=True):
    """Base of logical operations; a number is true if it is not 0."""

    nondifferentiable = "truth values have no derivative"


class LogicalAnd(Logic):
    """Whether a and b both hold."""

    ufunc, commutative, associative, idempotent, examples = np.logical_and, True, True, True, _TRUTHS


class LogicalOr(Logic):
    """Whether a or b holds, or both."""

    ufunc, commutative, associative, idempotent, examples = np.logical_or, True, True, True, _TRUTHS


class LogicalXor(Logic):
    """Whether one of a and b holds, and the other does not."""

    ufunc, commutative, associative, examples = np.logical_xor, True, True, _TRUTHS


class LogicalNot(Logic):
    """Whether a does not hold."""

    ufunc, involution = np.logical_not, True
    examples = (Example(integers(2, 3, high=2, dtype="bool")), Example(real(3)))


_BITS = {np.dtype(name).char: np.dtype(f"i{np.dtype(name).itemsize}") for name in ("f2", "f4", "f8", "i2", "i4", "i8")}
"""dtype of elements → the integer of their size"""


class Select(Elementwise):
    """Choice: a where the condition is true, b elsewhere."""

    takes_text, text_operands = True, slice(1, None)
    name = "where"
    reuses_operand = True
    examples = (Example(integers(2, 3, high=2, dtype="bool"), real(2, 3), real(3)),)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        if dtypes[0].kind != "b":
            raise self.refuse_dtypes(dtypes, "the condition is boolean", "compare it first: x != 0")
        return np.result_type(*dtypes[1:])

    def kernel(self, out: Array, condition: Array, a: Array, b: Array) -> Array:
        bits = _BITS.get(out.dtype.char)
        if bits is None or not a.dtype == b.dtype == out.dtype or condition.dtype != np.bool_:
            np.copyto(out, np.where(condition, a, b), casting="same_kind")
            return out
        # On the elements' bits, which is exact, because NumPy's choices branch on each element: ten times as slow
        # where the condition is irregular, as that of a relu's gradient is.
        chosen, other = a.view(bits), b.view(bits)
        if not other.ndim and not other:
            np.multiply(chosen, condition.astype(bits), out=out.view(bits))
        elif not chosen.ndim and not chosen:
            np.multiply(other, np.logical_not(condition).astype(bits), out=out.view(bits))
        else:
            differing = np.bitwise_xor(chosen, other, out=np.empty_like(out, dtype=bits))
            np.bitwise_xor(other, np.multiply(differing, condition.astype(bits), out=differing), out=out.view(bits))
        return out

    def bind_kernel(self, out: Array, condition: Array, a: Array, b: Array) -> Callable[[], Any]:
        bits = _BITS.get(out.dtype.char)
        if bits is None or not a.dtype == b.dtype == out.dtype or condition.dtype != np.bool_ or b.ndim:
            return super().bind_kernel(out, condition, a, b)
        chosen, number, target = a.view(bits), b.view(bits), out.view(bits)

        def choose() -> Array:
            if number:
                return self.kernel(out, condition, a, b)
            np.multiply(chosen, condition, target)
            return out

        return choose

    def gradient(self, g: Expr, y: Expr, condition: Expr, a: Expr, b: Expr) -> tuple[None, Expr, Expr]:
        return None, where(condition, g, 0), where(condition, 0, g)


@public
def where(condition: Any, a: Any, b: Any) -> Expr:
    """Choose elements of a where the condition is true (a number: not 0), of b elsewhere; all three are broadcast.

    Numbers take the dtype of the other operand. Example: ``ex.where(x > 0, x, 0.0)``.

    Both operands are computed everywhere, so that a NaN or an error of the operand that is not chosen does no harm to
    the value; its gradient is 0 · its derivative, which is NaN where that is ∞. (ONNX: Where; PNNX: torch.where.)

    >>> x = ex.tensor([-1.0, 2.0])
    >>> ex.evaluate(ex.where(x > 0, x, 0.0))
    array([0., 2.])
    """
    dtype = getattr(condition, "dtype", None)
    # np.where takes numbers for conditions, too; other dtypes are left to Select
    if type(condition) in WEAK:
        condition = np.asarray(bool(condition))
    elif isinstance(dtype, np.dtype) and dtype.kind in "iufc":
        condition = not_equal(condition, 0)
    return Select()(condition, a, b)


class AddN(Elementwise):
    """Sum of any number of tensors, from left to right.

    The backward pass sums the gradients of a value with many readers so: one kernel with one result, where a chain of
    additions would store each partial sum.
    """

    linear, commutative, associative = True, True, True
    examples = (Example(real(2, 3), real(2, 3), real(2, 3)), Example(real(3)))

    def infer(self, *types: TensorType) -> TensorType:
        if not types:
            raise self.refuse(types, "a sum must have at least one term")
        return super().infer(*types)

    def kernel(self, out: Array, *terms: Array) -> Array:
        if len(terms) == 1:
            np.copyto(out, terms[0])
            return out
        # from left to right, as a chain of + would add: equal bits
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
    """Interpolation, a·weight + b·(1 − weight): a for weight 1, b for weight 0 (MetaNN: Interpolate)."""

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
            raise self.refuse_dtypes(dtypes, "operands are numbers", "choose between truth values with ex.where")
        return dtype

    def kernel(self, out: Array, a: Array, b: Array, weight: Array) -> Array:
        rest = b * np.subtract(1, weight, dtype=np.result_type(weight, out.dtype))
        np.multiply(a, weight, out=out)
        np.add(out, rest, out=out)
        return out

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr, weight: Expr) -> tuple[Expr, Expr, Expr]:
        return g * weight, g * (1 - weight), g * (a - b)


interpolate = Interpolate()
