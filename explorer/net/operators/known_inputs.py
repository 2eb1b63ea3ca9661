"""Inputs of a file's operator by their names, whether they come from operators or from the file.

Where a shape depends on an input, its value must be known while the net is built: ``known_value`` computes it, from
constants and shapes, or from the arrays that the net is built for. If every operand of an operator is a small constant,
its result can be evaluated at once, too: ``fold``.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.accumulation import workspace_of
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor, tensor_of_values
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import Array
from explorer.net.operators.context import OperatorContext, plain_array
from explorer.ops.creation.constants import Full, Zero
from explorer.run import evaluate

_KNOWN = 1024
"""most elements of a value that is computed when the net is built: shapes, axes, indices"""
_KNOWN_REALS = 16
"""most elements of real numbers that are computed then: scales and limits, but no tables"""
_ON_THE_WAY = 1 << 20
"""most bytes of an intermediate result on the way to a known value: opening a file must stay quick"""
_FAR = 1 << 63
"""bound of the numbers that are compared as ints; beyond it none is a length, and ∞ has no int"""


def is_given(op: OperatorContext, name: str) -> bool:
    """Whether an input or attribute is given."""
    return name in op.definition.weights or op.has(name)


def required(op: OperatorContext, name: str) -> Expr:
    """Return an input as an expression; raises OperandError if it is missing or no tensor."""
    expression = op.input(name)
    if expression is None:
        raise op.missing(name)
    return expression


def optional(op: OperatorContext, name: str) -> Expr | None:
    """Return an input that may be left out; None without it."""
    return op.input(name)


def known_value(op: OperatorContext, name: str, value: Any) -> Array:
    """Return the value of an input or attribute that shapes depend on, as an array.

    One that is computed from the net's inputs is computed first; raises UnknownShapeError where these have no values.
    """
    if isinstance(value, Expr):
        if isinstance(value, Tensor) or isinstance(value.operation, (Full, Zero)):
            return value_of(value)
        return op.value(name, value)
    array = plain_array(value)
    if array is None:
        raise OperandError(
            f"{name}={value!r}", rule=f"{op.definition.type}: {name} must be a number or a list of numbers"
        )
    return array


def as_integers(op: OperatorContext, name: str, array: Array) -> tuple[int, ...]:
    """Return a known value that is a list of integers; raises OperandError for another one."""
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise OperandError(
            f"{name} is {array.dtype.name} of shape {array.shape}",
            rule=f"{op.definition.type}: {name} must be a list of integers",
        )
    return tuple(array.reshape(-1).tolist())


def as_number(op: OperatorContext, name: str, array: Array) -> Any:
    """Return a known value that is one number; raises OperandError for another one."""
    if array.size != 1:
        raise OperandError(f"{name} has shape {array.shape}", rule=f"{op.definition.type}: {name} must be one number")
    return array.reshape(()).item()


def as_integer(op: OperatorContext, name: str, array: Array) -> int:
    """Return a known value that is one integer, which may be stored as a real number."""
    value = as_number(op, name, array)
    # NaN differs from itself
    if isinstance(value, complex) or value != value or int(min(max(value, -_FAR), _FAR)) != value:
        raise OperandError(f"{name}={value!r}", rule=f"{op.definition.type}: {name} must be an integer")
    return int(value)


def is_known(value: Expr) -> bool:
    """Whether a value is small and there already, so that what follows from it can be computed at once."""
    if not isinstance(value.operation, (Full, Zero)) and not isinstance(value, Tensor):
        return False
    return value.size <= _KNOWN


def value_of(value: Expr) -> Array:
    """Return the elements of a known value."""
    if isinstance(value, Tensor):
        return value.array
    array: Array = value.operation.kernel(None)
    return array


def fold(value: Any) -> Any:
    """Return a value that follows from known ones alone as a constant: shapes always, real numbers if they are few."""
    if not isinstance(value, Expr) or is_known(value):
        return value
    # Real numbers stay in the graph unless they are few: folding a table of them would hide how it is computed.
    few = value.size <= (_KNOWN if value.dtype.kind in "iubU" else _KNOWN_REALS)
    return tensor_of_values(value.tensor_type, evaluate(value)) if few and _is_small(value) else value


def folded(op: OperatorContext, result: Any) -> Any:
    """Return the results of an operator; those that follow from known operands alone are computed at once."""
    if isinstance(result, tuple) and len(op.definition.outputs) == 1:
        (result,) = result
    if not all(isinstance(value, Expr) and is_known(value) for value in op.passed):
        return result
    return tuple(map(fold, result)) if isinstance(result, tuple) else fold(result)


def _is_small(value: Expr) -> bool:
    """Whether nothing that is computed on the way to a value is large."""
    for node in reachable([value]):
        types = [operand.type for operand in node.operands]
        if node.operands and max(node.type.nbytes, workspace_of(node.operation, *types)) > _ON_THE_WAY:
            return False
    return True
