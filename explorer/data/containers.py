"""MetaNN's data types as constructors: tensors of a checked rank, and structured tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.device import Device, cpu
from explorer.core.elements import converted
from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.tensor import Tensor, tensor
from explorer.core.types import Number, Shape, as_dtype, as_shape
from explorer.ops.structured import full, one_hot_vector, zeros


def _of_rank(rank: int, word: str, given: tuple[Any, ...], dtype: Any, name: str, device: Device) -> Tensor:
    """By shape, where as many whole numbers as the rank are given (zeros, to be written to), else by value."""
    if rank and len(given) == rank and all(isinstance(size, (int, np.integer)) for size in given):
        kind = as_dtype(np.float32 if dtype is None else dtype)
        shape = as_shape(given, word)
        return tensor(np.broadcast_to(converted(0, kind), shape), name=name, device=device)
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
            fix="use ex.tensor for any rank",
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


def ZeroTensor(shape: Shape, dtype: Any = np.float32, device: Device = cpu) -> Expr:  # noqa: N802
    """The algebraic zero of a shape: stores nothing; rules drop it from sums and let products vanish.

    x + ZeroTensor is x, and x · ZeroTensor is ZeroTensor, whatever x holds: −0.0 keeps its sign, ∞ and NaN vanish. A
    number 0.0 or TrivialTensor(0.0) is IEEE's zero instead: −0.0 + 0.0 is 0.0, and 0.0 · ∞ is NaN, as NumPy has it.
    """
    return zeros(shape, dtype, device)


def TrivialTensor(value: Number, shape: Shape, dtype: Any = np.float32, device: Device = cpu) -> Expr:  # noqa: N802
    """A tensor whose elements are all ``value``, converted to the element type: stores one number."""
    return full(shape, value, dtype, device)


def BiasVector(  # noqa: N802
    length: int, position: int, value: Number = 1.0, dtype: Any = np.float32, device: Device = cpu
) -> Expr:
    """A vector of zeros with ``value`` at ``position``, counted from zero: stores three numbers."""
    return one_hot_vector(length, position, value, dtype, device)
