"""Structured tensors: constants, zeros, one-hot vectors and short lists, described by attributes.

Rewrite rules read the attributes, so they can remove an addition of zeros or a multiplication by one without reading
elements. Kernels return broadcast views, so a large constant allocates no memory.
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
from explorer.core.types.tensor_type import AnyType, Array, Number, Shape, TensorType, as_dtype, as_integer, as_shape
from explorer.record.reasons import counted_text

__all__ = ["as_expr"]


class Structured(Operation, abstract=True):
    """Base class of tensors that are described by attributes instead of stored elements."""

    # the kernel returns a broadcast number or a cached array, so the plan allocates no memory
    view = True
    nondifferentiable = "a constant has no operands"
    unbatchable = "a constant has no operands to batch"

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name; the device is omitted if it is cpu."""
        attributes = super().attributes
        if attributes["device"] is cpu:
            del attributes["device"]
        return attributes


class Full(Structured):
    """Tensor whose elements all have the same value (MetaNN: TrivialTensor)."""

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
    """Algebraic zero: rules simplify x + 0 to x, and x · 0 to zero for every x (MetaNN: ZeroTensor)."""

    name = "zeros"
    shape: Shape
    dtype: np.dtype[Any]
    cause: str = ""
    """"unreached" if the tensor is the gradient of a value that the loss does not depend on"""
    device: Device = cpu
    examples = (Example(shape=(2, 3), dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype, self.device)

    def kernel(self, out: None) -> Array:
        return np.broadcast_to(converted(0, self.dtype), self.shape)


class OneHot(Structured):
    """Vector of zeros except for one element (MetaNN: BiasVector); ``position`` is the element's index."""

    name = "one_hot_vector"
    length: int
    position: int
    value: Number
    dtype: np.dtype[Any]
    device: Device = cpu
    view: ClassVar[bool] = False  # unlike a broadcast number, the elements differ
    examples = (Example(length=5, position=2, value=1.0, dtype=np.dtype("float64")),)

    def infer(self) -> TensorType:
        if not 0 <= self.position < self.length:
            raise OperandError(
                f"a one-hot vector of length {self.length} with its element at {self.position}",
                rule=f"the position must be in 0 … {self.length - 1}",
                fix=f"position {self.length - 1} is the last one",
            )
        return TensorType((self.length,), self.dtype, self.device)

    def kernel(self, out: Array) -> Array:
        out[...] = converted(0, self.dtype)
        out[self.position] = converted(self.value, self.dtype)
        return out


class Literal(Structured):
    """Small tensor whose elements are listed in row-major order; constant folding records it."""

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
                rule=f"there must be {type_.size} elements, as in the shape",
                fix="ex.tensor(array) takes its shape from the array",
            )
        return type_

    def kernel(self, out: None) -> Array:
        return converted(self.elements, self.dtype).reshape(self.shape)


def full(shape: Shape, value: Number, dtype: Any = np.float32, device: Device | None = None) -> Expr:
    """Record a tensor of ``shape`` filled with ``value``; only one number is stored."""
    element_dtype = as_dtype(dtype)
    return Full(_converted(value, element_dtype), as_shape(shape, "full"), element_dtype, device or state.device)()


def zeros(shape: Shape, dtype: Any = np.float32, device: Device | None = None) -> Expr:
    """Record zeros of ``shape``; no elements are stored."""
    return Zero(as_shape(shape, "zeros"), as_dtype(dtype), "", device or state.device)()


def one_hot_vector(
    length: int, position: int, value: Number = 1.0, dtype: Any = np.float32, device: Device | None = None
) -> Expr:
    """Record a vector of zeros except for ``value`` at index ``position``; only three numbers are stored."""
    element_dtype, device = as_dtype(dtype), device or state.device
    return OneHot(
        as_integer(length, "length"),
        as_integer(position, "position"),
        _converted(value, element_dtype),
        element_dtype,
        device,
    )()


def _converted(value: Any, dtype: np.dtype[Any]) -> Number:
    if value is None:
        raise OperandError("None as an element", rule="the value must be a number", fix="0.0 in place of None")
    try:
        if isinstance(value, np.generic):  # NumPy raises OverflowError for Python ints that are out of range
            refuse_beyond(np.asarray(value), dtype)
        with np.errstate(over="ignore"):  # beyond a floating dtype's range, a number becomes ∞
            number: Number = numbers_of(converted(value, dtype)).item()
    except (OverflowError, TypeError, ValueError) as error:
        raise OperandError(
            f"{value!r} as an element of dtype {dtype}: {error}",
            rule="the value must fit the dtype",
            fix=f"another dtype: np.min_scalar_type({value!r:.40}) is the smallest that can represent it",
        ) from None
    return number


_constants: dict[Any, Full] = {}
_MAX_CONSTANTS = 1024
"""maximum number of cached scalar constants; the cache makes recording ``2 * x`` fast"""


@public
def as_expr(value: Any, dtypes: tuple[np.dtype[Any], ...], device: Device = cpu) -> Expr:
    """Convert ``value``, an operand that is not an expression, for use with operands of ``dtypes`` on ``device``.

    Python numbers are weakly typed: they get the dtype to which NumPy promotes them together with ``dtypes``. An object
    with an ``__expr__()`` method is replaced by the result of this method, and any other value by a tensor.
    """
    cls = type(value)
    if cls not in WEAK:
        # the name is explicit, because the variable assigned by the user's line names the whole expression
        if stands_for_expression(value):
            operand: Expr = as_written(value)
            return operand
        return tensor(value, name="tensor", device=device)
    # the key contains class and repr, because 1, 1.0 and True are equal, and 0.0 and −0.0 are equal
    key = (cls, value or repr(value), dtypes, device)
    constant = _constants.get(key)
    if constant is not None:
        return record(constant, ())
    # NumPy cannot promote user-defined dtypes, so the number is converted to the other operand's dtype
    element = next((dtype for dtype in dtypes if element_of(dtype) is not None), None)
    # NumPy cannot promote string dtypes with numbers either; the operation itself rejects that combination
    numeric = [dtype for dtype in dtypes if not is_text(dtype)]
    # unlike NumPy's ufuncs, result_type does not treat numbers as weakly typed if the other dtype is bfloat16
    is_weak = cls is not complex and any(dtype.kind == "V" and is_floating(dtype) for dtype in numeric)
    operands = numeric if is_weak else [*numeric, value]
    dtype = np.result_type(*operands) if element is None else element
    constant = Full(_converted(value, dtype), (), dtype, device)
    if len(_constants) >= _MAX_CONSTANTS:
        _constants.clear()
    _constants[key] = constant
    return record(constant, ())
