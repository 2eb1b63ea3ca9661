"""What batching leaves behind: sums over all members of one value are reductions, and sums of products are products."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import Add, AddN, add_n
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.reshape import Transpose
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import MEMBERS, member, producer
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule

_OTHERS = 64
"""so many other terms may stand beside the members of a sum; a chain of additions is walked no further"""


class SumOfMembers(Rule):
    """A sum of all members of one value, or of several, is one reduction over the first axis of each."""

    roots = (Add, AddN)
    producers = MEMBERS

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        if isinstance(node.operation, AddN):
            if not any(member(term, graph) for term in terms):
                return None
            reach = len(terms)
        else:
            taken = member(terms[-1], graph)
            if taken is None or taken[1] != taken[0].shape[0] - 1:
                return None  # not the top of a chain of additions
            reach = taken[0].shape[0]
        wholes, rest = _terms(node, graph, 2 * reach + _OTHERS)
        if not wholes:  # members that are broadcast in the sum
            return None
        sums: list[_Members] = []
        for held in wholes:
            if len(held.found) < held.whole.shape[0]:
                rest.extend(held.found.values())
            else:
                sums.append(held)
        kept = {held.whole.dtype for held in sums} | {term.dtype for term in rest}
        if not sums or kept != {node.dtype}:
            most = max(sums or wholes, key=lambda held: len(held.found))
            facts = {"found": len(most.found), "members": most.whole.shape[0], "whole": most.whole}
            return Declined("not_all_members", "only {found} of {members:member} of {whole} in the sum", facts)
        totals = [Sum((0,))(held.whole) for held in sums]
        if totals[0].dtype != node.dtype:
            return Declined(
                "dtype",
                "members of {given} added one by one give {given}, their sum over an axis is {wanted}",
                {"given": str(node.dtype), "wanted": str(totals[0].dtype)},
            )
        count = sum([len(held.found) for held in sums])
        parts = [*reversed(rest), *totals]
        facts = {"found": count, "members": count, "whole": sums[0].whole}
        reason = "the sum of all {members:member} of {whole} is one reduction over its first axis"
        if len(sums) > 1:
            facts["wholes"] = len(sums)
            reason = "the sum of all {members:member} of {wholes:value} is one reduction of each over its first axis"
        return Applied(add_n(*parts) if len(parts) > 1 else parts[0], reason, facts, "sum_of_members")


@dataclass(frozen=True, slots=True)
class _Members:
    """Members of one value, by index."""

    whole: Expr
    found: dict[int, Expr]


def _terms(node: Expr, graph: PlanGraph, visits: int) -> tuple[list[_Members], list[Expr]]:
    """The terms of a sum and of the sums inside it, as far as so many visits go: members by value, and the others."""
    wholes: dict[int, _Members] = {}
    rest: list[Expr] = []
    pending = [node]
    while pending and visits:
        visits -= 1
        for term in graph.operands(pending.pop()):
            if term.shape != node.shape:
                rest.append(term)
                continue
            part = member(term, graph)
            if part is not None:
                held = wholes.setdefault(part[0].uid, _Members(part[0], {}))
                if part[1] not in held.found:
                    held.found[part[1]] = term
                    continue
            elif isinstance(term.operation, (Add, AddN)) and graph.consumers(term) == 1:
                pending.append(term)
                continue
            rest.append(term)
    return [*wholes.values()], [*rest, *pending]


class SumOfProducts(Rule):
    """Σᵢ Aᵢ @ Bᵢ over the first axis is one product: a shared parameter's gradient is one contraction."""

    roots = (Sum,)
    producers = (Matmul,)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        reduction = node.operation
        (product,) = graph.operands(node)
        if producer(product, Matmul) is None or reduction.axes != (0,) or reduction.keepdims:  # type: ignore[attr-defined]
            return None
        a, b = graph.operands(product)
        if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
            return Declined("rank", "{product} shares an operand between its members", {"product": product})
        if product.dtype != node.dtype:
            return Declined(
                "dtype",
                "{product} is {given}, its sum {wanted}",
                {"product": product, "given": str(product.dtype), "wanted": str(node.dtype)},
            )
        if graph.consumers(product) > 1:
            return Declined("other_consumers", "the single products of {product} are read too", {"product": product})
        members, rows, inner = a.shape
        left = reshape(Transpose((1, 0, 2))(a), (rows, members * inner))
        right = reshape(b, (members * inner, b.shape[2]))
        return Applied(
            left @ right,
            "the sum of {members:product} is one product over a longer axis:"
            " {saved_bytes} of single products are never written",
            {"members": members, "saved_bytes": product.type.nbytes},
            "sum_of_products",
        )
