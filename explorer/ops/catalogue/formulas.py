"""Formulas of small expressions in Python syntax: ``g * (1 - square(y))``."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.core.ir.expr import Expr
from explorer.core.ir.traversal import reachable
from explorer.record.reasons import counted_text

_INFIX = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2)}
"""operation → its operator and precedence"""
_NEGATIVE, _CALL = 3, 4
_MAX_OPERATIONS = 10
"""maximum number of operations in a formula"""


def formula(expression: Expr, names: Mapping[int, str]) -> str:
    """Return the formula of ``expression``; ``names`` maps the uids of known nodes to the names used in the formula."""
    nodes = reachable([expression], stop=lambda node: node.uid in names)
    size = sum(bool(node.operands) for node in nodes if node.uid not in names)
    if size > _MAX_OPERATIONS:
        return f"an expression of {counted_text(size, 'operation')}"
    formulas: dict[int, tuple[str, int]] = {}
    for node in nodes:
        formulas[node.uid] = (names[node.uid], _CALL) if node.uid in names else _node_formula(node, formulas)
    return formulas[expression.uid][0]


def _node_formula(node: Expr, operands: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
    """Return a node's formula and the precedence of its outermost operation."""
    parts = [operands[operand.uid] for operand in node.operands]
    name = node.operation.name
    if not parts:
        return node.label, _CALL
    if name in _INFIX and len(parts) == 2:
        sign, precedence = _INFIX[name]
        (left, left_precedence), (right, right_precedence) = parts
        left = f"({left})" if left_precedence < precedence else left
        right = f"({right})" if right_precedence <= precedence else right
        return f"{left} {sign} {right}", precedence
    if name == "negative":
        ((operand, precedence),) = parts
        return f"-{operand}" if precedence >= _NEGATIVE else f"-({operand})", _NEGATIVE
    attributes = [f"{key}={value!r}" for key, value in node.operation.attributes.items()]
    return f"{name}({', '.join([text for text, _ in parts] + attributes)})", _CALL
