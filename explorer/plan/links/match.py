"""What links ask of a graph."""

from __future__ import annotations

from typing import TypeVar

from explorer.core.expr import Expr
from explorer.core.operation import Operation
from explorer.core.tensor import Tensor
from explorer.core.types import Number
from explorer.ops.structured import Full, Zero
from explorer.plan.graph import Graph

_Operation = TypeVar("_Operation", bound=Operation)

_RANGES = {"real": 0, "nonnegative": 1, "unit": 1, "positive": 2}


def producer(node: Expr, kind: type[_Operation]) -> _Operation | None:
    """The node's operation when it is of a kind."""
    operation = node.operation
    return operation if isinstance(operation, kind) else None


def constant(node: Expr, graph: Graph) -> Number | None:
    """The one value of all elements of a described constant, looking through views; None for anything else."""
    while node.operation.name in ("broadcast_to", "reshape"):
        (node,) = graph.operands(node)
    if isinstance(node.operation, Full):
        return node.operation.value
    return 0 if isinstance(node.operation, Zero) else None


def is_known_positive(node: Expr) -> bool:
    """Whether every element is > 0 whatever the operands hold."""
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value > 0
    return operation.range == "positive"


def is_known_nonnegative(node: Expr) -> bool:
    """Whether every element is ≥ 0 whatever the operands hold (NaN aside)."""
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value >= 0
    return operation.range != "real"


def same(a: Expr, b: Expr, graph: Graph) -> bool:
    """Whether two nodes hold one value by structure: one node, or one operation on the same operands."""
    pending = [(a, b)]
    budget = 64
    while pending:
        left, right = pending.pop()
        left, right = graph.resolve(left), graph.resolve(right)
        if left is right:
            continue
        budget -= 1
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            if left.storage is not right.storage:
                return False
            continue
        operands = graph.operands(left), graph.operands(right)
        if budget < 0 or left.operation is not right.operation or len(operands[0]) != len(operands[1]) or not operands[0]:
            if left.operation is right.operation and not left.operands and left.type is right.type and not isinstance(left, Tensor):
                if left.operation.name == "parameter":
                    return False
                continue
            return False
        pending.extend(zip(*operands, strict=True))
    return True
