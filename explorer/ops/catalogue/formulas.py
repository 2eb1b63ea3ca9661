"""Formulas of small expressions, as they would be typed: ``g * (1 - square(y))``."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.core.ir.expr import Expr
from explorer.core.ir.traversal import reachable
from explorer.record.reasons import counted_text

_INFIX = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2)}
"""operation → its sign and how tightly it binds"""
_NEGATIVE, _CALL = 3, 4
_LARGEST = 10
"""operations that a formula shows"""


def formula(expression: Expr, names: Mapping[int, str]) -> str:
    """Return the formula of an expression; ``names`` are those of known values, by uid."""
    nodes = reachable([expression], stop=lambda node: node.uid in names)
    size = sum(bool(node.operands) for node in nodes if node.uid not in names)
    if size > _LARGEST:
        return f"an expression of {counted_text(size, 'operation')}"
    written: dict[int, tuple[str, int]] = {}
    for node in nodes:
        written[node.uid] = (names[node.uid], _CALL) if node.uid in names else _written(node, written)
    return written[expression.uid][0]


def _written(node: Expr, operands: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
    """The formula of one node, and how tightly its outermost operation binds."""
    parts = [operands[operand.uid] for operand in node.operands]
    name = node.operation.name
    if not parts:
        return node.label, _CALL
    if name in _INFIX and len(parts) == 2:
        sign, binds = _INFIX[name]
        (left, left_binds), (right, right_binds) = parts
        left = f"({left})" if left_binds < binds else left
        right = f"({right})" if right_binds <= binds else right
        return f"{left} {sign} {right}", binds
    if name == "negative":
        ((operand, binds),) = parts
        return f"-{operand}" if binds >= _NEGATIVE else f"-({operand})", _NEGATIVE
    attributes = [f"{key}={value!r}" for key, value in node.operation.attributes.items()]
    return f"{name}({', '.join([text for text, _ in parts] + attributes)})", _CALL
