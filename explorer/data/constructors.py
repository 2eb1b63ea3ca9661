"""MetaNN's data types as constructors: tensors of a checked rank, and structured tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Shape, as_shape
from explorer.ops.creation.constants import full, one_hot_vector, zeros


def _of_rank(rank: int, word: str, given: tuple[Any, ...], dtype: Any, name: str, device: Device) -> Tensor:
    """By shape, where as many whole numbers as the rank are given (zeros, to be written to), else by value."""
    if rank and len(given) == rank and all(isinstance(size, (int, np.integer)) for size in given):
        return Tensor(*given, dtype=np.float32 if dtype is None else dtype, name=name, device=device)
    if not 1 <= len(given) <= 2 or (len(given) == 2 and dtype is not None):
        sizes = ", ".join(["10"] * rank)
        raise OperandError(
            f"{word} of {len(given)} arguments",
            rule=f"a {word} is made by value and dtype, or by its {rank} sizes",
            fix=f"{word}(value, np.float32)" + (f", or {word}({sizes})" if rank else ""),
        )
    made = tensor(given[0], given[1] if len(given) == 2 else dtype, name=name, device=device)
    if made.ndim != rank:
        raise OperandError(
            f"{word} of a value of shape {made.shape}",
            rule=f"a {word} has rank {rank}",
            fix="use ex.tensor for a value of any rank, ex.Tensor for any number of sizes",
        )
    return made


def Scalar(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802  # MetaNN's name
    """A tensor of rank 0: Scalar(2.5), Scalar(2.5, np.float32)."""
    return _of_rank(0, "Scalar", value, dtype, name, device)


def Vector(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802
    """A tensor of rank 1: Vector([1.0, 2.0]) by value; Vector(10) by length, zeros of float32 to be written to."""
    return _of_rank(1, "Vector", value, dtype, name, device)


def Matrix(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802
    """A tensor of rank 2: Matrix([[1.0, 2.0]]) by value; Matrix(10, 20) by shape, zeros of float32."""
    return _of_rank(2, "Matrix", value, dtype, name, device)


def ThreeDArray(*value: Any, dtype: Any = None, name: str = "", device: Device = cpu) -> Tensor:  # noqa: N802
    """A tensor of rank 3: by value, or by shape, ThreeDArray(2, 10, 20), zeros of float32."""
    return _of_rank(3, "ThreeDArray", value, dtype, name, device)


def ZeroTensor(*shape: Any, dtype: Any = np.float32, device: Device = cpu) -> Expr:  # noqa: N802
    """The algebraic zero of a shape, ZeroTensor((5, 10)) or ZeroTensor(5, 10): stores nothing; rules use that.

    x + ZeroTensor is x, and x · ZeroTensor is ZeroTensor, whatever x holds: −0.0 keeps its sign, ∞ and NaN vanish. A
    number 0.0 or TrivialTensor(0.0) is IEEE's zero instead: −0.0 + 0.0 is 0.0, and 0.0 · ∞ is NaN, as NumPy has it.
    """
    sizes, dtype, device = _sizes("ZeroTensor", shape, dtype, device)
    return zeros(sizes, dtype, device)


def TrivialTensor(value: Any, *shape: Any, dtype: Any = None, device: Device = cpu) -> Expr:  # noqa: N802
    """A tensor whose elements are all ``value``: TrivialTensor(v, (5, 10)) or TrivialTensor(v, 5, 10).

    It stores one number. The element type is that of a Scalar, float32 for a number, and ``dtype`` where it is given.
    """
    number, dtype = _number("TrivialTensor", value, dtype)
    sizes, kind, device = _sizes("TrivialTensor", shape, dtype, device)
    return full(sizes, number, kind, device)


def BiasVector(  # noqa: N802
    length: int, position: int, value: Any = 1.0, dtype: Any = None, device: Device = cpu
) -> Expr:
    """A vector of zeros with ``value`` at ``position``, counted from zero: stores three numbers.

    The element type is that of a Scalar, float32 for a number, and ``dtype`` where it is given.
    """
    number, dtype = _number("BiasVector", value, dtype)
    return one_hot_vector(length, position, number, dtype, device)


def _sizes(word: str, given: tuple[Any, ...], dtype: Any, device: Device) -> tuple[Shape, Any, Device]:
    """The shape, as one tuple or size by size, with the dtype and the device that may follow it by place."""
    whole = [isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in given]
    count = whole.index(False) if False in whole else len(given)
    shape: Any = given[:count]
    if not count and given and isinstance(given[0], (tuple, list)):
        shape, count = given[0], 1
    rest = given[count:]
    if not count or len(rest) > 2 or (len(rest) == 2 and not isinstance(rest[1], Device)):
        first = "" if word == "ZeroTensor" else "value, "
        raise OperandError(
            f"{word} of {', '.join(map(repr, given)) or 'no sizes'}",
            rule=f"a {word} must be given a shape, as one tuple or size by size, and then a dtype and a device",
            fix=f"{word}({first}(5, 10, 20)), or {word}({first}5, 10, 20)",
        )
    return as_shape(shape, word), rest[0] if rest else dtype, rest[1] if len(rest) == 2 else device


def _number(word: str, value: Any, dtype: Any) -> tuple[Any, Any]:
    """A number, or that of a scalar tensor, and the element type: the given one, else the scalar's, else float32."""
    if isinstance(value, Expr):
        if not isinstance(value, Tensor) or value.ndim:
            raise OperandError(
                f"{word} of {value!r}",
                rule="the value must be a number, or a Scalar, whose value is there",
                fix=f"use ex.broadcast_to(x, shape) for an expression, or {word}(ex.evaluate(x), …)",
            )
        return value.array[()], value.dtype if dtype is None else dtype
    return value, np.dtype(np.float32) if dtype is None else dtype
