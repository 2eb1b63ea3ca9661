"""Mantissas: what stands beside the powers of a value, recorded only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, broadcast_shapes
from explorer.ops.elementwise.unary import reciprocal


class Mantissa:
    """A value of a shape that is recorded once, when it is asked for."""

    __slots__ = ("_record", "_value", "factors", "shape")

    def __init__(self, shape: Shape, record: Callable[[], Expr], factors: tuple[Mantissa, ...] = ()) -> None:
        self.shape, self.factors = shape, factors
        """the factors of a product; none of another value"""
        self._record = record
        self._value: Expr | None = None

    @classmethod
    def of(cls, value: Expr) -> Mantissa:
        """A value that is recorded already."""
        return cls(value.shape, lambda: value)

    @property
    def axes(self) -> set[int]:
        """The axes, counted from the end, along which it varies."""
        return {axis - len(self.shape) for axis, size in enumerate(self.shape) if size != 1}

    def value(self) -> Expr:
        """The recorded value."""
        if self._value is None:
            self._value = self._record()
        return self._value


def times(a: Mantissa | None, b: Mantissa | None) -> Mantissa | None:
    """a · b, where None is 1."""
    if a is None or b is None:
        return b if a is None else a
    shape = broadcast_shapes(a.shape, b.shape)
    assert shape is not None
    return Mantissa(shape, lambda: a.value() * b.value(), (*(a.factors or (a,)), *(b.factors or (b,))))


def over(a: Mantissa | None, b: Mantissa) -> Mantissa:
    """a / b, where no a is 1."""
    if a is None:
        return Mantissa(b.shape, lambda: reciprocal(b.value()))
    shape = broadcast_shapes(a.shape, b.shape)
    assert shape is not None
    return Mantissa(shape, lambda: a.value() / b.value())
