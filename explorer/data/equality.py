"""MetaNN's equality of data: identity and structure of two values; elements are never compared."""

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
    """Whether two values are the same by identity or structure; False does not mean that elements differ.

    A copy is the same as its original, and so are the results of evaluating both, in one plan, or by ``ex.evaluate``
    while the first result exists; so are tensors of one storage, one operation on the same operands, and structured
    tensors of equal description. Other values are usually not the same.

    ``==`` and ``!=`` are different: x == y records an elementwise comparison, as in NumPy, and has a truth value only
    for a single element.

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
            rule="the operands must be expressions, data, or results of evaluating them",
            fix="compare numbers with ==",
        )
    return value


def _same_memory(a: Array, b: Array) -> bool:
    # results of one evaluation are views of one buffer: equal addresses, not equal objects
    here, there = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    return bool(here == there and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype)


def _same_expressions(a: Expr, b: Expr) -> bool:
    """Walk both graphs in parallel; each pair of nodes is visited once."""
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
        if isinstance(left.operation, Parameter):  # each parameter gets its own value
            return False
        pending.extend(zip(left.operands, right.operands, strict=True))
    return True
