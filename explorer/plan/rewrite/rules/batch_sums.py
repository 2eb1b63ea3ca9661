"""Sums that remain after batching: over all batch elements of a value, and over products of batch elements.

A loop that accumulates a loss becomes a chain of additions of rows of batched values. The gradient of a shared
parameter becomes a sum of such rows. The first rule converts both to one operation. A chain in the order of rows
becomes a cumulative sum, which adds in this order and gives the same bits. A sum whose order the program does not
specify becomes a reduction. The second rule converts a reduction of products to one product. Together, the rules
convert the gradient for a thousand samples to one matrix product
(assets/decisions/0003-lessons-from-batching-a-thousand-calls.md).

If the dtype in which terms are added would change, the rules decline.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import Add, AddN, add_n
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.reshape import Transpose
from explorer.ops.manipulation.slicing import Index0
from explorer.ops.reduction.reduce import Sum
from explorer.ops.reduction.sorting import CumulativeSum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import MEMBERS, constant, member, never_minus_zero, producer
from explorer.plan.rewrite.rule import Answer, Reason, Rule

_MAX_OTHER_TERMS = 64
"""maximum number of other terms up to which a chain of additions is followed; a chain of 100,000 additions is matched
only at its last addition"""


class SumOfMembers(Rule):
    """The sum of all rows of a value, or of several values, is one reduction over the first axis of each."""

    numerics = "reordering"
    roots = (Add, AddN)
    producers = MEMBERS

    in_order = Reason(
        "sum_of_members",
        "The {members} rows of `{whole}` are added by one cumulative sum, not one by one, because the last row of a "
        "cumulative sum is the sum of all rows, added in the same order.",
        meaning="If x has three rows, x[0] + x[1] + x[2] is np.cumsum(x, axis=0)[-1], to the last bit.",
        numerics="exact",
    )
    one_value = Reason(
        "sum_of_members",
        "The {members} rows of `{whole}` are added by one sum over its first axis, not one by one, because this adds "
        "the same terms in one operation.",
        meaning="If x has three rows, x[0] + x[1] + x[2] is x.sum(axis=0).",
    )
    several_values = Reason(
        "sum_of_members",
        "{members} rows of {wholes:array} are added by summing each array over its first axis, not one by one, "
        "because this takes fewer operations.",
        meaning="If x and y have two rows, x[0] + x[1] + y[0] + y[1] is x.sum(axis=0) + y.sum(axis=0).",
    )
    another_order = Reason(
        "sum_of_members",
        "{members} rows of {wholes:array} are added by a sum over the first axis, and the other terms are added "
        "separately, because this takes fewer operations than adding all terms one by one in the order written.",
        meaning="x[0] + a + x[1] is x.sum(axis=0) + a in exact arithmetic. In floating point, each addition rounds: "
        "(1e8 + 0.3) − 1e8 is not 0.3.",
        numerics="reassociating",
    )
    not_all_members = Reason(
        "not_all_members",
        "The rows of `{whole}` are added one by one, not by one sum over its first axis, because only {found} of its "
        "{members} rows are added.",
        meaning="x[0] + x[1] + x[2] is x.sum(axis=0) only if x has three rows.",
        change="Add all rows, or write the sum of a slice: x[:n].sum(axis=0).",
    )
    mixed = Reason(
        "dtype",
        "The rows of `{whole}` are added one by one, not by one sum over its first axis, because the terms are "
        "{given}, but the result is {wanted}.",
        meaning="If y is float64 and the rows are float32, y + x[0] + x[1] adds in float64, but y + x.sum(axis=0) "
        "adds the rows in float32.",
        change="Convert all terms to the dtype of the result first: x.astype(...).",
    )
    dtype = Reason(
        "dtype",
        "The rows are added one by one, not by one sum over an axis, because the rows are {given}, and np.sum of "
        "{given} gives {wanted}.",
        meaning="np.sum adds small integers in a wider dtype, but + keeps their dtype.",
        change="Write np.sum(x, axis=0), if the result may have the wider dtype, or convert the rows to this dtype "
        "first: x.astype(...).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        if isinstance(node.operation, AddN):
            if not any(member(term, graph) for term in terms):
                return None
            reach = len(terms)
        else:
            last_row = member(terms[-1], graph)
            # Examining every prefix of a chain of additions would take quadratic time, so only the addition of the last
            # row is matched.
            if last_row is None or last_row[1] != last_row[0].shape[0] - 1:
                return None  # not the last addition of the chain
            reach = last_row[0].shape[0]
            ordered = _cumulative(node, graph)
            if ordered is not None:
                return self.in_order.applied(ordered, found=reach, members=reach, whole=last_row[0])
        sources, other_terms = _terms(node, graph, 2 * reach + _MAX_OTHER_TERMS)
        if not sources:  # the sum broadcasts the rows
            return None
        sums: list[_Members] = []
        for rows in sources:
            if len(rows.terms) < rows.whole.shape[0]:
                other_terms.extend(rows.terms.values())
            else:
                sums.append(rows)
        dtypes_added = {rows.whole.dtype for rows in sums} | {term.dtype for term in other_terms}
        if not sums:
            largest = max(sources, key=lambda rows: len(rows.terms))
            facts = {"found": len(largest.terms), "members": largest.whole.shape[0], "whole": largest.whole}
            return self.not_all_members.declined(**facts)
        if dtypes_added != {node.dtype}:
            dtypes = " and ".join(sorted(map(str, dtypes_added)))
            return self.mixed.declined(whole=sums[0].whole, given=dtypes, wanted=str(node.dtype))
        totals = [Sum((0,))(rows.whole) for rows in sums]
        if totals[0].dtype != node.dtype:
            return self.dtype.declined(given=str(node.dtype), wanted=str(totals[0].dtype))
        count = sum([len(rows.terms) for rows in sums])
        parts = [*reversed(other_terms), *totals]
        facts = {"found": count, "members": count, "whole": sums[0].whole}
        reason = self.one_value
        if len(sums) > 1:
            facts["wholes"] = len(sums)
            reason = self.several_values
        if isinstance(node.operation, Add):
            facts["wholes"] = len(sums)
            reason = self.another_order
        return reason.applied(add_n(*parts) if len(parts) > 1 else parts[0], **facts)


def _cumulative(node: Expr, graph: PlanGraph) -> Expr | None:
    """Record ((start + x[0]) + …) + x[n − 1] as the last row of a cumulative sum; None for other forms."""
    last_row = member(graph.operands(node)[-1], graph)
    if last_row is None or node.dtype.kind not in "fciu" or node.dtype.itemsize < 4:  # float16 adds in float32
        return None
    source, rows = last_row[0], last_row[0].shape[0]
    start: Expr | None = node
    for index in reversed(range(rows)):
        assert start is not None
        if index == 0 and _is_row(start, source, 0, node, graph):
            start = None
            break
        if not isinstance(start.operation, Add) or (start is not node and graph.consumers(start) > 1):
            return None
        sum_before, row = graph.operands(start)
        if not _is_row(row, source, index, node, graph):
            return None
        start = sum_before
    if source.dtype != node.dtype or (
        start is not None and start.type is not node.type and constant(start, graph) != 0
    ):
        return None
    if start is None or constant(start, graph) == 0:
        # If all rows are −0.0, a sum that starts from 0.0 is 0.0. Adding 0.0 at the end gives the same result.
        total = Index0(rows - 1)(CumulativeSum(0)(source))
        if total.type is not node.type:
            return None
        return (
            total if start is None or never_minus_zero(source) or str(constant(start, graph)) == "-0.0" else total + 0.0
        )
    first = Concatenate(0)(reshape(start, (1, *start.shape)), source)
    total = Index0(rows)(CumulativeSum(0)(first))
    return total if total.type is node.type else None


def _is_row(value: Expr, source: Expr, index: int, node: Expr, graph: PlanGraph) -> bool:
    row = member(value, graph)
    return row is not None and row[0] is source and row[1] == index and value.shape == node.shape


@dataclass(frozen=True, slots=True)
class _Members:
    """Rows of one value that are terms of a sum, by row index."""

    whole: Expr
    terms: dict[int, Expr]


def _terms(node: Expr, graph: PlanGraph, visits: int) -> tuple[list[_Members], list[Expr]]:
    """Return the terms of a sum: the rows, grouped by value, and the other terms.

    Inner sums that have no other readers are expanded too, at most ``visits`` in all.
    """
    sources: dict[int, _Members] = {}
    other_terms: list[Expr] = []
    pending, shape = [node], node.shape
    while pending and visits:
        visits -= 1
        for term in graph.operands(pending.pop()):
            if term.type is not node.type and term.shape != shape:
                other_terms.append(term)
                continue
            row = member(term, graph)
            if row is not None:
                whole, index = row
                rows = sources.get(whole.uid)
                if rows is None:
                    rows = sources[whole.uid] = _Members(whole, {})
                if index not in rows.terms:
                    rows.terms[index] = term
                    continue
            elif isinstance(term.operation, (Add, AddN)) and graph.consumers(term) == 1:
                pending.append(term)
                continue
            other_terms.append(term)
    return [*sources.values()], [*other_terms, *pending]


class SumOfProducts(Rule):
    """A0 @ B0 + A1 @ B1 + … is one matrix product, for example in the gradient of a shared parameter."""

    numerics = "reordering"
    roots = (Sum,)
    producers = (Matmul,)

    longer_axis = Reason(
        "sum_of_products",
        "{members:matrix product|matrix products} and their sum are computed as one product of concatenated matrices, "
        "because this gives the same sum without storing the separate products ({saved_bytes}).",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]).",
        change="Request one of the products, or read it in another operation: the products must then be stored.",
    )
    rank = Reason(
        "rank",
        "The matrix products `{product}` are computed and then added, not computed as one product of concatenated "
        "matrices, because all of them have one factor in common.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]). With a common factor B, the sum is "
        "simpler: A0 @ B + A1 @ B is (A0 + A1) @ B.",
        change="Add the other factors first: (A0 + A1) @ B.",
    )
    dtype = Reason(
        "dtype",
        "The matrix products `{product}` are computed and then added, not computed as one product of concatenated "
        "matrices, because that product would be {given}, but the requested sum is {wanted}.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]). np.sum adds narrow integers in int64. "
        "A rule never changes the dtype of a result.",
        change="Convert the matrices to the dtype of the sum first: x.astype(...).",
    )
    other_consumers = Reason(
        "other_consumers",
        "The matrix products `{product}` are computed and then added, not computed as one product of concatenated "
        "matrices, because another operation also reads the products, so they must be stored anyway.",
        meaning="A0 @ B0 + A1 @ B1 is np.hstack([A0, A1]) @ np.vstack([B0, B1]), which does not compute A0 @ B0.",
        change="Remove the other reader, if it is not needed.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        reduction = node.operation
        (product,) = graph.operands(node)
        # the rule's roots are reductions
        if producer(product, Matmul) is None or reduction.axes != (0,) or reduction.keepdims:  # type: ignore[attr-defined]
            return None
        if product.ndim != 3:
            return None  # the sum adds the rows of one product, or stacks of products
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
