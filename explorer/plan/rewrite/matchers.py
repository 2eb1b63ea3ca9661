"""Matchers: functions with which rules test operations, constants, signs and dtypes.

Matchers examine only structure, never values, so their results are valid for every run. True means that a property
certainly holds, False that this is not known.
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
from explorer.record.dimension_names import shape_text

_Operation = TypeVar("_Operation", bound=Operation)


CONSTANTS = (Full, Zero, BroadcastTo, Reshape)
"""operations that create a structured constant, and the views that `constant` skips"""

MEMBERS = (Index0, Slice)
"""operations that select one element along a value's first axis"""

POWERS = (Exp, Softmax, Sigmoid, Cosh)
"""operations whose results are positive, but may overflow or be rounded to 0"""


def producer(node: Expr, operation_class: type[_Operation]) -> _Operation | None:
    """Return the operation of ``node`` if it is an instance of ``operation_class``, otherwise None."""
    operation = node.operation
    return operation if isinstance(operation, operation_class) else None


def constant(node: Expr, graph: PlanGraph) -> Number | None:
    """Return the number that all elements of a structured constant have, or None; views of a constant are included."""
    while isinstance(node.operation, (BroadcastTo, Reshape)):
        (node,) = graph.operands(node)
    if isinstance(node.operation, Full):
        return node.operation.value
    return 0 if isinstance(node.operation, Zero) else None


def member(node: Expr, graph: PlanGraph) -> tuple[Expr, int] | None:
    """Return (value, index) if ``node`` selects one element along the first axis of a value; otherwise return None.

    The selection may come from batching, or be written as ``value[index]``.
    """
    operation = node.operation
    if isinstance(operation, Index0):
        return graph.operand(node, 0), operation.index
    if isinstance(operation, Slice) and operation.spans and isinstance(operation.spans[0], int):
        (source,) = graph.operands(node)
        if operation.spans[1:] == tuple([(0, size, 1) for size in source.shape[1:]]):
            return source, operation.spans[0]
    return None


def difference(x: Expr, node: Expr) -> dict[str, str]:
    """Return the facts ``given`` and ``wanted``: the dtypes of two nodes if these differ, otherwise their shapes."""
    if x.dtype != node.dtype:
        return {"given": str(x.dtype), "wanted": str(node.dtype)}
    given, wanted = [f"of shape {shape_text(each.shape)}" if each.shape else "a scalar" for each in (x, node)]
    return {"given": given, "wanted": wanted}


def is_real(node: Expr) -> bool:
    """Return whether the elements are floating and not complex; the usual identities require this."""
    return node.dtype.kind == "f"


def is_known_positive(node: Expr) -> bool:
    """Return whether every element is positive or NaN, in exact arithmetic and for all operands.

    After rounding an element may be 0.0: exp(−1000) underflows.
    """
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value > 0
    return operation.range == "positive" and is_real(node)


def is_known_nonnegative(node: Expr) -> bool:
    """Return whether every element is at least 0 or NaN, for all operands; a constant must not be −0.0.

    Signed integers wrap around, so the square or the absolute value of an integer can be negative.
    """
    operation = node.operation
    if isinstance(operation, Full):
        return not isinstance(operation.value, complex) and operation.value >= 0 and str(operation.value) != "-0.0"
    return node.dtype.kind in "bu" or (operation.range != "real" and is_real(node))


def never_minus_zero(node: Expr) -> bool:
    """Return whether no element is −0.0, for all operands; positive values underflow to 0.0.

    A sum is −0.0 only if both operands are −0.0.
    """
    if isinstance(node.operation, Add) and is_real(node):
        return any(_gives_no_minus_zero(operand) for operand in node.operands)
    return _gives_no_minus_zero(node)


def _gives_no_minus_zero(node: Expr) -> bool:
    operation = node.operation
    if isinstance(operation, Full):
        return str(operation.value) != "-0.0"
    if node.dtype.kind in "biu":
        return True
    return is_real(node) and (operation.range in ("positive", "unit") or isinstance(operation, (Absolute, Square)))


def keeps_digits(narrow: np.dtype[Any], wide: np.dtype[Any]) -> bool:
    """Return whether the dtype ``wide`` can represent every value of ``narrow`` exactly.

    NumPy calls the cast from int64 to float64 safe, although it loses digits.
    """
    if not np.can_cast(narrow, wide, "safe"):
        return False
    if narrow.kind in "iu" and wide.kind in "fc":
        # int32 has 31 binary digits and a sign. float64 has 53 digits, so it can represent every int32, but not every
        # int64.
        digits = 8 * narrow.itemsize - (narrow.kind == "i")
        return digits <= np.finfo(wide).nmant + 1
    return True


def same(a: Expr, b: Expr, graph: PlanGraph) -> bool:
    """Return whether two nodes have the same value according to their structure.

    They are the same node, or apply the same operation to the same operands. At most 64 pairs of nodes are compared; if
    this is not enough, the result is False. Dedup would merge larger equal structures, but a rule may run before dedup.
    """
    pending = [(a, b)]
    budget = 64
    while pending:
        left, right = pending.pop()
        left, right = graph.resolve(left), graph.resolve(right)
        if left is right:
            continue
        budget -= 1
        # Tensors are compared by storage, because two arrays with equal numbers may differ in the next run.
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
