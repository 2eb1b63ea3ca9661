"""Formulas as trees of names, numbers and operations, parsed as Python expressions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from explorer.core.errors import OperandError, UnknownNameError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
    ast.MatMult: "matmul", ast.FloorDiv: "floor_divide", ast.Mod: "remainder",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "negative", ast.Invert: "invert"}
_MAX_LENGTH = 10_000
"""maximum number of characters in a formula; Python's parser may fail for deeply nested brackets"""


@dataclass(frozen=True)
class Variable:
    """Variable of a formula; it matches any value."""

    name: str

    def __str__(self) -> str:
        return self.name

    def variables(self) -> set[str]:
        """Return the names of the variables in the formula."""
        return {self.name}


@dataclass(frozen=True)
class Literal:
    """Number in a formula."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"

    def variables(self) -> set[str]:
        """Return the empty set."""
        return set()


@dataclass(frozen=True)
class Apply:
    """Operation in a formula, applied to formulas, with the attributes that it must have."""

    operation: str
    operands: tuple[Formula, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        parts = [*map(str, self.operands), *(f"{name}={value!r}" for name, value in self.attributes)]
        return f"{self.operation}({', '.join(parts)})"

    def variables(self) -> set[str]:
        """Return the names of the variables in the formula."""
        return {name for operand in self.operands for name in operand.variables()}


Formula: TypeAlias = Variable | Literal | Apply


def parse(text: str, known: Collection[str], kind: str = "operation") -> Formula:
    """Parse a formula; its operations must be in ``known``.

    Raises OperandError if the syntax is invalid, and UnknownNameError if an operation is unknown.
    """
    if not isinstance(text, str):
        raise _refusal(repr(text), f"it is {class_text(text)}, not a string")
    if len(text) > _MAX_LENGTH:
        raise _refusal(text, f"{len(text)} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    # Python's parser raises MemoryError or RecursionError if brackets are nested too deeply
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refusal(text, str(error).splitlines()[0]) from None
    return _formula(tree.body, text, known, kind)


def _formula(node: ast.expr, text: str, known: Collection[str], kind: str) -> Formula:
    def subformula(expression: ast.expr) -> Formula:
        return _formula(expression, text, known, kind)

    match node:
        case ast.Name(id=name):
            return Variable(name)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Literal(-value)
        case ast.UnaryOp(op=operator, operand=operand) if type(operator) in _UNARY:
            return Apply(_UNARY[type(operator)], (subformula(operand),))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return Apply(_BINARY[type(operator)], (subformula(left), subformula(right)))
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=operands, keywords=keywords):
            name = ast.unparse(function)  # operator types of files may contain dots, as in nn.SiLU
            if name not in known:
                raise UnknownNameError(name, kind=kind, known=known)
            return Apply(
                name, tuple(map(subformula, operands)), tuple(_attribute(keyword, text) for keyword in keywords)
            )
    raise _refusal(text, ast.unparse(node))


def _attribute(keyword: ast.keyword, text: str) -> tuple[str, Any]:
    try:
        return keyword.arg or "**", ast.literal_eval(keyword.value)
    except ValueError:
        raise _refusal(text, f"{ast.unparse(keyword)} is not a number, string or tuple") from None


def _refusal(text: str, reason: str) -> OperandError:
    return OperandError(
        f"the formula {text[:80]!r}: {reason[:80]}",
        rule="a formula must consist of names, numbers, operators, and operations with their attributes",
        fix='"x * sigmoid(x)", "softmax(x, axis=1)"',
    )


def record(tree: Formula, values: Mapping[str, Expr]) -> Any:
    """Record a formula with the given values of its variables; a Python number gets the dtype of the other operand."""
    if isinstance(tree, Variable):
        return values[tree.name]
    if isinstance(tree, Literal):
        return tree.value
    operands = [record(operand, values) for operand in tree.operands]
    return functions[tree.operation](*operands, **dict(tree.attributes))
