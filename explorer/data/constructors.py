"""Constructors of fixed-rank and structured tensors, named after MetaNN's data types."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.argument_checks import named
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Shape, as_shape
from explorer.ops.creation.constants import full, one_hot_vector, zeros
from explorer.record.reasons import counted_text


def _ranked(rank: int, type: str, arguments: tuple[Any, ...], dtype: Any, name: str, device: Device) -> Tensor:
    """Return zeros if the arguments are ``rank`` sizes; otherwise convert the value and check its rank."""
    if rank and len(arguments) == rank and all(isinstance(size, (int, np.integer)) for size in arguments):
        return Tensor(*arguments, dtype=np.float32 if dtype is None else dtype, name=name, device=device)
    if not 1 <= len(arguments) <= 2 or (len(arguments) == 2 and dtype is not None):
        sizes = ", ".join(["10"] * rank)
        raise OperandError(
            f"{type} of {counted_text(len(arguments), 'argument')}",
            rule=f"{type} must be given a value and a dtype, or {counted_text(rank, 'size')}",
            fix=f"{type}(value, np.float32)" + (f", or {type}({sizes})" if rank else ""),
        )
    result = tensor(arguments[0], arguments[1] if len(arguments) == 2 else dtype, name=name, device=device)
    if result.ndim != rank:
        raise OperandError(
            f"{type} of a value of shape {result.shape}",
            rule=f"the value of a {type} must have rank {rank}",
            fix="use ex.tensor for a value of any rank, or ex.Tensor for any number of sizes",
        )
    return result


@named
def Scalar(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802  # MetaNN's name
    """Create a tensor of rank 0: Scalar(2.5), Scalar(2.5, np.float32).

    >>> ex.Scalar(2.5).type, ex.Scalar(2.5, np.float32).type
    (scalar float64, scalar float32)
    """
    return _ranked(0, "Scalar", value, dtype, name, device)


@named
def Vector(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802  # MetaNN's name
    """Create a tensor of rank 1 from a value, Vector([1.0, 2.0]), or float32 zeros from a length, Vector(10).

    >>> ex.Vector([1.0, 2.0]).shape, ex.Vector(10).shape
    ((2,), (10,))
    """
    return _ranked(1, "Vector", value, dtype, name, device)


@named
def Matrix(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802  # MetaNN's name
    """Create a tensor of rank 2 from a value, Matrix([[1.0, 2.0]]), or float32 zeros from sizes, Matrix(10, 20).

    >>> ex.Matrix([[1.0, 2.0]]).shape, ex.Matrix(10, 20).shape
    ((1, 2), (10, 20))
    """
    return _ranked(2, "Matrix", value, dtype, name, device)


@named
def ThreeDArray(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802  # MetaNN's name
    """Create a tensor of rank 3 from a value, or float32 zeros from sizes, ThreeDArray(2, 10, 20).

    >>> ex.ThreeDArray(2, 10, 20).type
    2×10×20 float32
    """
    return _ranked(3, "ThreeDArray", value, dtype, name, device)


@named
def ZeroTensor(*shape: Any, dtype: Any = np.float32, device: Device = cpu) -> Expr:  # noqa: N802  # MetaNN's name
    """Record an algebraic zero of the given shape, ZeroTensor((5, 10)) or ZeroTensor(5, 10), without storing elements.

    x + ZeroTensor is x, and x · ZeroTensor is ZeroTensor, for all values of x: a sum preserves the sign of −0.0, and a
    product with ∞ or NaN is zero. In contrast, 0.0 and TrivialTensor(0.0) follow IEEE 754, as in NumPy: −0.0 + 0.0 is
    0.0, and 0.0 · ∞ is NaN.

    >>> x = ex.tensor([1.0, np.inf])
    >>> ex.evaluate(x * ex.ZeroTensor(2))
    array([0., 0.])
    """
    sizes, dtype, device = _sizes("ZeroTensor", shape, dtype, device)
    return zeros(sizes, dtype, device)


@named
def TrivialTensor(value: Any, *shape: Any, dtype: Any = None, device: Device = cpu) -> Expr:  # noqa: N802  # MetaNN's name
    """Record a tensor whose elements are all ``value``: TrivialTensor(v, (5, 10)) or TrivialTensor(v, 5, 10).

    Only one number is stored. The dtype is ``dtype`` if given, else the dtype of a Scalar, or float32 for a number.

    >>> ex.evaluate(ex.TrivialTensor(0.5, 2, 3))
    array([[0.5, 0.5, 0.5],
           [0.5, 0.5, 0.5]], dtype=float32)
    """
    number, dtype = _number("TrivialTensor", value, dtype)
    sizes, element_dtype, device = _sizes("TrivialTensor", shape, dtype, device)
    return full(sizes, number, element_dtype, device)


@named
def BiasVector(  # noqa: N802  # MetaNN's name
    length: int, position: int, value: Any = 1.0, dtype: Any = None, device: Device = cpu
) -> Expr:
    """Record a vector of zeros with ``value`` at ``position``, counted from zero.

    Only three numbers are stored. The dtype is ``dtype`` if given, else the dtype of a Scalar, or float32 for a number.

    >>> ex.evaluate(ex.BiasVector(4, 1))
    array([0., 1., 0., 0.], dtype=float32)
    """
    number, dtype = _number("BiasVector", value, dtype)
    return one_hot_vector(length, position, number, dtype, device)


def _sizes(type: str, arguments: tuple[Any, ...], dtype: Any, device: Device) -> tuple[Shape, Any, Device]:
    """Return shape, dtype and device from a tuple or separate sizes, optionally followed by dtype and device."""
    are_sizes = [isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in arguments]
    count = are_sizes.index(False) if False in are_sizes else len(arguments)
    shape: Any = arguments[:count]
    if not count and arguments and isinstance(arguments[0], (tuple, list)):
        shape, count = arguments[0], 1
    rest = arguments[count:]
    if not count or len(rest) > 2 or (len(rest) == 2 and not isinstance(rest[1], Device)):
        first = "" if type == "ZeroTensor" else "value, "
        raise OperandError(
            f"{type} of {', '.join(map(repr, arguments)) or 'no sizes'}",
            rule=f"{type} must be given a shape, as a tuple or as separate sizes, then optionally dtype and device",
            fix=f"{type}({first}(5, 10, 20)), or {type}({first}5, 10, 20)",
        )
    return as_shape(shape, type), rest[0] if rest else dtype, rest[1] if len(rest) == 2 else device


def _number(type: str, value: Any, dtype: Any) -> tuple[Any, Any]:
    """Return a number and its dtype, which is ``dtype`` if given, else the dtype of a scalar tensor, else float32."""
    if isinstance(value, Expr):
        if not isinstance(value, Tensor) or value.ndim:
            raise OperandError(
                f"{type} of {value!r}",
                rule="the value must be a number or a Scalar, not an expression",
                fix=f"use ex.broadcast_to(x, shape) for an expression, or {type}(ex.evaluate(x), …)",
            )
        return value.array[()], value.dtype if dtype is None else dtype
    return value, np.dtype(np.float32) if dtype is None else dtype
