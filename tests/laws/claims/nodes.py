"""Helpers about nodes for the checks of several rules."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex
from explorer.ops.creation.constants import Full, Zero
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape
from explorer.plan.graph.reasons import Facts
from tests.laws.claims.decisions import At, has_value, sizes_text

Expr = ex.Expr


def number(at: At, node: Expr) -> Any:
    """Return the single value of a constant in the program, or None for other nodes."""
    held = [node, *at.below([node]).values()]
    if not all(isinstance(each.operation, (Full, Zero, BroadcastTo, Reshape)) for each in held):
        return None
    elements = at.value(node).reshape(-1).tolist()
    return elements[0] if len({*map(repr, elements)}) == 1 else None


def kind(node: Expr) -> str:
    return str(node.operation.name)


def names(at: At, node: Expr, **paths: tuple[int, ...]) -> Facts:
    """Return facts that are nodes, found by paths of operand positions."""
    return {name: at.below_at(node, *path) for name, path in paths.items()}


def same_bits(at: At, node: Expr) -> bool:
    """Return whether a node equals one of its operands bit for bit, including the signs of zeros."""
    if not has_value(node):
        return True
    whole = at.value(node)
    return any(
        other.shape == whole.shape and other.dtype == whole.dtype and bits(other) == bits(whole)
        for other in map(at.value, at.operands(node))
    )


def bits(value: Any) -> bytes:
    return bytes(
        np.where(np.isnan(value), np.nan, value).astype(value.dtype).tobytes()
        if value.dtype.kind in "fc"
        else value.tobytes()
    )


def pair(at: At, node: Expr) -> Facts:
    """Return the facts of a pair of operations, in which the outer one reads the inner one."""
    return {"outer": node, **names(at, node, inner=(0,))}


def triple(at: At, node: Expr) -> Facts:
    """Return the facts of such a pair and of the inner operation's operand."""
    return {"outer": node, **names(at, node, inner=(0,), x=(0, 0))}


def typed(at: At, node: Expr, *path: int) -> Facts:
    """Return the facts of a value whose type differs from the result's type."""
    x = at.below_at(node, *path)
    return {"x": x, **difference(x, node)}


def difference(x: Any, node: Any) -> Facts:
    """Return the dtypes of two nodes or types if they differ, otherwise their shapes."""
    if x.dtype != node.dtype:
        return {"given": str(x.dtype), "wanted": str(node.dtype)}
    assert x.shape != node.shape
    return {
        "given": f"of shape {sizes_text(x.shape)}" if x.shape else "a scalar",
        "wanted": f"of shape {sizes_text(node.shape)}",
    }
