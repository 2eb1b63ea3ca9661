"""Shape values: results that were computed before the plan was built, because shapes in the plan depend on them.

The net computed them to find shapes, so they are not part of the planned program. The pass only reports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


class ComputedFirst(NamedTuple):
    """Value that determines shapes: the operator that reads it, and the value's name and text in this operator."""

    operator: str
    name: str
    text: str
    operations: int
    """number of operations that were run to compute the value"""
    results: tuple[int, ...] = ()
    """uids of the operator's results; their shapes depend on the value"""


@dataclass(frozen=True)
class ShapeValues(Pass):
    """Report the values that were computed before planning because shapes depend on them.

    A net inserts this pass at the start of the pipeline (net/session.py). The pass does not change the graph.
    """

    values: tuple[ComputedFirst, ...] = ()
    name = "shape values"
    computed_first = Reason(
        "computed_first",
        "{count:operation was|operations were} computed before the plan was built, because the shape of a result "
        "depends on a value, not only on shapes: `{value}` of the operator `{operator}` is {text}. Another value "
        "needs another plan.",
        meaning="A plan contains the shapes of all results, because they determine memory, order and fusion. "
        "Operations that compute a value on which a shape depends therefore run first. For each such value, one plan "
        "is built and kept for later runs.",
        change="Export the model with fixed sizes. Inputs that give the same value as in an earlier run need no new "
        "plan.",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether there are values to report."""
        return bool(self.values)

    def run(self, graph: PlanGraph) -> None:
        """Record one decision for each value."""
        live = {node.uid: node for node in graph.live}
        for value in self.values:
            facts = {"count": value.operations, "value": value.name, "operator": value.operator, "text": value.text}
            # If the operator is in an inner graph, or is not needed, its results are not in this graph.
            subjects = [live[uid] for uid in value.results if uid in live] or graph.roots
            graph.decide(self, self.computed_first, facts, subjects)
