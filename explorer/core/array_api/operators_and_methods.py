"""Python's operators and NumPy's array methods on expressions.

``Expr`` inherits them. Each method looks its operation up by name in the registry, because operations are classes that
are built on expressions and cannot be imported here.

Methods are written out, not generated in a loop: editors complete them, and type checkers know their arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError
from explorer.core.registry import functions

if TYPE_CHECKING:
    from explorer.core.ir.expr import Expr
    from explorer.core.policy import Items


def _apply(name: str, *operands: Any, **attributes: Any) -> Expr:
    expression: Expr = functions[name](*operands, **attributes)
    return expression


def _binary(name: str, left: Any, right: Any) -> Expr:
    try:
        expression: Expr = functions[name](left, right)
    except OperandError:
        # NumPy's protocol: an object of a class with ``__array_ufunc__ = None`` answers for both operands itself.
        if None in (getattr(left, "__array_ufunc__", 0), getattr(right, "__array_ufunc__", 0)):
            return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand then
        raise
    return expression


def _logic(connective: str, left: Any, right: Any) -> Expr:
    """Record the logical operation for two booleans, the bitwise one otherwise, as NumPy does."""
    return _apply(f"{'logical' if _is_truth(left) and _is_truth(right) else 'bitwise'}_{connective}", left, right)


# ``True & x`` is logical, as in NumPy: a Python bool has no dtype, but is a truth value.
def _is_truth(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return type(value) is bool if dtype is None else dtype.kind == "b"


@named_methods
class Operators:
    """The arithmetic of expressions: every method records one operation and computes nothing."""

    __slots__ = ()

    def __add__(self, other: Any) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _binary("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _binary("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _binary("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expr, Expr]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Expr:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return _binary("power", other, self)

    def __and__(self, other: Any) -> Expr:
        return _logic("and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _logic("and", other, self)

    def __or__(self, other: Any) -> Expr:
        return _logic("or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _logic("or", other, self)

    def __xor__(self, other: Any) -> Expr:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return _binary("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Expr:
        return _binary("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return _binary("left_shift", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return _binary("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return _binary("right_shift", other, self)

    def __invert__(self) -> Expr:
        return _apply("logical_not" if _is_truth(self) else "invert", self)

    def __matmul__(self, other: Any) -> Expr:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Expr:
        return _binary("matmul", other, self)

    def __neg__(self) -> Expr:
        return _apply("negative", self)

    def __pos__(self) -> Expr:
        return _apply("positive", self)

    def __abs__(self) -> Expr:
        return _apply("absolute", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # NumPy's meaning: elementwise, an expression
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # as above
        return _binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _binary("greater_equal", self, other)

    def __getitem__(self, index: Any) -> Expr:
        return _apply("getitem", self, index)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()) -> Expr:
        """Return the sum over ``axis``, over all axes for None; ``keepdims`` keeps them with size 1."""
        total: Expr = functions["sum"](self, axis, keepdims, policies=policies)
        return total

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()) -> Expr:
        """Return the mean over ``axis``, over all axes for None; ``keepdims`` keeps them with size 1."""
        average: Expr = functions["mean"](self, axis, keepdims, policies=policies)
        return average

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
        """Return the maximum over ``axis``, over all axes for None; ``keepdims`` keeps them with size 1."""
        return _apply("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
        """Return the minimum over ``axis``, over all axes for None; ``keepdims`` keeps them with size 1."""
        return _apply("min", self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Expr:
        """Return the same elements in another shape; one size may be −1 and is computed from the others."""
        return _apply("reshape", self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Expr:
        """Permute the axes; without arguments, reverse them."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            (axes,) = axes
        elif not axes:
            return _apply("transpose", self, None)
        return _apply("transpose", self, axes)

    def flatten(self) -> Expr:
        """Return the elements in row-major order along one axis."""
        return _apply("flatten", self)

    def squeeze(self, axis: int | None = None) -> Expr:
        """Remove an axis of size 1; for None, all of them."""
        return _apply("squeeze", self, axis)

    def clip(self, min: Any = None, max: Any = None) -> Expr:
        """Limit the elements to at least ``min`` and at most ``max``; None sets no limit."""
        return _apply("clip", self, min, max)

    def astype(self, dtype: Any) -> Expr:
        """Convert the elements to another dtype."""
        return _apply("cast", self, dtype)

    def to_device(self, device: Any) -> Expr:
        """Copy the value to another device."""
        return _apply("to_device", self, device)

    @property
    def T(self) -> Expr:  # noqa: N802  # NumPy's name
        """The value with its axes reversed."""
        return _apply("transpose", self, None)
