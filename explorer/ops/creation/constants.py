"""Structured tensors, described instead of stored: constants, zeros, one-hot vectors, short lists.

Rewrite rules read the description: adding a zero or multiplying by a constant one can be dropped without looking at
elements. Kernels return broadcast views, so that a large constant allocates nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.attributes import as_written, stands_for_expression
from explorer.core.errors import OperandError
from explorer.core.ir.expr import WEAK, Expr, Operation, record
from explorer.core.ir.operation_examples import Example
from explorer.core.ir.recording_context import state
from explorer.core.ir.tensor import tensor
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import converted, element_of, is_floating, is_text, numbers_of, refuse_beyond
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, Array, Number, Shape, TensorType, as_dtype, as_shape, whole
from explorer.record.reasons import counted_text

__all__ = ["as_expr"]


class Structured(Operation, abstract=True):
    """Base of tensors that are described, not stored."""

    # a broadcast of one number, or the listed numbers: no memory of the result's size
    view = True
    nondifferentiable = "a constant has no operands"
    unbatchable = "a constant has no operands to batch"

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name; the device only if it is not cpu."""
        attributes = super().attributes
        if attributes["device"] is cpu:
            del attributes["device"]
        return attributes


class Full(Structured):
    """Tensor with one value for all elements (MetaNN: TrivialTensor)."""

    name = "full"
    value: Number
    shape: Shape
    dtype: np.dtype[Any]
    device: Device = cpu
    examples = (Example(value=2.5, shape=(2, 3), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype, self.device)

    def kernel(self, out: None) -> Array:
        return np.broadcast_to(converted(self.value, self.dtype), self.shape)

    @property
    def label(self) -> str:
        return f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)


class Zero(Structured):
    """Algebraic zero: rules drop x + 0 and turn x · 0 into it for every x (MetaNN: ZeroTensor)."""

    name = "zeros"
    shape: Shape
    dtype: np.dtype[Any]
    cause: str = ""
    """"unreached" for the gradient of a value that the loss does not depend on"""
    device: Device = cpu
    examples = (Example(shape=(2, 3), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype, self.device)

    def kernel(self, out: None) -> Array:
        return np.broadcast_to(converted(0, self.dtype), self.shape)


class OneHot(Structured):
    """Vector of zeros except for one element (MetaNN: BiasVector); positions count from zero."""

    name = "one_hot_vector"
    length: int
    position: int
    value: Number
    dtype: np.dtype[Any]
    device: Device = cpu
    view: ClassVar[bool] = False  # a broadcast cannot differ in one element
    examples = (Example(length=5, position=2, value=1.0, dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        if not 0 <= self.position < self.length:
            raise OperandError(
                f"a one-hot vector of length {self.length} with its element at {self.position}",
                rule=f"the position must lie in 0 … {self.length - 1}",
                fix=f"position {self.length - 1} is the last one",
            )
        return TensorType((self.length,), self.dtype, self.device)

    def kernel(self, out: Array) -> Array:
        out[...] = converted(0, self.dtype)
        out[self.position] = converted(self.value, self.dtype)
        return out


class Literal(Structured):
    """Small tensor whose elements are listed in row-major order; plans make it from constants."""

    elements: tuple[Number, ...]
    shape: Shape
    dtype: np.dtype[Any]
    device: Device = cpu
    examples = (Example(elements=(1.0, 2.5, -3.0, 0.0), shape=(2, 2), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        type_ = TensorType(self.shape, self.dtype, self.device)
        if type_.size != len(self.elements):
            raise OperandError(
                f"{counted_text(len(self.elements), 'element')} for a literal of shape {self.shape}",
                rule=f"there must be as many elements as the shape has: {type_.size}",
                fix="ex.tensor(array) takes its shape from the array",
            )
        return type_

    def kernel(self, out: None) -> Array:
        return converted(self.elements, self.dtype).reshape(self.shape)


def full(shape: Shape, value: Number, dtype: Any = np.float32, device: Device | None = None) -> Expr:
    """Record a tensor of a shape whose elements are all ``value``; it stores one number."""
    element_dtype = as_dtype(dtype)
    return Full(_converted(value, element_dtype), as_shape(shape, "full"), element_dtype, device or state.device)()


def zeros(shape: Shape, dtype: Any = np.float32, device: Device | None = None) -> Expr:
    """Record the algebraic zero of a shape; it stores nothing."""
    return Zero(as_shape(shape, "zeros"), as_dtype(dtype), "", device or state.device)()


def one_hot_vector(
    length: int, position: int, value: Number = 1.0, dtype: Any = np.float32, device: Device | None = None
) -> Expr:
    """Record a vector of zeros with ``value`` at ``position`` (from zero); it stores three numbers."""
    element_dtype, device = as_dtype(dtype), device or state.device
    return OneHot(
        whole(length, "length"), whole(position, "position"), _converted(value, element_dtype), element_dtype, device
    )()


def _converted(value: Any, dtype: np.dtype[Any]) -> Number:
    if value is None:
        raise OperandError("None as an element", rule="the value must be a number", fix="0.0 in place of None")
    try:
        if isinstance(value, np.generic):  # a Python int beyond a dtype raises by itself
            refuse_beyond(np.asarray(value), dtype)
        with np.errstate(over="ignore"):  # a number beyond a floating dtype is infinite there
            number: Number = numbers_of(converted(value, dtype)).item()
    except (OverflowError, TypeError, ValueError) as error:
        raise OperandError(
            f"{value!r} as an element of dtype {dtype}: {error}",
            rule="the value must fit the dtype",
            fix=f"another dtype: np.min_scalar_type({value!r:.40}) is the smallest that holds it",
        ) from None
    return number


_constants: dict[Any, Full] = {}
_KEPT_CONSTANTS = 1024
"""operations of scalar constants that are kept for the next use, since recording ``2 * x`` must be quick"""


@public
def as_expr(value: Any, dtypes: tuple[np.dtype[Any], ...], device: Device = cpu) -> Expr:
    """Convert an operand that is not an expression, for use with operands of ``dtypes`` on a device.

    Python's numbers are weak: they take the dtype that NumPy gives them with the others. An object with ``__expr__()``
    becomes the expression that this returns. Anything else becomes a tensor on the device.
    """
    cls = type(value)
    if cls not in WEAK:
        # named here, because the variable assigned on this line names the whole expression
        if stands_for_expression(value):
            operand: Expr = as_written(value)
            return operand
        return tensor(value, name="tensor", device=device)
    # cls: 1, 1.0 and True are equal keys; repr: 0.0 and −0.0 are, too
    key = (cls, value or repr(value), dtypes, device)
    constant = _constants.get(key)
    if constant is not None:
        return record(constant, ())
    # NumPy cannot promote a user's dtype: a number together with it takes this dtype
    element = next((dtype for dtype in dtypes if element_of(dtype) is not None), None)
    # nor a text's: the operation refuses a number beside one, by its own name
    numeric = [dtype for dtype in dtypes if not is_text(dtype)]
    # nor does NumPy's result_type take a number for weak together with bfloat16, as its ufuncs do
    is_weak = cls is not complex and any(dtype.kind == "V" and is_floating(dtype) for dtype in numeric)
    operands = numeric if is_weak else [*numeric, value]
    dtype = np.result_type(*operands) if element is None else element
    constant = Full(_converted(value, dtype), (), dtype, device)
    if len(_constants) >= _KEPT_CONSTANTS:
        _constants.clear()
    _constants[key] = constant
    return record(constant, ())
