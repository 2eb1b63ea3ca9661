"""Sums of slice scatters: the gradient of a value of which several operations each read one slice.

The gradient of one slice is zeros into which the slice's gradient is written, and the gradient of several slices is the
sum of these. If the slices cover the value exactly once, nothing has to be added.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from typing import Any

from explorer.ops.elementwise.arithmetic import Add, AddN
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.slicing import SliceScatter
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import producer
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class SumOfParts(Rule):
    """A sum of slice gradients is their concatenation if the slices cover a value exactly once."""

    numerics = "rounding"
    roots = (Add, AddN)
    producers = (SliceScatter,)
    concrete = True

    joined = Reason(
        "sum_of_parts",
        "The nonzero parts of {count:array} are concatenated instead of adding the whole arrays, because each array "
        "is zero outside its part, and the parts together cover the result exactly once.",
        meaning="np.concatenate([a, 0 * b]) + np.concatenate([0 * a, b]) is np.concatenate([a, b]). If a program uses "
        "x[:3] and x[3:] separately, the gradient with respect to x is such a sum.",
    )
    gaps = Reason(
        "gaps",
        "{count:array} are added in full, not by concatenating their nonzero parts, because these parts {condition}.",
        meaning="Nonzero parts can be concatenated if each begins where the previous one ends, and together they "
        "cover the whole axis.",
    )

    def match(self, node: Any, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        first = producer(terms[0], SliceScatter)
        if first is None:
            return None
        scatters = [producer(term, SliceScatter) for term in terms]
        if any(scatter is None or scatter.shape != first.shape for scatter in scatters):
            return None
        if any(term.dtype != node.dtype for term in terms):
            return None
        full_spans = [(0, size, 1) for size in first.shape]
        spans = [scatter.spans for scatter in scatters if scatter is not None]
        cut_axes = [axis for axis, full_span in enumerate(full_spans) if any(span[axis] != full_span for span in spans)]
        if len(cut_axes) != 1 or any(isinstance(span[cut_axes[0]], int) or span[cut_axes[0]][2] != 1 for span in spans):
            return None
        (axis,) = cut_axes
        order = sorted(range(len(spans)), key=lambda index: spans[index][axis][0])
        stop = 0
        for index in order:
            begin, end, _ = spans[index][axis]
            if begin != stop:
                return self.gaps.declined(count=len(terms), condition="overlap" if begin < stop else "leave gaps")
            stop = end
        if stop != first.shape[axis]:
            return self.gaps.declined(count=len(terms), condition="leave a gap after the last one")
        parts = [graph.operands(terms[index])[0] for index in order]
        return self.joined.applied(Concatenate(axis)(*parts), count=len(terms))
