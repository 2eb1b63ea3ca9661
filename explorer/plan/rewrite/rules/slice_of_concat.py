"""Slices and concatenations that cancel each other, so that no elements are joined only to be split again.

For example, recurrent layers and attention concatenate matrices for one product and split its result.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import bisect
import itertools
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.slicing import Slice
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import member, producer
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class SliceOfSlice(Rule):
    """A slice of a slice is one slice."""

    numerics = "exact"
    roots = (Slice,)
    concrete = True

    joined = Reason(
        "parts",
        "`{inner}` and the following `{outer}` become one slice of `{x}`, because a slice of a slice is a slice.",
        meaning="x[2:9][1:3] is x[3:5].",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        inner, outer = producer(y, Slice), producer(node, Slice)
        if inner is None or outer is None or member(node, graph) is not None:
            return None  # other rules recognise the slices of batch elements
        (x,) = graph.operands(y)
        outer_spans = iter(outer.spans)
        spans = tuple([span if isinstance(span, int) else _compose(span, next(outer_spans)) for span in inner.spans])
        return self.joined.applied(_part(x, spans), outer=node, inner=y, x=x)


class SliceOfConcatenation(Rule):
    """A slice of concatenated tensors that is within one of them is a slice of this tensor.

    After batching, a concatenation of a thousand tensors with a thousand slices is common. The tensor is therefore
    found by bisection of the start indices, which are cached from the previous node.
    """

    numerics = "exact"
    roots = (Slice,)
    concrete = True
    _last: tuple[int, list[int]] = (-1, [])
    """uid of the last concatenation, and the start index of each of its operands"""

    one_source = Reason(
        "part_of_concatenation",
        "The slice is taken directly from `{source}`, not from `{joined}`, because all of its elements come from "
        "`{source}`.",
        meaning="np.concatenate([a, b])[:len(a)] is a.",
    )
    several_parts = Reason(
        "several_parts",
        "The slice is taken from `{joined}`, not from one of its {count} operands, because the slice contains elements "
        "of more than one operand.",
        meaning="A slice that is within one of the concatenated arrays does not need the concatenation.",
        change="Keep each slice within one of the concatenated arrays.",
    )
    dtype = Reason(
        "dtype",
        "The slice is taken from `{joined}`, not directly from `{source}`, which contains all its elements, because "
        "`{source}` is {given}, and `{joined}` converts it to {wanted}.",
        meaning="np.concatenate converts all arrays to one dtype. A rule never changes the dtype of a result.",
        change="Concatenate arrays of one dtype.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (joined,) = graph.operands(node)
        concatenate, part = producer(joined, Concatenate), producer(node, Slice)
        if concatenate is None or part is None or not node.size:
            return None
        axis = concatenate.axis
        uid, starts = self._last
        # Slices of one concatenation are visited one after another, so the start indices are computed only once.
        if uid != joined.uid:
            starts = [0, *itertools.accumulate([operand.shape[axis] for operand in joined.operands])]
            self._last = joined.uid, starts
        span = part.spans[axis]
        indices = (span,) if isinstance(span, int) else range(*span)
        index = bisect.bisect_right(starts, min(indices[0], indices[-1])) - 1
        if max(indices[0], indices[-1]) >= starts[index + 1]:
            return self.several_parts.declined(count=len(joined.operands), joined=joined)
        source, start = graph.operand(joined, index), starts[index]
        if source.dtype != node.dtype:
            facts = {"source": source, "joined": joined, "given": str(source.dtype), "wanted": str(node.dtype)}
            return self.dtype.declined(**facts)
        span_in_source = span - start if isinstance(span, int) else (span[0] - start, span[1] - start, span[2])
        spans = (*part.spans[:axis], span_in_source, *part.spans[axis + 1 :])
        return self.one_source.applied(_part(source, spans), joined=joined, source=source)


class ConcatenationOfSlices(Rule):
    """All slices of a tensor along an axis, concatenated in order, are the tensor itself."""

    numerics = "exact"
    roots = (Concatenate,)
    concrete = True

    whole = Reason(
        "concatenation_of_parts",
        "Nothing is concatenated and `{whole}` is used directly, because the {count:slice} together are all of "
        "`{whole}`, in order.",
        meaning="np.concatenate([x[:3], x[3:]]) is x.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        concatenate = producer(node, Concatenate)
        pieces = graph.operands(node)
        if concatenate is None or producer(pieces[0], Slice) is None:
            return None
        (source,) = graph.operands(pieces[0])
        if source.type is not node.type:
            return None
        full_spans = [(0, size, 1) for size in source.shape]
        start = 0
        for piece in pieces:
            part = producer(piece, Slice)
            stop = start + piece.shape[concatenate.axis]
            spans: list[Any] = [*full_spans]
            spans[concatenate.axis] = (start, stop, 1)
            if part is None or graph.operands(piece)[0] is not source or part.spans != tuple(spans):
                return None
            start = stop
        return self.whole.applied(source, count=len(pieces), whole=source)


def _compose(inner: tuple[int, int, int], outer: Any) -> Any:
    """Return the slice ``outer`` of the span ``inner`` (start, stop, step) along one axis; an int is one index."""
    indices = range(*inner)
    if isinstance(outer, int):
        return indices[outer]
    count = len(range(*outer))
    if not count:
        return 0, 0, 1
    start, step = indices[outer[0]], inner[2] * outer[2]
    return start, start + step * count, step


def _part(x: Expr, spans: tuple[Any, ...]) -> Expr:
    """Record the slice of ``x`` given by ``spans``; return ``x`` if the slice contains all of it."""
    return x if spans == tuple([(0, size, 1) for size in x.shape]) else Slice(spans)(x)
