"""Results by expression, for as long as somebody holds them: what plans with ``recall`` do not compute again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.core.device import cpu
from explorer.core.expr import Expr
from explorer.core.tensor import Storage, Tensor, tensor_of
from explorer.core.types import Array

_results: WeakValueDictionary[int, Array] = WeakValueDictionary()
"""uid of an expression → its value, which handles and users hold"""


def remember(expr: Expr, value: Any) -> None:
    """Keep in mind that an expression was evaluated."""
    if expr.operands and isinstance(value, np.ndarray) and expr.type.device is cpu:
        _results[expr.uid] = value


def recalled(roots: Sequence[Expr]) -> dict[int, Tensor]:
    """Values that are still held, of the roots or below them, by the uids of their expressions."""
    found: dict[int, Tensor] = {}
    if not _results:
        return found
    seen: set[int] = set()
    stack = [*roots]
    while stack:
        node = stack.pop()
        if node.uid in seen:
            continue
        seen.add(node.uid)
        value = _results.get(node.uid)
        if value is None:
            stack += node.operands
        else:
            found[node.uid] = tensor_of(Storage(value.view()), node.label)  # a plan is nobody who holds the result
    return found
