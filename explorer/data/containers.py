"""MetaNN's data types as constructors: tensors of a checked rank, and structured tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.tensor import Tensor, tensor
from explorer.core.types import Number, Shape
from explorer.ops.structured import full, one_hot_vector, zeros


def _of_rank(rank: int, word: str, value: Any, dtype: Any, name: str) -> Tensor:
    made = tensor(value, dtype, name=name)
    if made.ndim != rank:
        raise OperandError(
            f"{word} of a value of shape {made.shape}",
            rule=f"a {word} has rank {rank}",
            fix="use ex.tensor for any rank",
        )
    return made


def Scalar(value: Any, dtype: Any = None, *, name: str = "") -> Tensor:  # noqa: N802  # MetaNN's name
    """A tensor of rank 0."""
    return _of_rank(0, "Scalar", value, dtype, name)


def Vector(value: Any, dtype: Any = None, *, name: str = "") -> Tensor:  # noqa: N802
    """A tensor of rank 1."""
    return _of_rank(1, "Vector", value, dtype, name)


def Matrix(value: Any, dtype: Any = None, *, name: str = "") -> Tensor:  # noqa: N802
    """A tensor of rank 2."""
    return _of_rank(2, "Matrix", value, dtype, name)


def ThreeDArray(value: Any, dtype: Any = None, *, name: str = "") -> Tensor:  # noqa: N802
    """A tensor of rank 3."""
    return _of_rank(3, "ThreeDArray", value, dtype, name)


def ZeroTensor(shape: Shape, dtype: Any = np.float32) -> Expr:  # noqa: N802
    """The algebraic zero of a shape: stores nothing; rules drop it from sums and let products vanish."""
    return zeros(shape, dtype)


def TrivialTensor(value: Number, shape: Shape, dtype: Any = np.float32) -> Expr:  # noqa: N802
    """A tensor whose elements are all ``value``: stores one number."""
    return full(shape, value, dtype)


def BiasVector(length: int, position: int, value: Number = 1.0, dtype: Any = np.float32) -> Expr:  # noqa: N802
    """A vector of zeros with ``value`` at ``position``, counted from zero: stores three numbers."""
    return one_hot_vector(length, position, value, dtype)
