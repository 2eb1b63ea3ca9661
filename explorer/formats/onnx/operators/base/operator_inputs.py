"""Inputs of an ONNX operator by their names, whether they come from operators or from the file.

Builders of ONNX operators ask here and nowhere else. An attribute of one opset is an input in the next (axes of
Squeeze, pads of Pad, sizes of Split), and an input may be a weight of the file, a constant, or computed. Where a shape
depends on it, its value must be known while the net is built: ``known`` computes it, from constants and shapes, or from
the arrays that the net is built for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Storage, Tensor, tensor_of
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import Array, normalize_axis
from explorer.net.definition.operator_definition import memory_dtype
from explorer.net.operators.context import OperatorContext, plain_array
from explorer.ops.base import reshape
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
_FIRST = ("X", "input", "data", "A", "x", "input 0")
"""names that the standard gives first inputs; the last one stands for operators that it does not know"""


def is_given(op: OperatorContext, name: str) -> bool:
    """Whether an input or attribute is given."""
    return name in op.definition.weights or op.has(name)


def required(op: OperatorContext, name: str) -> Expr:
    """Return an input as an expression; raises OperandError if it is missing or no tensor."""
    expression = op.input(name)
    if expression is None:
        raise op.missing(name)
    return expression


def input_value(op: OperatorContext, name: str) -> Any:
    """Return an input as an expression, a tuple of them for a sequence, or None for an optional that is absent."""
    value = op.argument(name, None)
    if isinstance(value, tuple) and name in op.definition.input_names:
        return value
    return None if value is None and op.has(name) else required(op, name)


def first(op: OperatorContext) -> Expr:
    """Return the first input, whatever ONNX calls it."""
    return required(op, next((name for name in _FIRST if is_given(op, name)), "input"))


def optional(op: OperatorContext, name: str) -> Expr | None:
    """Return an input that may be left out; None without it."""
    return op.input(name)


def members(op: OperatorContext, name: str) -> tuple[Expr, ...]:
    """Return the members of an input that is a list: ``inputs.0``, ``inputs.1``, …"""
    values: list[Expr] = []
    while is_given(op, f"{name}.{len(values)}"):
        values.append(required(op, f"{name}.{len(values)}"))
    if not values:
        raise OperandError("no operands are given", rule=f"{op.definition.type} must have one operand or more")
    return tuple(values)


def known(op: OperatorContext, name: str) -> Array:
    """Return the value of an input or attribute that shapes depend on.

    One that is computed from the net's inputs is computed first; raises UnknownShapeError where these have no values.
    """
    if name in op.definition.weights:
        return op.weight(name).array
    value = op.argument(name)
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


def integers(op: OperatorContext, name: str) -> tuple[int, ...]:
    """Return a known input or attribute that is a list of whole numbers; one number is a list of one."""
    array = known(op, name)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise OperandError(
            f"{name} is {array.dtype.name} of shape {array.shape}",
            rule=f"{op.definition.type}: {name} must be a list of whole numbers",
        )
    return tuple(array.reshape(-1).tolist())


def optional_integers(op: OperatorContext, name: str) -> tuple[int, ...] | None:
    """Return the same for one that may be left out; None without it."""
    return integers(op, name) if is_given(op, name) else None


def number(op: OperatorContext, name: str) -> Any:
    """Return a known input or attribute that is one number."""
    array = known(op, name)
    if array.size != 1:
        raise OperandError(f"{name} has shape {array.shape}", rule=f"{op.definition.type}: {name} must be one number")
    return array.reshape(()).item()


def whole(op: OperatorContext, name: str) -> int:
    """Return a known input or attribute that is one whole number, which may be stored as a real one."""
    value = number(op, name)
    # NaN differs from itself
    if isinstance(value, complex) or value != value or int(min(max(value, -_FAR), _FAR)) != value:
        raise OperandError(f"{name}={value!r}", rule=f"{op.definition.type}: {name} must be a whole number")
    return int(value)


def rows(op: OperatorContext) -> Expr:
    """Return the first operand as rows of numbers, (n, features); one row may come without its axis."""
    x = first(op)
    if x.ndim == 1:
        x = reshape(x, (1, x.size))
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise OperandError(
            f"rows of {x.type}", rule=f"{op.definition.type}: rows must be numbers of shape (n, features)"
        )
    return x


def numbers(op: OperatorContext, name: str, dtype: Any, default: Sequence[int] | None = None) -> Array:
    """Return an attribute that is a list of numbers, or the tensor that stands for it in files of float64."""
    for own in (f"{name}_as_tensor", name):
        if own in op.definition.weights:
            array: Array = op.weight(own).array
            if array.dtype.kind not in "iuf":
                raise OperandError(
                    f"{own} of {array.dtype.name}", rule=f"{op.definition.type}: {name} must be a list of numbers"
                )
            return array.reshape(-1)
    value = op.argument(name, None if default is None else tuple(default))
    items = value if isinstance(value, tuple) else (value,)
    allowed = int if np.dtype(dtype).kind == "i" else (int, float)
    if not all(isinstance(item, allowed) and not isinstance(item, bool) for item in items):
        raise OperandError(f"{name}={value!r:.80}", rule=f"{op.definition.type}: {name} must be a list of numbers")
    try:
        return np.asarray(items, dtype)
    except OverflowError as error:
        raise OperandError(f"{name}: {error}", rule=f"{op.definition.type}: {name} must fit 64 bits") from None


def word(op: OperatorContext, name: str, default: str, among: tuple[str, ...]) -> str:
    """Return an attribute that must be one of some words."""
    value = op.argument(name, default)
    if value not in among:
        raise OperandError(f"{name}={value!r}", rule=f"{op.definition.type}: {name} must be {' or '.join(among)}")
    return str(value)


def axis_of(op: OperatorContext, x: Expr, default: int, name: str = "axis") -> int:
    """Return an attribute that names an axis of x, counted from the front."""
    return normalize_axis(op.integer(name, default), x.ndim, op.definition.type)


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
    return tensor_of(Storage(evaluate(value))) if few and _is_small(value) else value


def _is_small(value: Expr) -> bool:
    """Whether nothing that is computed on the way to a value is large."""
    for node in reachable([value]):
        types = [operand.type for operand in node.operands]
        if node.operands and max(node.type.nbytes, node.operation.workspace(*types)) > _ON_THE_WAY:
            return False
    return True


_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip
"""ONNX's numbers of dtypes (TensorProto.DataType), without those that explorer does not compute in"""
TEXT, BFLOAT16, FLOAT8_E8M0 = 8, 16, 24
"""numbers of texts, of bfloat16, which is held as float32, and of the powers of two that are scales of blocks"""
_NARROW = {
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", FLOAT8_E8M0: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""numbers of dtypes that are stored, cast and moved, and not computed in"""


def dtype_of(op: OperatorContext, name: str, default: int | None = None, *, narrow: bool = False) -> np.dtype[Any]:
    """Return the dtype that an attribute names; raises OperandError for one that explorer does not compute in.

    ``narrow`` ones are allowed where elements are only stored.
    """
    code = op.integer(name) if default is None else op.integer(name, default)
    return dtype_by(code, op.definition.type, name, narrow=narrow)


def dtype_by(code: int, type: str, name: str, *, narrow: bool = False) -> np.dtype[Any]:
    """Return the dtype of a number that an operator type has under some name; raises OperandError as above."""
    if narrow and code in _NARROW:
        return memory_dtype(_NARROW[code])
    if code not in _DTYPES:
        raise OperandError(
            f"{name}={code}",
            rule=f"{type}: elements must be booleans, or real, complex or whole numbers of 8 bits "
            "or more; bfloat16, texts and narrower numbers are not computed with",
        )
    return np.dtype(_DTYPES[code])
