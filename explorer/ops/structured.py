"""Structured tensors: constants, zeros and one-hot vectors that store O(1) data and whose structure rules use."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.example import Example
from explorer.core.expr import Expr, record
from explorer.core.operation import WEAK, Operation
from explorer.core.registry import public
from explorer.core.tensor import tensor
from explorer.core.types import AnyType, Array, Number, Shape, TensorType, as_dtype, as_shape, whole


class Structured(Operation, abstract=True):
    """A tensor that is described, not stored."""

    view = True
    nondifferentiable = "a constant has no operands"
    unbatchable = "a constant has no operands to batch"

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class Full(Structured):
    """Every element has one value (MetaNN: TrivialTensor)."""

    name = "full"
    value: Number
    shape: Shape
    dtype: np.dtype[Any]
    examples = (Example(value=2.5, shape=(2, 3), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def kernel(self, out: None) -> Array:
        return np.broadcast_to(np.asarray(self.value, self.dtype), self.shape)

    @property
    def label(self) -> str:
        return f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)


class Zero(Structured):
    """The algebraic zero: rules drop x + 0 and turn x · 0 into it whatever x holds (MetaNN: ZeroTensor)."""

    name = "zeros"
    shape: Shape
    dtype: np.dtype[Any]
    cause: str = ""
    """"unreached" for the gradient of a value that the loss does not depend on"""
    examples = (Example(shape=(2, 3), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def kernel(self, out: None) -> Array:
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


class OneHot(Structured):
    """A vector that is zero but for one element (MetaNN: BiasVector); positions count from zero."""

    name = "one_hot_vector"
    length: int
    position: int
    value: Number
    dtype: np.dtype[Any]
    view: ClassVar[bool] = False
    examples = (Example(length=5, position=2, value=1.0, dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        if not 0 <= self.position < self.length:
            raise OperandError(
                f"a one-hot vector of length {self.length} with its element at {self.position}",
                rule=f"positions count from zero: 0 … {self.length - 1}",
            )
        return TensorType((self.length,), self.dtype)

    def kernel(self, out: Array) -> Array:
        out[...] = 0
        out[self.position] = self.value
        return out


def full(shape: Shape, value: Number, dtype: Any = np.float32) -> Expr:
    """A tensor whose elements are all ``value``; stores one number."""
    kind = as_dtype(dtype)
    return Full(_converted(value, kind), as_shape(shape, "full"), kind)()


def zeros(shape: Shape, dtype: Any = np.float32) -> Expr:
    """The algebraic zero of a shape; stores nothing."""
    return Zero(as_shape(shape, "zeros"), as_dtype(dtype))()


def one_hot_vector(length: int, position: int, value: Number = 1.0, dtype: Any = np.float32) -> Expr:
    """A vector of zeros with ``value`` at ``position`` (from zero); stores three numbers."""
    kind = as_dtype(dtype)
    return OneHot(whole(length, "length"), whole(position, "position"), _converted(value, kind), kind)()


def _converted(value: Any, dtype: np.dtype[Any]) -> Number:
    try:
        with np.errstate(over="ignore"):  # a number beyond a floating dtype is infinite there
            number: Number = np.asarray(value, dtype).item()
    except (OverflowError, TypeError, ValueError) as error:
        raise OperandError(
            f"{value!r} as an element of dtype {dtype}: {error}", rule="a value fits its dtype"
        ) from None
    return number


_constants: dict[Any, Full] = {}
_KEPT_CONSTANTS = 1024


@public
def as_expr(value: Any, dtypes: tuple[np.dtype[Any], ...]) -> Expr:
    """An operand that is no expression, beside operands of ``dtypes``.

    Python's numbers are weak: they take the dtype that NumPy gives them beside the others. All else becomes a tensor.
    """
    kind = type(value)
    if kind not in WEAK:
        return tensor(value)
    key = (kind, value or repr(value), dtypes)
    made = _constants.get(key)
    if made is not None:
        return record(made, ())
    dtype = np.result_type(*dtypes, value)
    made = Full(_converted(value, dtype), (), dtype)
    if len(_constants) >= _KEPT_CONSTANTS:
        _constants.clear()
    _constants[key] = made
    return record(made, ())
