"""Table of known functions with their formulas, the largest formulas first.

In a formula, ``x`` is any value and ``eps`` any small positive number. All reductions use the same axes and keep them.
Only ``any_sum`` and ``any_max`` may drop the axes; in this case, all reductions of the formula drop them. A formula
represents all forms that are equal in the algebra.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from explorer.record.compositions.formula_algebra import Algebra, Applied, Atom, Number, Product, Reduction, Sum

_TABLE = {
    "GELU": (
        "0.5 * x * (1 + erf(x / 2**0.5))",
        "x * (0.5 + 0.5 * erf(x / 2**0.5))",
    ),
    "GELU by tanh": (
        "0.5 * x * (1 + tanh((2 / pi)**0.5 * (x + 0.044715 * x**3)))",
        "0.5 * x * (1 + tanh((2 / pi)**0.5 * x * (1 + 0.044715 * x**2)))",
        "x * (0.5 + 0.5 * tanh((2 / pi)**0.5 * (x + 0.044715 * x**3)))",
        "x * (0.5 + 0.5 * tanh((2 / pi)**0.5 * x * (1 + 0.044715 * x**2)))",
    ),
    "GELU by sigmoid": (
        "x * sigmoid(1.702 * x)",
        "x / (1 + exp(-1.702 * x))",
    ),
    "SiLU": (
        "x * sigmoid(x)",
        "x / (1 + exp(-x))",
    ),
    "sigmoid": (
        "1 / (1 + exp(-x))",
        "exp(x) / (1 + exp(x))",
        "0.5 * (1 + tanh(x / 2))",
        "0.5 + 0.5 * tanh(x / 2)",
    ),
    "softmax": (
        "exp(x - max(x)) / sum(exp(x - max(x)))",
        "exp(x) / sum(exp(x))",
    ),
    "layer norm": (
        "(x - mean(x)) / (mean((x - mean(x))**2) + eps)**0.5",
        "(x - mean(x)) / (mean(x**2) - mean(x)**2 + eps)**0.5",
        "(x - mean(x)) / mean((x - mean(x))**2)**0.5",
    ),
    "RMS norm": ("x / (mean(x**2) + eps)**0.5",),
    "log-sum-exp": (
        "log(any_sum(exp(x)))",
        "any_max(x) + log(any_sum(exp(x - max(x))))",
    ),
}
_NORMS = ("layer norm", "RMS norm")
"""functions that must reduce the last axes; if other axes are reduced, they are different functions"""
_BINARY: dict[type[ast.operator], Callable[[Algebra, int, int], int]] = {
    ast.Add: Algebra.add,
    ast.Sub: lambda algebra, left, right: algebra.add(left, right, -1.0),
    ast.Mult: Algebra.multiply,
    ast.Div: lambda algebra, left, right: algebra.multiply(left, algebra.power(right, -1.0)),
}


@dataclass(frozen=True, slots=True)
class Formula:
    """Formula of a known function, as a value of the table's algebra."""

    name: str
    text: str
    value: int
    functions: frozenset[str]
    """names of the functions and reductions in the formula"""
    parts: Signature

    @property
    def is_norm(self) -> bool:
        """Whether the reduced axes must be the last axes."""
        return self.name in _NORMS


@cache
def table() -> tuple[Algebra, tuple[Formula, ...]]:
    """Return the algebra, and all formulas as values of this algebra."""
    algebra = Algebra()
    rows = []
    for name, formulas in _TABLE.items():
        for text in formulas:
            tree = ast.parse(text, mode="eval").body
            called = [call.func for call in ast.walk(tree) if isinstance(call, ast.Call)]
            # If a recording contains no exp, for example, it contains no softmax, and the formula is skipped.
            functions = frozenset([function.id for function in called if isinstance(function, ast.Name)])
            value = _value(algebra, tree)
            rows.append(Formula(name, text, value, functions, signature(algebra, value)))
    return algebra, tuple(rows)


def _value(algebra: Algebra, tree: ast.expr) -> int:
    """Return the value of a formula's syntax tree. Recursion is safe, because formulas are short."""
    match tree:
        case ast.Constant(value=(int() | float()) as number):
            return algebra.enter(Number(float(number)))
        case ast.Name(id="pi"):
            return algebra.enter(Number(math.pi))
        case ast.Name(id=name):
            return algebra.enter(Atom(name))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return algebra.multiply(_value(algebra, operand), algebra.enter(Number(-1.0)))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=(int() | float()) as exponent)):
            return algebra.power(_value(algebra, left), float(exponent))
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](algebra, _value(algebra, left), _value(algebra, right))
        case ast.Call(func=ast.Name(id=name), args=[operand]):
            value = _value(algebra, operand)
            prefix, _, reduction = name.rpartition("_")
            if reduction in ("sum", "mean", "max"):
                return algebra.enter(Reduction(reduction, (), prefix != "any", value))
            return algebra.enter(Applied(name, value))
    raise ValueError(f"{ast.unparse(tree)} has no value in a formula")


Signature = frozenset[tuple[str, float]]
"""names and exponents of the factors or terms of a value"""


def signature(algebra: Algebra, value: int) -> Signature:
    """Return a value's signature. A formula's signature is a subset of the signature of every value that matches."""
    return frozenset(_parts(algebra, value))


def _parts(algebra: Algebra, value: int) -> Iterator[tuple[str, float]]:
    terms = algebra.terms
    term = terms[value]
    if isinstance(term, Product):
        for factor, exponent in term.factors:
            factor_term = terms[factor]
            if isinstance(factor_term, Sum):
                yield "+", exponent
                if _has_number(algebra, factor_term):
                    yield "+number", exponent
                for addend, _ in factor_term.terms:
                    if name := _name(algebra, addend):
                        yield f"+{name}", exponent
            elif name := _name(algebra, factor):
                yield name, exponent
    elif isinstance(term, Sum):
        if _has_number(algebra, term):
            yield "number", 1.0
        for addend, _ in term.terms:
            if name := _name(algebra, addend):
                yield name, 1.0
    elif isinstance(term, Applied):
        yield _name(algebra, value), 1.0
        if name := _name(algebra, term.operand):
            yield f"of {name}", 1.0


def _has_number(algebra: Algebra, total: Sum) -> bool:
    """Return whether a sum requires a constant, such as ``eps``, that cannot be part of the formula's ``x``."""
    names = {term.name for term in [algebra.terms[addend] for addend, _ in total.terms] if isinstance(term, Atom)}
    return "x" not in names and (total.constant != 0 or "eps" in names)


def _name(algebra: Algebra, value: int) -> str:
    term = algebra.terms[value]
    return term.function if isinstance(term, (Applied, Reduction)) else ""
