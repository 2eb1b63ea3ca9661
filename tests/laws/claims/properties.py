"""Checks of rules about pairs of operations and about declared properties of operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.ops.elementwise.unary import Exp, Expm1, Log1p
from explorer.ops.reduction.reduce import Min
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rules import (
    declared_properties,
    inverse_pairs,
)
from tests.laws.claims.decisions import At, has_value, of_nodes
from tests.laws.claims.nodes import Expr, bits, difference, kind, names, pair, same_bits, triple, typed


def values_are(test: Callable[[Any], Any]) -> Callable[[At, Expr], bool]:
    """Return whether all elements of the innermost value pass a test, if that value can be computed."""

    def holds(at: At, node: Expr) -> bool:
        x = at.below_at(node, 0, 0)
        if not has_value(x):
            return True
        value = at.value(x)
        return bool(np.all(test(value[~np.isnan(value)])))

    return holds


def inverts(inner: str, outer: str) -> Callable[[At, Expr], bool]:
    return lambda at, node: (kind(at.below_at(node, 0)), kind(node)) == (inner, outer)


of_nodes(inverse_pairs.InversePair.undone)(triple)
of_nodes(inverse_pairs.LogOfExp.log_exp, holds=inverts("exp", "log"))(triple)
of_nodes(inverse_pairs.ExpOfLog.exp_log, holds=values_are(lambda value: value >= 0))(triple)
of_nodes(inverse_pairs.SqrtOfSquare.sqrt_square, holds=values_are(lambda value: value >= 0))(triple)
of_nodes(inverse_pairs.SquareOfSqrt.square_sqrt, holds=values_are(lambda value: value >= 0))(triple)
of_nodes(inverse_pairs.SquareOfSqrt.minus_zero, holds=inverts("sqrt", "square"))(triple)
of_nodes(inverse_pairs.SqrtOfSquare.absolute, holds=inverts("square", "sqrt"))(
    lambda at, node: names(at, node, inner=(0,))
)


@of_nodes(
    inverse_pairs.InversePair.dtype,
    holds=lambda at, node: at.below_at(node, 0, 0).type is not node.type,
)
def pair_dtype(at: At, node: Expr) -> Facts:
    return {**triple(at, node), **difference(at.below_at(node, 0, 0), node)}


of_nodes(inverse_pairs.InversePair.complex, holds=lambda at, node: at.below_at(node, 0, 0).dtype.kind == "c")(triple)


@of_nodes(inverse_pairs.InversePair.domain, holds=lambda at, node: at.below_at(node, 0, 0).type is node.type)
def pair_domain(at: At, node: Expr) -> Facts:
    if isinstance(node.operation, Expm1) and isinstance(at.below_at(node, 0).operation, Log1p):
        return {**triple(at, node), "domain": "≥ 0"}
    domain = "> 0" if isinstance(node.operation, Exp) else "≥ 0"
    return {**triple(at, node), "known": at.below_at(node, 0, 0).operation.range, "domain": domain}


def axes_after(at: At, node: Expr) -> bool:
    """Return whether two transpositions restore the original axis order."""
    numbers = np.arange(node.ndim)
    moved = numbers[list(at.below_at(node, 0).operation.axes)][list(node.operation.axes)]  # type: ignore[attr-defined]
    return bool((moved == numbers).all())


turned = inverse_pairs.TransposeOfTranspose
of_nodes(turned.undone, holds=axes_after)(pair)
of_nodes(turned.joined, holds=lambda at, node: not axes_after(at, node))(pair)
shaped = inverse_pairs.ReshapeOfReshape
of_nodes(shaped.undone, holds=lambda at, node: at.below_at(node, 0, 0).shape == node.shape)(pair)
of_nodes(shaped.joined, holds=lambda at, node: at.below_at(node, 0, 0).shape != node.shape)(pair)


def keeps_numbers(at: At, node: Expr) -> bool:
    """Return whether a conversion and back preserves the values with the most digits."""
    given, between = node.dtype, at.below_at(node, 0).dtype
    if given.kind in "iu":
        numbers = [np.iinfo(given).max, np.iinfo(given).min, np.iinfo(given).max - 1]
    elif given.kind in "fc":
        info = np.finfo(given)
        numbers = [info.max, info.tiny, 1 + info.eps, -info.max]
    else:
        numbers = [False, True]
    before = np.asarray(numbers, given) * (np.asarray(1 + 1j, given) if given.kind == "c" else np.asarray(1, given))
    with np.errstate(all="ignore"):
        return bits(before.astype(between).astype(given)) == bits(before)


of_nodes(inverse_pairs.WideningRoundTrip.undone, holds=keeps_numbers)(pair)
of_nodes(inverse_pairs.WideningRoundTrip.lossy, holds=lambda at, node: not keeps_numbers(at, node))(
    lambda at, node: {
        **names(at, node, inner=(0,)),
        "given": str(at.below_at(node, 0, 0).dtype),
        "wanted": str(at.below_at(node, 0).dtype),
    }
)


properties = declared_properties


@of_nodes(properties.Idempotent.again, holds=same_bits)
def again(at: At, node: Expr) -> Facts:
    assert node.operation.idempotent
    (_,) = at.operands(node)
    return {"operation": kind(node), **names(at, node, x=(0,))}


@of_nodes(properties.Idempotent.equal_operands, holds=same_bits)
def equal_operands(at: At, node: Expr) -> Facts:
    assert node.operation.idempotent
    first, second = at.operands(node)
    assert first is second
    return {"operation": kind(node), **names(at, node, x=(0,))}


@of_nodes(properties.AbsorbedOperand.taken_in, holds=same_bits)
def taken_in(at: At, node: Expr) -> Facts:
    for y, other in itertools.permutations(at.operands(node), 2):
        if y.operation is node.operation and any(each is other for each in at.operands(y)):
            return {"operation": kind(node), "y": y, "other": other}
    raise AssertionError("no operand holds the other")


involution = properties.Involution
for undone, rounds in ((involution.undone, False), (involution.reciprocals, True)):
    of_nodes(
        undone,
        holds=lambda at, n, rounds=rounds: (
            n.operation.involution and at.below_at(n, 0, 0).type is n.type and (kind(n) == "reciprocal") is rounds
        ),
    )(pair)
of_nodes(involution.dtype, holds=lambda at, node: at.below_at(node, 0, 0).type is not node.type)(
    lambda at, node: {**typed(at, node, 0, 0), "operation": kind(node)}
)
of_nodes(involution.integers, holds=lambda at, node: node.dtype.kind in "iuc")(
    lambda at, node: {"x": at.below_at(node, 0, 0), "given": str(node.dtype)}
)


def even_facts(at: At, node: Expr) -> Facts:
    return {"operation": kind(node), **names(at, node, x=(0, 0), y=(0,))}


of_nodes(properties.EvenOfNegative.even, holds=lambda at, node: at.below_at(node, 0, 0).dtype.kind in "fi")(even_facts)
for reason, kinds in ((properties.EvenOfNegative.complex, "c"), (properties.EvenOfNegative.unsigned, "ub")):
    of_nodes(reason, holds=lambda at, node, kinds=kinds: at.below_at(node, 0, 0).dtype.kind in kinds)(
        lambda at, node: {**even_facts(at, node), "given": str(at.below_at(node, 0, 0).dtype)}
    )

extreme = properties.ExtremeBeforeMonotone


def extreme_facts(at: At, node: Expr) -> Facts:
    picked = "smallest" if isinstance(node.operation, Min) else "largest"
    return {"f": kind(at.below_at(node, 0)), "picked": picked, **names(at, node, x=(0, 0), y=(0,))}


def swapped_type(at: At, node: Expr) -> Any:
    """Return the result type if the largest elements are selected first."""
    return at.below_at(node, 0).operation(node.operation(at.below_at(node, 0, 0))).type


@of_nodes(extreme.later, holds=lambda at, node: at.uses(at.below_at(node, 0)) == 1)
def later(at: At, node: Expr) -> Facts:
    y = at.below_at(node, 0)
    assert y.operation.monotone
    return {**extreme_facts(at, node), "kept": node.size, "all": y.size, "saved_flops": y.size - node.size}


of_nodes(extreme.complex, holds=lambda at, n: "c" in (at.below_at(n, 0, 0).dtype.kind, n.dtype.kind))(extreme_facts)
of_nodes(extreme.domain, holds=lambda at, node: not at.below_at(node, 0).operation.defined_everywhere)(extreme_facts)
of_nodes(extreme.other_consumers, holds=lambda at, node: at.uses(at.below_at(node, 0)) > 1)(
    lambda at, node: {**extreme_facts(at, node), "consumers": at.uses(at.below_at(node, 0))}
)
of_nodes(extreme.result_type, holds=lambda at, node: swapped_type(at, node) is not node.type)(
    lambda at, node: {
        **extreme_facts(at, node),
        **difference(swapped_type(at, node), node),
    }
)
