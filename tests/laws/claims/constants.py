"""Checks of rules about zeros and one-hot vectors, and of constant folding."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex
from explorer.data.type_erasure import Dynamic
from explorer.ops.creation.constants import Full, Literal, OneHot, Structured, Zero
from explorer.ops.manipulation.one_hot import OneHotEncoding
from explorer.ops.manipulation.reshape import Transpose
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes.simplify import Simplify
from explorer.plan.rewrite.constant_folding import Folding, described
from explorer.plan.rewrite.rules import (
    symbolic_constants,
)
from tests.laws.claims.decisions import At, Claim, of_decision, of_nodes, shape_text
from tests.laws.claims.nodes import Expr, bits, difference, kind, names


def is_zero(node: Expr) -> bool:
    return isinstance(node.operation, Zero)


of_nodes(symbolic_constants.ProductWithZero.zero, holds=lambda at, node: any(map(is_zero, at.operands(node))))(
    lambda at, node: {"node": node, "factor": next(filter(is_zero, at.operands(node))), "instead": "NaN"}
)


def hot_and_other(at: At, node: Expr) -> tuple[Any, Expr]:
    """Return the one-hot vector and the other factor."""
    left, right = at.operands(node)
    return (left.operation, right) if isinstance(left.operation, OneHot) else (right.operation, left)


@of_nodes(symbolic_constants.ProductWithOneHot.row, holds=lambda at, n: hot_and_other(at, n)[1].dtype == n.dtype)
def selected_part(at: At, node: Expr) -> Facts:
    hot, other = hot_and_other(at, node)
    part = ("row" if at.below_at(node, 1) is other else "column") if other.ndim > 1 else "element"
    times = "" if hot.value == 1 else f" times {hot.value:g}"
    return {"other": other, "position": hot.position, "part": part, "times": times}


@of_nodes(symbolic_constants.ProductWithOneHot.dtype, holds=lambda at, n: hot_and_other(at, n)[1].dtype != n.dtype)
def other_dtype(at: At, node: Expr) -> Facts:
    other = hot_and_other(at, node)[1]
    return {"other": other, "given": str(other.dtype), "wanted": str(node.dtype)}


def rows_of(at: At, node: Expr) -> tuple[int, bool, Expr, Expr]:
    """Return the position of one-hot rows in a product, whether they are transposed, their labels, and the other
    factor."""
    for place, hot in enumerate(at.operands(node)):
        turned = isinstance(hot.operation, Transpose)
        source = at.below_at(hot, 0) if turned else hot
        if isinstance(source.operation, OneHotEncoding):
            return place, turned, at.below_at(source, 0), at.below_at(node, 1 - place)
    raise AssertionError("no one-hot rows")


def rows_facts(at: At, node: Expr) -> Facts:
    place, _, _, other = rows_of(at, node)
    return {"other": other, "parts": "elements" if other.ndim == 1 else ("rows", "columns")[place]}


hot_rows = symbolic_constants.ProductWithOneHotRows
for row_reason, picks in ((hot_rows.picked, True), (hot_rows.added, False)):
    of_nodes(row_reason, holds=lambda at, n, picks=picks: (rows_of(at, n)[1] == (rows_of(at, n)[0] == 1)) is picks)(
        lambda at, node: {
            **rows_facts(at, node),
            "labels": rows_of(at, node)[2],
            "line": "column" if rows_of(at, node)[1] else "row",
        }
    )


@of_nodes(hot_rows.dtype, holds=lambda at, node: rows_of(at, node)[3].dtype != node.dtype)
def rows_dtype(at: At, node: Expr) -> Facts:
    return {
        **rows_facts(at, node),
        "given": str(rows_of(at, node)[3].dtype),
        "wanted": str(node.dtype),
    }


of_nodes(hot_rows.batched, holds=lambda at, node: rows_of(at, node)[3].ndim > 2 and rows_of(at, node)[0] == 0)(
    lambda at, node: {"other": rows_of(at, node)[3], "shape": shape_text(rows_of(at, node)[3])}
)
of_nodes(hot_rows.labels, holds=lambda at, node: rows_of(at, node)[2].ndim != 1)(
    lambda at, node: {
        **rows_facts(at, node),
        "labels": rows_of(at, node)[2],
        "shape": shape_text(rows_of(at, node)[2]),
    }
)


of_nodes(symbolic_constants.ZeroThroughView.moved, holds=lambda at, node: is_zero(at.below_at(node, 0)))(
    lambda at, node: {"node": node, **names(at, node, x=(0,))}
)
of_nodes(symbolic_constants.SumWithZero.dropped)(
    lambda at, node: {
        "count": sum(map(is_zero, at.operands(node))),
        "terms": len(at.operands(node)),
        "instead": "0.0",
    }
)


def without_zeros(at: At, node: Expr) -> Any:
    """Return the type of a sum without its zero terms."""
    kept = [term for term in at.operands(node) if not is_zero(term)]
    shape = np.broadcast_shapes(*[term.shape for term in kept])
    return ex.TensorType(shape, np.result_type(*[term.dtype for term in kept]))


of_nodes(symbolic_constants.SumWithZero.type, holds=lambda at, node: without_zeros(at, node) is not node.type)(
    lambda at, node: difference(without_zeros(at, node), node)
)


def same_number(array: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays are equal, including the signs of zeros, up to NumPy's last-bit differences.

    NumPy computes functions such as exp with different instructions for a scalar and for a row.
    """
    if bits(array) == bits(other):
        return True
    is_float = array.dtype == other.dtype and array.dtype.kind == "f"
    if not is_float or array.shape != other.shape or not np.array_equal(np.isnan(array), np.isnan(other)):
        return False
    is_number = ~np.isnan(array)
    same_sign = np.array_equal(np.signbit(array[is_number]), np.signbit(other[is_number]))
    return same_sign and np.allclose(array, other, rtol=4 * np.finfo(array.dtype).eps, atol=0, equal_nan=True)


@of_decision(Folding.folded)
def folded(claim: Claim) -> Facts:
    """Check that the subjects depend only on constants; nodes of earlier folding decisions are not counted again."""
    (constant,) = claim.choice.produced
    first = claim.subjects[0]
    uids = {
        uid
        for number, decision in enumerate(claim.planned.graph.decisions[: claim.number])
        if decision.reason is Folding.folded
        for uid in [*claim.at(number).below(decision.subjects), *[node.uid for node in decision.subjects]]
    }
    held = {**claim.before.below(claim.subjects), **{node.uid: node for node in claim.subjects}}
    leaves = [node for node in held.values() if not node.operands]
    assert all(isinstance(leaf.operation, (Full, Zero, OneHot, Literal)) for leaf in leaves)
    gone = [node for node in held.values() if node.operands and node.uid not in uids]
    now = claim.before
    value = now.value(first)
    assert all(same_number(now.value(node), value) for node in [constant, *claim.subjects])
    operation = constant.operation
    assert isinstance(operation, Structured)
    types = {node.uid: [operand.type for operand in claim.before.operands(node)] for node in gone}
    return {
        "operation": kind(first),
        "value": described(operation),
        "count": len(gone),
        "saved_flops": sum(node.operation.flops(node.type, *types[node.uid]) for node in gone),
        "saved_bytes": sum(0 if node.operation.view else node.type.nbytes for node in gone),
    }


def of_numbers(at: At, node: Expr) -> bool:
    return all(
        each.operands or isinstance(each.operation, (Full, Zero, OneHot, Literal)) for each in at.below([node]).values()
    )


of_nodes(Folding.impure, holds=lambda at, node: of_numbers(at, node) and not node.operation.pure)(
    lambda at, node: {"operation": kind(node)}
)


@of_nodes(Folding.fails, holds=of_numbers)
def fails(at: At, node: Expr) -> Facts:
    try:
        with np.errstate(all="ignore"):
            node.operation.compute(*[at.value(operand) for operand in at.operands(node)])
    except Exception as error:
        return {"operation": kind(node), "error": str(error).removesuffix(".")}
    raise AssertionError("it can be computed")


def flops(at: At, node: Expr) -> int:
    return node.operation.flops(node.type, *[operand.type for operand in at.operands(node)])


def largest_operand(at: At, node: Expr) -> int:
    return max(operand.size for operand in at.operands(node))


def is_pure(at: At, node: Expr) -> bool:
    return of_numbers(at, node) and node.operation.pure


of_nodes(Folding.large, holds=lambda at, node: is_pure(at, node) and node.size > 64)(
    lambda at, node: {"operation": kind(node), "size": node.size, "limit": 64}
)
of_nodes(Folding.large_operand, holds=lambda at, node: is_pure(at, node) and largest_operand(at, node) > 4096)(
    lambda at, node: {"operation": kind(node), "size": largest_operand(at, node), "limit": 4096}
)
of_nodes(Folding.slow, holds=lambda at, node: is_pure(at, node) and flops(at, node) > 65536)(
    lambda at, node: {"operation": kind(node), "work_flops": flops(at, node), "limit_flops": 65536}
)
of_nodes(Simplify.unreached, holds=lambda at, node: is_zero(node) and not at.value(node).any())(
    lambda at, node: {"type": repr(node.type)}
)
of_nodes(Simplify.hidden_type)(
    lambda at, node: {
        "x": next(each for each in at.operands(node) if isinstance(each.operation, Dynamic)),
        "reader": node.operation.label,
    }
)
