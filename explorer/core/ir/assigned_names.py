"""Names of the variables that the user's source assigns values of expressions to, or uses as operands.

A recorded node stores its code object and instruction, for which Python provides the source columns of the expression.
If they cover the entire right-hand side of ``h = …``, the value was assigned to ``h``. Source files are only parsed on
demand, and never while recording.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

_MAX_PARSED = 1_000_000
"""maximum number of characters of a file that is parsed: a generated file of 10 MB takes seconds"""
_Span = tuple[int | None, int | None, int | None, int | None]
"""first line, last line, first column and last column of an expression, as in ``co_positions``"""


class WholeValue(NamedTuple):
    """Statement that uses the entire value of an expression."""

    variable: str
    """variable to which the value is assigned; "" if the value is returned"""
    callee: str
    """name of the function or method whose call returns the value; "" for an operator or an index"""
    parts: tuple[str, ...] = ()
    """variables to which the items of the value are assigned, as in ``q, k = f(x)``"""


@functools.lru_cache(maxsize=4096)
def _whole_value(code: CodeType, instruction: int, filename: str) -> WholeValue | None:
    span = _position(code, instruction)
    return None if span is None else _whole_values("".join(linecache.getlines(filename))).get(span)


def _position(code: CodeType, instruction: int) -> _Span | None:
    # f_lasti counts bytes, while co_positions counts instructions of two bytes
    return next(itertools.islice(code.co_positions(), instruction // 2, None), None)


def whole_value(code: CodeType, instruction: int) -> WholeValue | None:
    """Return the statement that uses exactly the value of an instruction, or None."""
    return _whole_value(code, instruction, code.co_filename)


def assigned_name(code: CodeType, instruction: int) -> str:
    """Return the variable to which an instruction's value is assigned (``W = ex.tensor(…)`` → W).

    Returns "" unless the instruction is the entire right-hand side of an assignment to a single variable.
    """
    value = whole_value(code, instruction)
    return value.variable if value is not None else ""


def operand_names(code: CodeType, instruction: int, function: str) -> tuple[str, ...]:
    """Return the variables that are the operands of an operator or of a call of ``function`` (``x @ W`` → x, W).

    The name of an operand that is not a variable is "". Returns () if the instruction is neither, or if its source is
    unknown.
    """
    span = _position(code, instruction)
    if span is None:
        return ()
    names = _names_of_operands("".join(linecache.getlines(code.co_filename)))
    return names.get((span, ""), names.get((span, function), ()))


@functools.lru_cache(maxsize=32)
def _names_of_operands(source: str) -> dict[tuple[_Span, str], tuple[str, ...]]:
    """Return the operands' names of the operators and calls in source code.

    The keys are the expression's position and the called function's name, which is "" for an operator.
    """
    result: dict[tuple[_Span, str], tuple[str, ...]] = {}
    tree = parsed(source)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.BinOp(left=left, right=right):
                result[_span(node), ""] = (_name(left), _name(right))
            case ast.Call(args=operands):
                result[_span(node), _callee(node)] = tuple([_name(operand) for operand in operands])
    return result


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of source code, or None if it is invalid or too large."""
    if len(source) > _MAX_PARSED:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=32)
def _whole_values(source: str) -> dict[_Span, WholeValue]:
    """Return the statements in source code that use a single value, keyed by the position of the value's expression."""
    tree = parsed(source)
    return dict(pair for node in ast.walk(tree) for pair in _values(node)) if tree is not None else {}


def _values(node: ast.AST) -> Iterator[tuple[_Span, WholeValue]]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
            yield from _unpacked(targets, value)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield _span(value), WholeValue(name, _callee(value))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield _span(value), WholeValue(name, _callee(value))
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield _span(value), WholeValue(name, _callee(value))
        case ast.AugAssign(target=ast.Name(id=name)):
            # Python gives the operator of ``h += x`` the position of the whole statement.
            yield _span(node), WholeValue(name, "")
        case ast.Return(value=ast.expr() as value):
            yield _span(value), WholeValue("", _callee(value))


def _unpacked(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[_Span, WholeValue]]:
    """Yield the values that ``a, b = …`` assigns, each with the position of its expression.

    A tuple on the right-hand side yields one entry per item, and a call that returns all items yields a single entry.
    """
    if any(isinstance(target, ast.Starred) for target in targets):
        return
    names = [target.id if isinstance(target, ast.Name) else "" for target in targets]
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
            yield from [
                (_span(part), WholeValue(name, _callee(part))) for name, part in zip(names, parts, strict=False)
            ]
        case ast.Call():
            yield _span(value), WholeValue("", _callee(value), tuple(names))


def _span(node: ast.expr | ast.stmt) -> _Span:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _callee(value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case ast.Call():
            return "?"
    return ""
