"""Matchers, with which rules test operations, constants, signs and dtypes.

They test only structure, never values, so that an answer holds in every run. True is certain; False means "not known".
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Number
from explorer.ops.creation.constants import Full, Zero
from explorer.ops.elementwise.arithmetic import Add
from explorer.ops.elementwise.trigonometric_and_logs import Cosh
from explorer.ops.elementwise.unary import Absolute, Exp, Sigmoid, Square
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.ops.nn.softmax import Softmax
from explorer.plan.graph.plan_graph import PlanGraph

_Operation = TypeVar("_Operation", bound=Operation)


CONSTANTS = (Full, Zero, BroadcastTo, Reshape)
"""operations that create a described constant, and the views that `constant` skips"""

MEMBERS = (Index0, Slice)
"""operations that select one element of a value's first axis"""

POWERS = (Exp, Softmax, Sigmoid, Cosh)
"""operations with positive results that may overflow, or be rounded to 0"""


def producer(node: Expr, operation_class: type[_Operation]) -> _Operation | None:
    """Return the node's operation if it is an instance of a class, else None."""
    operation = node.operation
    return operation if isinstance(operation, operation_class) else None


def constant(node: Expr, graph: PlanGraph) -> Number | None:
    """Return the value that all elements of a described constant have, through any views; None for other nodes."""
    while isinstance(node.operation, (BroadcastTo, Reshape)):
        (node,) = graph.operands(node)
    if isinstance(node.operation, Full):
        return node.operation.value
    return 0 if isinstance(node.operation, Zero) else None


def member(node: Expr, graph: PlanGraph) -> tuple[Expr, int] | None:
    """Return value and index if a node selects one element of the first axis, by batching or as ``value[index]``."""
    operation = node.operation
    if isinstance(operation, Index0):
        return graph.operands(node)[0], operation.index
    if isinstance(operation, Slice) and operation.spans and isinstance(operation.spans[0], int):
        (source,) = graph.operands(node)
        if operation.spans[1:] == tuple([(0, size, 1) for size in source.shape[1:]]):
            return source, operation.spans[0]
    return None


def is_real(node: Expr) -> bool:
    """Whether the elements are floating and not complex, as the usual identities require."""
    return node.dtype.kind == "f"


def is_known_positive(node: Expr) -> bool:
    """Whether every element is > 0 in exact arithmetic for all operands (NaN aside).

    With rounding it can be 0.0: exp(−1000) underflows.
    """
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value > 0
    return operation.range == "positive" and is_real(node)


def is_known_nonnegative(node: Expr) -> bool:
    """Whether every element is ≥ 0 for all operands (NaN aside); a constant must be 0.0 or more, not −0.0.

    Signed integers wrap around: a square or an absolute value of integers can be negative.
    """
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value >= 0 and str(operation.value) != "-0.0"
    return node.dtype.kind in "bu" or (operation.range != "real" and is_real(node))


def never_minus_zero(node: Expr) -> bool:
    """Whether no element is −0.0, for all operands; positive values underflow to 0.0.

    A sum is −0.0 only if both operands are.
    """
    if isinstance(node.operation, Add) and is_real(node):
        return any(_gives_no_minus_zero(operand) for operand in node.operands)
    return _gives_no_minus_zero(node)


def _gives_no_minus_zero(node: Expr) -> bool:
    """Whether an operation's range excludes −0.0."""
    operation = node.operation
    if isinstance(operation, Full):
        return str(operation.value) != "-0.0"
    if node.dtype.kind in "biu":
        return True
    return is_real(node) and (operation.range in ("positive", "unit") or isinstance(operation, (Absolute, Square)))


def keeps_digits(narrow: np.dtype[Any], wide: np.dtype[Any]) -> bool:
    """Whether a dtype holds every value of another exactly; NumPy calls int64 to float64 safe, which loses digits."""
    if not np.can_cast(narrow, wide, "safe"):
        return False
    if narrow.kind in "iu" and wide.kind in "fc":
        # int32 has 31 binary digits and a sign, and float64 holds 53, so it holds every int32, but not every int64.
        digits = 8 * narrow.itemsize - (narrow.kind == "i")
        return digits <= np.finfo(wide).nmant + 1
    return True


def same(a: Expr, b: Expr, graph: PlanGraph) -> bool:
    """Whether two nodes have one value by structure: the same node, or the same operation on the same operands.

    At most 64 pairs of nodes are compared, after which the answer is False. Dedup would merge larger equal structures,
    but a rule may be asked before it has run.
    """
    pending = [(a, b)]
    budget = 64
    while pending:
        left, right = pending.pop()
        left, right = graph.resolve(left), graph.resolve(right)
        if left is right:
            continue
        budget -= 1
        # Tensors are compared by storage: two arrays with equal numbers may differ in the next run.
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            if left.storage is not right.storage:
                return False
            continue
        if budget < 0 or left.operation is not right.operation:
            return False
        first, second = graph.operands(left), graph.operands(right)
        if len(first) != len(second):
            return False
        if not first and not isinstance(left.operation, (Full, Zero)):
            return False
        pending.extend(zip(first, second, strict=True))
    return True
