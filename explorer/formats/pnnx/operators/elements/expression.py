"""``pnnx.Expression``: arithmetic in a string, expanded to single operations inside the operator's box.

pnnx folds chains of arithmetic into one operator with an expression such as ``add(@0,mul(@1,2.0))``. The expression is
expanded so that rules, fusion and views see single operations. Functions of Python numbers (sizes, indices) are
evaluated immediately, and functions of tensors are recorded as operations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.memory_budget import as_64_bit_integer, listed
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.expression_parser import parse
from explorer.formats.pnnx.expression_tree import Call, ListOf, Literal, Operand, members, postorder
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.names.operations import BINARY, UNARY, names_in
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where

_OPERATIONS = names_in("torch", UNARY) | names_in("torch", BINARY)
"""explorer's names of the functions that have another name in torch"""
_FLOATING = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2", "cos", "cosh", "div", "erf", "exp", "expm1", "log",
    "log10", "log1p", "logaddexp", "reciprocal", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
))  # fmt: skip
"""functions whose result is floating even if the operand is an integer"""
_MODULAR = frozenset((
    "add", "sub", "mul", "floor_divide", "remainder", "fmod", "and", "or", "xor", "lshift", "rshift",
))  # fmt: skip
"""functions of integers that convert a Python number to the tensor's dtype, with wrap-around"""
_UNCHANGED: Mapping[str, str] = {"round": "iu", "sign": "b"}
"""kinds of dtypes whose elements a function does not change"""
_CASTS: Mapping[str, str] = {"torch.bool": "bool", "torch.float": "float32", "torch.long": "int64", "int": "int64"}
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "neg": operator.neg, "abs": abs, "max": max,
    "min": min, "maximum": max, "minimum": min, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "lshift": operator.lshift, "rshift": operator.rshift, "int": int, "torch.bool": bool, "torch.float": float,
    "torch.long": int, "round": round, "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / math.sqrt(x),
    "square": lambda x: x * x, "sign": lambda x: (x > 0) - (x < 0),
    "logaddexp": lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
}  # fmt: skip
"""functions of Python numbers that are missing from the module math, or have another name there"""


def apply(name: str, values: list[Any]) -> Any:
    """Apply a function to ``values``; return an expression if any of them is a tensor, else a Python value.

    Promotion follows torch: an integer tensor is cast to the dtype of a floating tensor operand, or to float32 if only
    Python numbers are floating.
    """
    if name == "size":
        return _size(*values)
    if not any(isinstance(value, Expr) for value in values):
        return _plain(name, values)
    for value in values:
        if not isinstance(value, (Expr, bool, int, float, complex)):
            raise OperandError(f"{name} of {value!r}", rule="a function must be applied to tensors and numbers")
    if name in _CASTS:
        return cast(values[0], np.dtype(_CASTS[name]))
    if name in _UNCHANGED and values[0].dtype.kind in _UNCHANGED[name]:
        return values[0]
    if name == "square" and values[0].dtype.kind == "b":
        values = [cast(values[0], np.dtype(np.int64))]
    elements = modular(values) if name in _MODULAR else values
    recorded: Expr = function(_OPERATIONS.get(name, name))(*promoted(elements, name in _FLOATING))
    # in torch, the sign of NaN is 0
    return where(values[0] != values[0], 0, recorded) if name == "sign" and recorded.dtype.kind == "f" else recorded


def real(x: Expr) -> Expr:
    """Cast integers and booleans to torch's default dtype, float32; return any other tensor unchanged."""
    return x if x.dtype.kind in "fc" else cast(x, np.dtype(np.float32))


def modular(values: Sequence[Any]) -> list[Any]:
    """Wrap Python integers around to the common dtype of integer tensors, as in torch: 300 becomes 44 for uint8."""
    tensors = [value for value in values if isinstance(value, Expr)]
    if not all(value.dtype.kind in "iu" for value in tensors):
        return [*values]
    ends = np.iinfo(np.result_type(*[value.dtype for value in tensors]))
    return [(value - int(ends.min)) % 2**ends.bits + int(ends.min) if type(value) is int else value for value in values]


def promoted(values: Sequence[Any], is_floating: bool = False) -> list[Any]:
    """Return the operands after torch's type promotion: if one is floating, all tensors become floating.

    If ``is_floating`` is True, integers become floating even if no operand is.
    """
    tensors = [value for value in values if isinstance(value, Expr)]
    floating = [value.dtype for value in tensors if value.dtype.kind in "fc"]
    has_float = any(isinstance(value, (float, complex)) for value in values)
    # NumPy's promotion equals torch's if all tensors are floating, or if no operand is
    if len(floating) == len(tensors) or not (floating or has_float or is_floating):
        return [*values]
    # torch's default dtype, since NumPy would promote an integer tensor and a float to float64
    target = np.result_type(*floating) if floating else np.dtype(np.float32)
    return [
        cast(value, target) if isinstance(value, Expr) and value.dtype.kind not in "fc" else value for value in values
    ]


def _size(x: Any, axis: Any = None) -> Any:
    if not isinstance(x, Expr):
        raise OperandError(f"size of {x!r}", rule="size must be applied to a tensor")
    if axis is None:
        return x.shape
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise OperandError(f"size along {axis!r}", rule="an axis must be an integer")
    return x.shape[normalize_axis(axis, x.ndim, "size")]


def _plain(name: str, values: list[Any]) -> Any:
    if not all(isinstance(value, (bool, int, float, complex)) for value in values):
        raise OperandError(
            f"{name} of {', '.join(map(repr, values))}", rule="a function must be applied to tensors and numbers"
        )
    _check_growth(name, values)
    try:
        result = _PLAIN[name](*values) if name in _PLAIN else getattr(math, name)(*values)
        return (
            as_64_bit_integer(result, f"{name} of {', '.join(map(repr, values))}")
            if isinstance(result, int)
            else result
        )
    except OperandError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise OperandError(
            f"{name} of {', '.join(map(repr, values))}: {error}", rule="the numbers must be in the function's domain"
        ) from None


def _check_growth(name: str, values: list[Any]) -> None:
    """Raise OperandError if the result of a power or shift of integers would have more than 64 bits."""
    if name not in ("pow", "lshift") or not all(isinstance(value, int) for value in values):
        return
    base, exponent = values
    # minimum number of bits of the result, since computing 2 ** 10¹² would exhaust memory
    bits = (abs(base).bit_length() - 1) * exponent + 1 if name == "pow" else base.bit_length() + exponent
    if exponent > 0 and abs(base) > (name == "pow") and bits > 64:
        raise OperandError(f"{name} of {base}, {exponent}", rule="an integer must be in −2⁶³ … 2⁶⁴ − 1 (64 bits)")


@file_operator("pnnx.Expression")
def expression(op: OperatorContext, *, expr: str, dtype: Any = None) -> Any:
    """Return the value of the expression, which is a Python value if no operand is a tensor.

    Equal subexpressions are recorded separately, and deduplication merges them. If pnnx misplaced brackets, the name of
    the box states that the expression was read as prefix notation.
    """
    parsed = parse(expr, len(op.passed))
    if parsed.form == "nested":
        result = _evaluate(parsed.tree, op.operands)
    else:
        with scope("read as prefix notation: its brackets are misplaced", "file"):
            result = _evaluate(parsed.tree, op.operands)
    if dtype is not None and isinstance(result, Expr) and result.dtype.kind == "f":
        raise OperandError(
            f"{expr} is {result.dtype}, but the file states {dtype}",
            rule="the file must state how a quotient is rounded, but pnnx omits the rounding_mode of torch.div",
            fix="write a // b in the module and export again, or open the module: ex.open(module, inputs)",
        )
    return result


def _evaluate(tree: Any, operands: tuple[Any, ...]) -> Any:
    stack: list[Any] = []
    for node in postorder(tree):
        if isinstance(node, Operand):
            stack.append(operands[node.index])
        elif isinstance(node, Literal):
            stack.append(node.value)
        else:
            count = len(members(node))
            arguments = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            assert isinstance(node, (Call, ListOf))
            stack.append(listed(tuple(arguments)) if isinstance(node, ListOf) else apply(node.function, arguments))
    (value,) = stack
    return value
