"""What batching leaves behind: sums over all members of one value are reductions, and sums of products are products."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, add_n
from explorer.ops.base import reshape
from explorer.ops.linalg import Matmul
from explorer.ops.movement import Transpose
from explorer.ops.reduce import Sum
from explorer.plan.graph import Graph
from explorer.plan.links.match import member, producer
from explorer.plan.rule import Answer, Applied, Declined, Link

_OTHERS = 64
"""so many other terms may stand beside the members of a sum; a chain of additions is walked no further"""


class SumOfMembers(Link):
    """A sum of all members of one value is one reduction over its first axis."""

    roots = (Add, AddN)

    def match(self, node: Expr, graph: Graph) -> Answer:
        terms = graph.operands(node)
        last = terms[-1]
        taken = member(last, graph)
        if taken is None:
            return None
        whole, index = taken
        if index != whole.shape[0] - 1 and not isinstance(node.operation, AddN):
            return None  # not the top of a chain of additions
        found: dict[int, Expr] = {}
        rest: list[Expr] = []
        pending = [node]
        visits = 2 * whole.shape[0] + _OTHERS
        while pending and visits:
            visits -= 1
            current = pending.pop()
            for term in graph.operands(current):
                part = member(term, graph)
                if part is not None and part[0] is whole and part[1] not in found and term.shape == node.shape:
                    found[part[1]] = term
                elif (
                    isinstance(term.operation, (Add, AddN)) and graph.consumers(term) == 1 and term.shape == node.shape
                ):
                    pending.append(term)
                else:
                    rest.append(term)
        rest.extend(pending)
        facts = {"found": len(found), "members": whole.shape[0], "whole": whole}
        if len(found) < whole.shape[0] or whole.dtype != node.dtype or any(term.dtype != node.dtype for term in rest):
            return Declined("not_all_members", "only {found} of {members:member} of {whole} in the sum", facts)
        total = Sum((0,))(whole)
        if total.dtype != node.dtype:
            return Declined(
                "dtype",
                "members of {given} added one by one give {given}, their sum over an axis is {wanted}",
                {"given": str(node.dtype), "wanted": str(total.dtype)},
            )
        return Applied(
            add_n(*reversed(rest), total) if rest else total,
            "the sum of all {members:member} of {whole} is one reduction over its first axis",
            facts,
            "sum_of_members",
        )


class SumOfProducts(Link):
    """Σᵢ Aᵢ @ Bᵢ over the first axis is one product: a shared parameter's gradient is one contraction."""

    roots = (Sum,)

    def match(self, node: Expr, graph: Graph) -> Answer:
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
