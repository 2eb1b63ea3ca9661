"""Equality of values by identity or structure, without comparing elements, as in MetaNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.attributes import as_written, stands_for_expression
from explorer.core.errors import OperandError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Array


def same(a: Any, b: Any) -> bool:
    """Return whether two values are known to be equal from their identity or structure; elements are not compared.

    The following are the same: a copy and its original, two tensors that share their storage, equal operations on the
    same operands, and structured tensors with equal parameters. Such values also give the same results, if one plan
    evaluates both, or if the first result still exists. Other values are usually not the same, even if their elements
    are equal.

    In contrast, ``x == y`` and ``x != y`` record elementwise comparisons, as in NumPy, which can be converted to a
    boolean only if they have a single element.

    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.same(x + 1, x + 1), ex.same(x + 1, x + 2)
    (True, False)
    """
    first, second = _value(a), _value(b)
    if isinstance(first, Expr) and isinstance(second, Expr):
        return _same_expressions(first, second)
    arrays = [value.array if isinstance(value, Tensor) else value for value in (first, second)]
    return all(isinstance(array, np.ndarray) for array in arrays) and _same_memory(*arrays)


def _value(value: Any) -> Any:
    if stands_for_expression(value):
        return as_written(value)
    if not isinstance(value, (Expr, np.ndarray)):
        raise OperandError(
            f"same() of {class_text(value)}",
            rule="the operands must be expressions, data or results of evaluation",
            fix="compare numbers with ==",
        )
    return value


def _same_memory(a: Array, b: Array) -> bool:
    # Addresses are compared, because results of one evaluation may be different views of the same memory.
    first, second = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    return bool(first == second and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype)


def _same_expressions(a: Expr, b: Expr) -> bool:
    """Compare two graphs, visiting each pair of nodes once."""
    pending = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while pending:
        left, right = pending.pop()
        if left is right or (left.uid, right.uid) in seen:
            continue
        seen.add((left.uid, right.uid))
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            if not (isinstance(left, Tensor) and isinstance(right, Tensor)) or left.storage is not right.storage:
                return False
            continue
        if left.operation is not right.operation or len(left.operands) != len(right.operands):
            return False
        if isinstance(left.operation, Parameter):  # different parameters have different values
            return False
        pending.extend(zip(left.operands, right.operands, strict=True))
    return True
