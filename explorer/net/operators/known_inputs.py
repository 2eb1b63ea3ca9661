"""Helpers for named inputs of operators, and for values that must be known while a net is built.

If a shape depends on an input, ``known_value`` computes the input's value from constants and shapes, or from the arrays
for which the net is built. If all operands of an operator are small constants, ``folded`` also computes its results.
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

_MAX_KNOWN = 1024
"""maximum number of elements of a value that is computed while the net is built: shapes, axes, indices"""
_MAX_KNOWN_FLOATS = 16
"""the same for floats, which allows scales and limits, but no tables"""
_MAX_INTERMEDIATE_BYTES = 1 << 20
"""maximum size of an intermediate result while a known value is computed, since opening a file must be fast"""
_INT_LIMIT = 1 << 63
"""limit to which numbers are clipped before conversion to int; lengths are smaller, and ∞ could not be converted"""


def is_given(op: OperatorContext, name: str) -> bool:
    """Return whether an input or attribute is given."""
    return name in op.definition.weights or op.has(name)


def required(op: OperatorContext, name: str) -> Expr:
    """Return an input as an expression; raise OperandError if it is missing or not a tensor."""
    expression = op.input(name)
    if expression is None:
        raise op.missing(name)
    return expression


def optional(op: OperatorContext, name: str) -> Expr | None:
    """Return an optional input, or None if it is absent."""
    return op.input(name)


def known_value(op: OperatorContext, name: str, value: Any) -> Array:
    """Return the value of an input or attribute, on which shapes depend, as an array.

    If it depends on the net's inputs, it is computed now; raise UnknownShapeError if these have no values.
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
    """Return a known value as a tuple of integers; raise OperandError if it is not a list of integers."""
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise OperandError(
            f"{name} is {array.dtype.name} of shape {array.shape}",
            rule=f"{op.definition.type}: {name} must be a list of integers",
        )
    return tuple(array.reshape(-1).tolist())


def as_number(op: OperatorContext, name: str, array: Array) -> Any:
    """Return a known value as a Python number; raise OperandError if it has more than one element."""
    if array.size != 1:
        raise OperandError(f"{name} has shape {array.shape}", rule=f"{op.definition.type}: {name} must be one number")
    return array.reshape(()).item()


def as_integer(op: OperatorContext, name: str, array: Array) -> int:
    """Return a known value as an integer, which may be stored as a float; raise OperandError for any other value."""
    value = as_number(op, name, array)
    # value != value: NaN
    if isinstance(value, complex) or value != value or int(min(max(value, -_INT_LIMIT), _INT_LIMIT)) != value:
        raise OperandError(f"{name}={value!r}", rule=f"{op.definition.type}: {name} must be an integer")
    return int(value)


def is_known(value: Expr) -> bool:
    """Return whether a value is a small constant, so that results derived from it can be computed now."""
    if not isinstance(value.operation, (Full, Zero)) and not isinstance(value, Tensor):
        return False
    return value.size <= _MAX_KNOWN


def value_of(value: Expr) -> Array:
    """Return the elements of a known value."""
    if isinstance(value, Tensor):
        return value.array
    array: Array = value.operation.kernel(None)
    return array


def fold(value: Any) -> Any:
    """Return the value as a constant if it depends only on known values and is small; else return it unchanged."""
    if not isinstance(value, Expr) or is_known(value):
        return value
    # Larger float arrays stay in the graph, since a constant would hide how they are computed.
    is_small = value.size <= (_MAX_KNOWN if value.dtype.kind in "iubU" else _MAX_KNOWN_FLOATS)
    return tensor_of_values(value.tensor_type, evaluate(value)) if is_small and _is_cheap(value) else value


def folded(op: OperatorContext, result: Any) -> Any:
    """Return the results of an operator; if all operands are known, the results are constants."""
    if isinstance(result, tuple) and len(op.definition.outputs) == 1:
        (result,) = result
    if not all(isinstance(value, Expr) and is_known(value) for value in op.passed):
        return result
    return tuple(map(fold, result)) if isinstance(result, tuple) else fold(result)


def _is_cheap(value: Expr) -> bool:
    """Return whether all intermediate results in the computation of a value are small."""
    for node in reachable([value]):
        types = [operand.type for operand in node.operands]
        if node.operands and max(node.type.nbytes, workspace_of(node.operation, *types)) > _MAX_INTERMEDIATE_BYTES:
            return False
    return True
