"""Categories of values: names of their ranks, as in MetaNN."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError, class_text
from explorer.core.types.tensor_type import TensorType, TupleType


def type_of(x: Any) -> TensorType:
    """Return the type of an expression, data or an array; raise OperandError for anything else.

    For a data class whose ``type`` is a class attribute, return this type.
    """
    declared = getattr(x, "type", None)
    if isinstance(x, type) and not isinstance(declared, TensorType):
        raise OperandError(
            f"the category of the class {x.__name__}",
            rule="a class must have a TensorType as its class attribute `type`",
            fix=f"pass an instance: category({x.__name__}(…))",
        )
    if isinstance(declared, TupleType):
        raise OperandError(
            f"the category of a value with the outputs {declared}",
            rule="the value must have a single output",
            fix="unpack it: a, b = f(x)",
        )
    if isinstance(declared, TensorType):
        return declared
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise OperandError(
            f"the category of {class_text(x)}",
            rule="the value must be an expression, data or an array",
            fix="wrap it: ex.tensor(value)",
        )
    return TensorType(tuple(x.shape), x.dtype)


def category(x: Any) -> str:
    """Return the name of a value's rank, as in MetaNN: "scalar", "vector", "matrix", "three-d array", "4-d array", ….

    >>> ex.category(ex.Tensor(2, 3))
    'matrix'
    """
    return type_of(x).category


def is_scalar(x: Any) -> bool:
    """Return whether a value has rank 0.

    >>> ex.is_scalar(ex.Scalar(1.0)), ex.is_scalar(ex.Vector(1))
    (True, False)
    """
    return type_of(x).rank == 0


def is_vector(x: Any) -> bool:
    """Return whether a value has rank 1.

    >>> ex.is_vector(ex.Vector(3))
    True
    """
    return type_of(x).rank == 1


def is_matrix(x: Any) -> bool:
    """Return whether a value has rank 2.

    >>> ex.is_matrix(ex.Matrix(2, 3))
    True
    """
    return type_of(x).rank == 2


def is_three_d_array(x: Any) -> bool:
    """Return whether a value has rank 3.

    >>> ex.is_three_d_array(ex.Tensor(2, 3, 4))
    True
    """
    return type_of(x).rank == 3
