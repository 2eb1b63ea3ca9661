"""C expressions of elementwise operations, which they declare in their class bodies (``Elementwise.c``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.tensor_type import TensorType
from explorer.ops.base import Elementwise
from explorer.plan.codegen.kernel_code import Obstacle

_FILES = files("explorer.plan.codegen")
_FLOAT32 = [(_FILES / f"{name}.c").read_text(encoding="utf-8") for name in ("rows", "products")]
_GENERAL = (_FILES / "functions.c").read_text(encoding="utf-8")
_WORD = re.compile(r"\w+_f\d\d\b")
_SPECIAL = {
    text: frozenset(_WORD.findall(text)).difference(_WORD.findall(_GENERAL))
    for text in [*_FLOAT32, *[text.replace("f32", "f64") for text in _FLOAT32]]
}
"""functions of rows and of products, for each dtype → words in them"""
FUNCTIONS = "".join([_GENERAL, *_SPECIAL])
"""C functions that generated code calls"""
DEFINED = frozenset(re.findall(r"^(?:INLINE \w+ |static \w+ |#define )(\w+)", FUNCTIONS, re.MULTILINE))
"""names of these functions and of macros"""
TYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.bool_): "uint8_t"}
"""dtype → C type of an array's element"""
BOOLEAN = np.dtype(np.bool_)


def functions_for(code: str) -> str:
    """Return the C functions for ``code``; functions of rows and products only for the dtypes that it calls.

    The compiler would take 5 ms to read the others.
    """
    used = _WORD.findall(code)
    return "".join([_GENERAL, *[text for text, words in _SPECIAL.items() if not words.isdisjoint(used)]])


def expression_obstacle(node: Expr, operands: Sequence[Expr]) -> Obstacle | None:
    """Return why there is no C expression of a node, or None."""
    operation = node.operation
    if not isinstance(operation, Elementwise) or not has_expression(operation):
        return Obstacle("no_expression", node)
    types = [node.type, *[operand.type for operand in operands]]
    dtypes = [type_.dtype for type_ in types if isinstance(type_, TensorType)]
    if unknown := [dtype for dtype in dtypes if dtype not in TYPES]:
        return Obstacle("dtype", node, {"dtype": str(unknown[0])})
    floating = list(dict.fromkeys(dtype for dtype in dtypes if dtype != BOOLEAN))
    if len(floating) > 1:
        return Obstacle("dtype", node, {"dtype": " and ".join(map(str, floating))})
    if not floating and not operation.c_of_booleans:
        return Obstacle("dtype", node, {"dtype": "bool"})
    expression = c_expression(operation, floating[0] if floating else BOOLEAN, ["x"] * len(operands))
    return None if are_defined([expression]) else Obstacle("function", node, {"dtype": str(floating[0])})


def are_defined(expressions: Sequence[str]) -> bool:
    """Return whether there are C functions of all calls in C expressions."""
    return DEFINED.issuperset(re.findall(r"(\w+_f(?:32|64))\(", " ".join(expressions)))


def has_expression(operation: Elementwise) -> bool:
    """Return whether an operation declares a C expression for its own kernel, not for one that a subclass replaced."""
    kind = type(operation)
    declares = _owner(kind, "c" if _owner(kind, "c_expression") is Elementwise else "c_expression")
    return declares is not Elementwise and issubclass(declares, _owner(kind, "kernel"))


def has_rows(operation: Operation) -> bool:
    """Return whether an operation declares C lines of a row, for its own kernel like ``has_expression``."""
    declares = _owner(type(operation), "c_rows")
    return declares is not Operation and issubclass(declares, _owner(type(operation), "kernel"))


def _owner(kind: type, name: str) -> type:
    return next(base for base in kind.__mro__ if name in vars(base))


def c_expression(operation: Elementwise, dtype: np.dtype[Any], operands: Sequence[str]) -> str:
    """Return the C expression of an element of an operation that computes in ``dtype``."""
    return operation.c_expression(suffix(dtype), *operands)


def suffix(dtype: np.dtype[Any]) -> str:
    """Return the suffix of the functions of a dtype: f64 for float64, else f32."""
    return "f64" if dtype == np.float64 else "f32"


def computed_dtype(node: Expr, operands: Sequence[Expr]) -> np.dtype[Any]:
    """Return the floating dtype in which an elementwise node computes, or bool if all its values are booleans."""
    return next((each.dtype for each in (node, *operands) if each.dtype != BOOLEAN), BOOLEAN)


def is_numeric(node: Expr, dtype: np.dtype[Any]) -> bool:
    """Return whether a node that computes in ``dtype`` reads booleans as the numbers 0 and 1."""
    assert isinstance(node.operation, Elementwise)
    return dtype != BOOLEAN and not node.operation.c_of_booleans


def as_number(node: Expr, element: str) -> str:
    """Return the C expression of an element as a number: any nonzero byte of a boolean array is 1, as in NumPy."""
    return f"({element} != 0)" if node.dtype == BOOLEAN else element


def declaration(node: Expr, name: str) -> str:
    """Return the beginning of the C line that defines the value of a node."""
    return f"{'int' if node.dtype == BOOLEAN else TYPES[node.dtype]} {name}"
