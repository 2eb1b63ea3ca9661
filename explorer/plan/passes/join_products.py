"""Joined products: products of one value and several small weights become one product with concatenated weights.

The queries, keys and values of attention are such products. A small product takes about as long to start as to compute,
and each product reads its operand again. If a bias is added to every product, the biases are concatenated too, so that
their addition can still be fused with the product. The weights are concatenated once, before the first run. They are
then stored twice, so large weights are excluded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.recording_context import common_scope, recording_at
from explorer.ops.elementwise.arithmetic import Add
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.slicing import Slice
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel, kernel_cost
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason

_SMALL = 10
"""maximum time of a small product, as a multiple of the time to start a kernel"""

_METHOD = "The columns of x @ np.hstack([A, B]) are those of x @ A, then those of x @ B."


@dataclass(frozen=True)
class JoinProducts(Pass):
    """Compute small products of one value and several weights as one product with concatenated weights."""

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL, repr=False)
    name, numerics = "join", "reordering"
    joined = Reason(
        "joined",
        "{count:product} of `{left}` with different weights are computed as one product with concatenated weights, "
        "because starting a small product takes about as long as computing it. This saves an estimated {saved_us}.",
        meaning=f"{_METHOD} The weights are concatenated once, before the first run.",
        change='ex.EvalPlan(without=["join"]) computes them one by one.',
    )
    large = Reason(
        "large",
        "{count:product} of `{left}` with different weights are computed one by one, not as one product with "
        "concatenated weights, because little would be saved: the largest product takes an estimated {work_us}, but "
        "starting a product takes only {start_us}.",
        meaning=f"{_METHOD} The concatenated weights would have to be stored in addition to the weights.",
        change="Write x @ np.hstack([A, B]) in the program.",
    )
    read_alone = Reason(
        "read_alone",
        "{count:product} of `{left}` with different weights are computed one by one, not as one product with "
        "concatenated weights, because `{reader}` reads only one of the products. `{reader}` can run in the loop of "
        "this product, but not in the loop of the joined product.",
        meaning=f"{_METHOD} An elementwise operation is fused with a product if it is the only reader of the product.",
        change="Write x @ np.hstack([A, B]) in the program.",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether a value that changes between runs is multiplied by several constant matrices."""
        return bool(_joinable(graph))

    def run(self, graph: PlanGraph) -> None:
        """Join the products of each value, in the order of the program."""
        for nodes in _joinable(graph):
            self._join(nodes, graph)

    def _join(self, nodes: list[Expr], graph: PlanGraph) -> None:
        operand = graph.inputs[nodes[0].uid][0]
        cost_model = self.cost_model
        largest_us = max([kernel_cost(node, graph.inputs[node.uid], cost_model, call=False) for node in nodes])
        facts = {"count": len(nodes), "left": operand}
        if largest_us > _SMALL * cost_model.call:
            prices = {"work_us": largest_us, "start_us": cost_model.call}
            graph.decline(self, self.large, {**facts, **prices}, nodes[0], estimated_cost_us=0.0)
            return
        terms = [_term(node, graph) for node in nodes]
        last_nodes = [node if term is None else term[0] for node, term in zip(nodes, terms, strict=True)]
        if None in terms:
            last_nodes = nodes
        reader = next(
            (only_reader for last_node in last_nodes if (only_reader := _fused_reader(last_node, graph)) is not None),
            None,
        )
        if reader is not None:
            graph.decline(self, self.read_alone, {**facts, "reader": reader}, nodes[0], estimated_cost_us=0.0)
            return
        first = nodes[0]
        # The joined product is recorded in the common scope of the products, because it belongs to none of their own
        # scopes.
        with recording_at(common_scope([node.scope for node in nodes]), first.code, first.instruction):
            weights = Concatenate(1)(*[graph.inputs[node.uid][1] for node in nodes])
            joined_value = product = record(first.operation, (operand, weights))
            new_nodes = [weights, product]
            if None not in terms:
                term = Concatenate(0)(*[value for _, value in [term for term in terms if term is not None]])
                joined_value = product + term
                new_nodes += [term, joined_value]
        saved = sum([kernel_cost(node, graph.inputs[node.uid], cost_model) for node in nodes])
        saved -= kernel_cost(product, (operand, weights), cost_model)
        parts = []
        start = 0
        for last_node in last_nodes:
            with recording_at(last_node.scope, last_node.code, last_node.instruction):
                leading = [(0, size, 1) for size in joined_value.shape[:-1]]
                parts.append(Slice((*leading, (start, start + last_node.shape[-1], 1)))(joined_value))
            start += last_node.shape[-1]
        facts |= {"saved_us": saved}
        decision = graph.decide(self, self.joined, facts, [*dict.fromkeys([*nodes, *last_nodes])], (*new_nodes, *parts))
        graph.add_nodes(decision, new_nodes, first)
        for last_node, part in zip(last_nodes, parts, strict=True):
            graph.add_nodes(decision, [part], last_node)
            graph.substitute(decision, last_node, part)


def _joinable(graph: PlanGraph) -> list[list[Expr]]:
    """Return, for each value, its products with several constant matrices, except requested results."""
    if not (graph.has_parameters and graph.has(Matmul)):
        return []
    products: dict[int, list[Expr]] = {}
    for node in graph.live:
        if type(node.operation) is Matmul:
            products.setdefault(graph.inputs[node.uid][0].uid, []).append(node)
    several = [nodes for nodes in products.values() if len(nodes) > 1]
    roots = {root.uid for root in graph.roots} if several else set()
    weighted = [[node for node in nodes if node.uid not in roots and _is_weighted(node, graph)] for nodes in several]
    return [nodes for nodes in weighted if len(nodes) > 1]


def _is_weighted(node: Expr, graph: PlanGraph) -> bool:
    """Return whether ``node`` multiplies a value that changes between runs by a constant matrix."""
    left, weights = graph.inputs[node.uid]
    same_type = left.type.plain and weights.type.plain and left.dtype == weights.dtype == node.dtype
    several_axes = left.ndim > 1 and weights.ndim == 2
    return same_type and several_axes and is_constant(weights, graph) and not is_constant(left, graph)


def _term(product: Expr, graph: PlanGraph) -> tuple[Expr, Expr] | None:
    """Return (sum, vector) if the only reader of ``product`` is a sum that adds a constant vector, else None."""
    if graph.users[product.uid] != 1:
        return None
    (sum_node,) = graph.readers(product)
    is_requested = any(sum_node is root for root in graph.roots)
    if type(sum_node.operation) is not Add or is_requested or sum_node.type is not product.type:
        return None
    first, second = graph.inputs[sum_node.uid]
    term = second if first is product else first
    if term.shape != product.shape[-1:] or term.dtype != product.dtype or not is_constant(term, graph):
        return None
    return sum_node, term


def _fused_reader(node: Expr, graph: PlanGraph) -> Expr | None:
    """Return the elementwise operation that is the only reader of ``node`` and would be fused with it, or None."""
    readers = graph.readers(node)
    if len(readers) != 1 or graph.users[node.uid] != 1:
        return None
    (reader,) = readers
    return reader if reader.operation.elementwise and reader.shape == node.shape else None
