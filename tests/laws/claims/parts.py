"""Checks of rules about sums of rows and about parts of joined arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.ops.elementwise.arithmetic import Add, AddN
from explorer.ops.manipulation.slicing import Index0, Slice, SliceScatter, index_of
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rules import (
    batch_sums,
    slice_of_concat,
    sum_of_parts,
)
from tests.laws.claims.decisions import At, Claim, of_decision, of_nodes
from tests.laws.claims.nodes import Expr, names, triple


def row(at: At, node: Expr) -> tuple[Expr, int] | None:
    """Return the value that a node is a row of, and the row's index."""
    operation = node.operation
    if isinstance(operation, Index0):
        return at.below_at(node, 0), operation.index
    if isinstance(operation, Slice) and operation.spans and isinstance(operation.spans[0], int):
        whole = at.below_at(node, 0)
        if node.shape == whole.shape[1:] and all(
            span == (0, size, 1) for span, size in zip(operation.spans[1:], node.shape, strict=True)
        ):
            return whole, operation.spans[0]
    return None


def terms_of(at: At, node: Expr) -> Iterator[Expr]:
    """Return the terms of a sum, with nested sums that have no other reader expanded and their terms first."""
    pending = [node]
    while pending:
        for term in at.operands(pending.pop()):
            inner = isinstance(term.operation, (Add, AddN)) and at.uses(term) == 1 and term.shape == node.shape
            if inner and row(at, term) is None:
                pending.append(term)
            else:
                yield term


def rows_by_value(at: At, node: Expr) -> dict[int, tuple[Expr, set[int]]]:
    """Group the rows among the terms of a sum by the value that contains them."""
    results: dict[int, tuple[Expr, set[int]]] = {}
    for term in terms_of(at, node):
        taken = row(at, term)
        if taken is not None and term.shape == node.shape:
            results.setdefault(taken[0].uid, (taken[0], set()))[1].add(taken[1])
    return results


@of_decision(
    batch_sums.SumOfMembers.one_value,
    batch_sums.SumOfMembers.several_values,
    batch_sums.SumOfMembers.another_order,
)
def summed_rows(claim: Claim) -> Facts:
    """Return the values all of whose rows are among the terms, so that they are summed over their first axis."""
    (node,), (values,) = claim.subjects, claim.choice.produced
    fresh = {each.uid for each in claim.added}
    parts = [values, *claim.after.operands(values)]
    totals = [each for each in parts if each.uid in fresh and isinstance(each.operation, Sum)]
    wholes = [claim.after.below_at(total, 0) for total in totals]
    rows = rows_by_value(claim.before, node)
    assert all(rows[whole.uid][1] == set(range(whole.shape[0])) for whole in wholes)
    count = sum(whole.shape[0] for whole in wholes)
    several = {"wholes": len(wholes)} if claim.choice.reason is not batch_sums.SumOfMembers.one_value else {}
    assert bool(several) or len(wholes) == 1
    assert isinstance(node.operation, Add) is (claim.choice.reason is batch_sums.SumOfMembers.another_order)
    return {"found": count, "members": count, "whole": wholes[0], **several}


@of_decision(batch_sums.SumOfMembers.in_order)
def rows_in_order(claim: Claim) -> Facts:
    """Return whether all rows of a value are added in order."""
    (node,) = claim.subjects
    at = claim.before
    whole, _ = max(rows_by_value(at, node).values(), key=lambda each: len(each[1]))
    for index in reversed(range(1, whole.shape[0])):
        rows = rows_by_value(at, node)
        assert max(rows[whole.uid][1]) == index
        node = at.below_at(node, 0)
    return {"found": whole.shape[0], "members": whole.shape[0], "whole": whole}


@of_nodes(batch_sums.SumOfMembers.not_all_members)
def some_rows(at: At, node: Expr) -> Facts:
    whole, indices = max(rows_by_value(at, node).values(), key=lambda each: len(each[1]))
    assert len(indices) < whole.shape[0]
    return {"found": len(indices), "members": whole.shape[0], "whole": whole}


@of_nodes(batch_sums.SumOfMembers.mixed)
def mixed_terms(at: At, node: Expr) -> Facts:
    """Return whether all rows of a value are among terms of several dtypes, or of a dtype other than the sum's."""
    whole = next(whole for whole, indices in rows_by_value(at, node).values() if len(indices) == whole.shape[0])
    dtypes = {term.dtype for term in terms_of(at, node)}
    assert dtypes != {node.dtype}
    return {"whole": whole, "given": " and ".join(sorted(map(str, dtypes))), "wanted": str(node.dtype)}


@of_nodes(batch_sums.SumOfMembers.dtype)
def rows_widened(at: At, node: Expr) -> Facts:
    wanted = np.empty(1, node.dtype).sum().dtype
    assert wanted != node.dtype
    return {"given": str(node.dtype), "wanted": str(wanted)}


products = batch_sums.SumOfProducts
of_nodes(products.longer_axis, holds=lambda at, node: at.uses(at.below_at(node, 0)) == 1)(
    lambda at, node: {"members": at.below_at(node, 0).shape[0], "saved_bytes": at.below_at(node, 0).type.nbytes}
)
of_nodes(
    products.rank,
    holds=lambda at, n: (
        {at.below_at(n, 0, 0).ndim, at.below_at(n, 0, 1).ndim} != {3}
        or at.below_at(n, 0, 0).shape[0] != at.below_at(n, 0, 1).shape[0]
    ),
)(lambda at, node: names(at, node, product=(0,)))
of_nodes(products.dtype, holds=lambda at, node: at.below_at(node, 0).dtype != node.dtype)(
    lambda at, node: {
        **names(at, node, product=(0,)),
        "given": str(at.below_at(node, 0).dtype),
        "wanted": str(node.dtype),
    }
)
of_nodes(products.other_consumers, holds=lambda at, node: at.uses(at.below_at(node, 0)) > 1)(
    lambda at, node: names(at, node, product=(0,))
)


of_nodes(slice_of_concat.SliceOfSlice.joined)(triple)


def source_arrays(at: At, node: Expr) -> set[int]:
    """Return which of the joined arrays each element of a slice comes from."""
    joined = at.below_at(node, 0)
    axis = joined.operation.axis  # type: ignore[attr-defined]
    owner = np.concatenate([np.full(part.shape[axis], place) for place, part in enumerate(at.operands(joined))])
    span = node.operation.spans[axis]  # type: ignore[attr-defined]
    return {int(each) for each in owner[[span] if isinstance(span, int) else list(range(*span))]}


def source(at: At, node: Expr) -> Expr:
    (place,) = source_arrays(at, node)
    return at.below_at(node, 0, place)


parts = slice_of_concat.SliceOfConcatenation
of_nodes(parts.one_source, holds=lambda at, node: source(at, node).dtype == node.dtype)(
    lambda at, node: {**names(at, node, joined=(0,)), "source": source(at, node)}
)
of_nodes(parts.several_parts, holds=lambda at, node: len(source_arrays(at, node)) > 1)(
    lambda at, node: {**names(at, node, joined=(0,)), "count": len(at.below_at(node, 0).operands)}
)
of_nodes(parts.dtype, holds=lambda at, node: source(at, node).dtype != node.dtype)(
    lambda at, node: {
        **names(at, node, joined=(0,)),
        "source": source(at, node),
        "given": str(source(at, node).dtype),
        "wanted": str(node.dtype),
    }
)


def scattered(at: At, node: Expr) -> tuple[Facts, np.ndarray]:
    """Return the facts of a sum of slice scatters, and the number of parts that cover each position of the result."""
    terms = at.operands(node)
    times = np.zeros(node.shape, int)
    for term in terms:
        assert isinstance(term.operation, SliceScatter)
        times[index_of(term.operation.spans)] += 1
    return {"count": len(terms)}, times


@of_nodes(sum_of_parts.SumOfParts.joined, holds=lambda at, node: (scattered(at, node)[1] == 1).all())
def joined_parts(at: At, node: Expr) -> Facts:
    return scattered(at, node)[0]


@of_nodes(sum_of_parts.SumOfParts.gaps, holds=lambda at, node: (scattered(at, node)[1] != 1).any())
def parts_with_gaps(at: At, node: Expr) -> Facts:
    facts, times = scattered(at, node)
    empty = [axis for axis in range(times.ndim) if (times.max(axis=tuple({*range(times.ndim)} - {axis})) == 0).any()]
    if times.max() > 1:
        fault = "overlap"
    else:
        (axis,) = empty
        filled = times.max(axis=tuple({*range(times.ndim)} - {axis}))
        fault = "leave gaps" if filled[-1] else "leave a gap after the last one"
    return {**facts, "condition": fault}
