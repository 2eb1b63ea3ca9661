"""Sums that batching leaves behind: of all members of one value, and of products of members.

A loop that adds up a loss, or the gradient of a shared parameter, is a chain of additions over rows of batched values.
The first rule makes one reduction of it, the second one product of a reduction of products; together they turn the
gradient of a thousand samples into one contraction (assets/decisions/0003-what-a-thousand-calls-taught.md).

Terms are added in another order than the program wrote, so that last digits may differ; the dtype in which they are
added must not, and the rules decline where it would.
"""

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
from explorer.plan.rewrite.rule import Answer, Reason, Rule

_OTHERS = 64
"""terms besides members up to which a chain of additions is walked: a chain of 100,000 is asked at its top alone"""


class SumOfMembers(Rule):
    """A sum of all members of one value, or of several, is one reduction over the first axis of each."""

    roots = (Add, AddN)
    producers = MEMBERS

    one_value = Reason(
        "sum_of_members",
        "Adding the {members} rows of `{whole}` one by one is computed as one sum over its first axis, because that "
        "adds the same terms in one operation.",
        meaning="x[0] + x[1] + x[2] is x.sum(axis=0) where x has three rows.",
    )
    several_values = Reason(
        "sum_of_members",
        "Adding {members} rows of {wholes:array} one by one is computed as one sum over the first axis of each array, "
        "because that adds the same terms in fewer operations.",
        meaning="x[0] + x[1] + y[0] + y[1] is x.sum(axis=0) + y.sum(axis=0) where x and y have two rows.",
    )
    not_all_members = Reason(
        "not_all_members",
        "The rows of `{whole}` are added one by one, not by one sum over its first axis, because only {found} of its "
        "{members} rows are added.",
        meaning="x[0] + x[1] + x[2] is x.sum(axis=0) only where x has three rows.",
        change="Add all of the rows, or slice the array before.",
    )
    mixed = Reason(
        "dtype",
        "The rows of `{whole}` are added one by one, not by one sum over its first axis, because the terms of the "
        "addition are {given}: one sum would add the rows of `{whole}` in their own dtype, not in {wanted}, the dtype "
        "of the result.",
        meaning="With y of float64 and rows of float32, y + x[0] + x[1] adds in float64, and y + x.sum(axis=0) adds "
        "the rows in float32.",
        change="Convert all terms to one dtype first: x.astype(...).",
    )
    dtype = Reason(
        "dtype",
        "The rows are added one by one, not by one sum over an axis, because they are {given}, and np.sum would give "
        "{wanted} instead of {given}.",
        meaning="NumPy sums small integers in a wider dtype; adding two of them keeps theirs.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        if isinstance(node.operation, AddN):
            if not any(member(term, graph) for term in terms):
                return None
            reach = len(terms)
        else:
            taken = member(terms[-1], graph)
            # Looking at every prefix of a chain of additions is quadratic: only the addition of the last row is asked.
            if taken is None or taken[1] != taken[0].shape[0] - 1:
                return None  # not the top of a chain of additions
            reach = taken[0].shape[0]
        wholes, rest = _terms(node, graph, 2 * reach + _OTHERS)
        if not wholes:  # members that are broadcast in the sum
            return None
        sums: list[_Members] = []
        for rows in wholes:
            if len(rows.terms) < rows.whole.shape[0]:
                rest.extend(rows.terms.values())
            else:
                sums.append(rows)
        kept = {rows.whole.dtype for rows in sums} | {term.dtype for term in rest}
        if not sums:
            most = max(wholes, key=lambda rows: len(rows.terms))
            facts = {"found": len(most.terms), "members": most.whole.shape[0], "whole": most.whole}
            return self.not_all_members.declined(**facts)
        if kept != {node.dtype}:
            dtypes = " and ".join(sorted(map(str, kept)))
            return self.mixed.declined(whole=sums[0].whole, given=dtypes, wanted=str(node.dtype))
        totals = [Sum((0,))(rows.whole) for rows in sums]
        if totals[0].dtype != node.dtype:
            return self.dtype.declined(given=str(node.dtype), wanted=str(totals[0].dtype))
        count = sum([len(rows.terms) for rows in sums])
        parts = [*reversed(rest), *totals]
        facts = {"found": count, "members": count, "whole": sums[0].whole}
        reason = self.one_value
        if len(sums) > 1:
            facts["wholes"] = len(sums)
            reason = self.several_values
        return reason.applied(add_n(*parts) if len(parts) > 1 else parts[0], **facts)


@dataclass(frozen=True, slots=True)
class _Members:
    """The members of one value that are among the terms of a sum, by index."""

    whole: Expr
    terms: dict[int, Expr]


def _terms(node: Expr, graph: PlanGraph, visits: int) -> tuple[list[_Members], list[Expr]]:
    """Return the terms of a sum and of sums inside it that nothing else reads: members by value, and the others.

    At most ``visits`` sums are taken apart.
    """
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
                rows = wholes.setdefault(part[0].uid, _Members(part[0], {}))
                if part[1] not in rows.terms:
                    rows.terms[part[1]] = term
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

    longer_axis = Reason(
        "sum_of_products",
        "{members:matrix product|matrix products} and their sum are computed as one product, np.hstack of the left "
        "matrices @ np.vstack of the right ones, because that gives the same sum, and the separate products "
        "({saved_bytes} together) are never stored.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]).",
        change="A product that is asked for, or read by another operation too, must be stored.",
    )
    rank = Reason(
        "rank",
        "The matrix products `{product}` are computed and then added, not as one product of the matrices joined by "
        "np.hstack and np.vstack, because they all share one matrix, and only pairs of different matrices can be "
        "joined.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]); A0 @ B + A1 @ B is (A0 + A1) @ B.",
        change="Add the matrices that differ first: (A0 + A1) @ B.",
    )
    dtype = Reason(
        "dtype",
        "The matrix products `{product}` are computed and then added, not as one product of the matrices joined by "
        "np.hstack and np.vstack, because that product would be {given}, and the sum must be {wanted}.",
        meaning="A rule never changes the dtype of a result.",
        change="Convert the matrices first: x.astype(...).",
    )
    other_consumers = Reason(
        "other_consumers",
        "The matrix products `{product}` are computed and then added, not as one product of the matrices joined by "
        "np.hstack and np.vstack, because another operation reads the products themselves, too, so they must be stored "
        "anyway.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]), in which A0 @ B0 does not appear.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        reduction = node.operation
        (product,) = graph.operands(node)
        # the rule's roots are reductions
        if producer(product, Matmul) is None or reduction.axes != (0,) or reduction.keepdims:  # type: ignore[attr-defined]
            return None
        if product.ndim != 3:
            return None  # the rows of one product are added, or stacks of products
        a, b = graph.operands(product)
        if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
            return self.rank.declined(product=product)
        if product.dtype != node.dtype:
            return self.dtype.declined(product=product, given=str(product.dtype), wanted=str(node.dtype))
        if graph.consumers(product) > 1:
            return self.other_consumers.declined(product=product)
        members, rows, inner = a.shape
        left = reshape(Transpose((1, 0, 2))(a), (rows, members * inner))
        right = reshape(b, (members * inner, b.shape[2]))
        return self.longer_axis.applied(left @ right, members=members, saved_bytes=product.type.nbytes)
