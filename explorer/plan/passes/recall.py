"""Recall: reuses values that earlier plans computed, if the program still refers to their expressions.

The values come from the result cache (run/result_cache.py). It keeps a value only as long as the user keeps a reference
to the expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.tensor import Tensor
from explorer.ops.elementwise.arithmetic import Power
from explorer.ops.elementwise.unary import Square
from explorer.plan.graph.cost_model import flops_of
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason
from explorer.plan.rewrite.matchers import POWERS

_RISKY = (*POWERS, Power, Square)
"""operations whose result may overflow, although a simplified form of the expressions that read it does not"""


@dataclass(frozen=True)
class ReusableValues:
    """Available values of earlier evaluations, which the planner stores as notes of a graph."""

    tensors: Mapping[int, Tensor] = field(default_factory=dict)
    """uid of an expression → its value"""
    equal: Set[int] = frozenset()
    """uids of expressions that were not evaluated themselves, but equal an evaluated expression"""


@dataclass(frozen=True)
class Recall(Pass):
    """Reuse results of earlier evaluations.

    The pass runs first, so that operations needed only for known values are not planned, and again after simplify.
    Results must not depend on which earlier values are still available. If a value may be rounded to 0 or ∞, simplify
    might avoid computing it, so reusing it could change a result. In this case simplify runs first, and only the values
    that remain in the graph are reused.
    """

    simplified: bool = False
    """whether simplify has already run"""
    name = "recall"
    recalled = Reason(
        "recalled",
        "{count:value is|values are} taken from an earlier evaluation instead of being computed again, because "
        "variables of the program still refer to the evaluated expressions. This saves {saved_flops}.",
        meaning="y = ex.tanh(x) records an expression, and ex.evaluate(y) computes its value. The value is kept until "
        "no variable refers to the expression any more.",
        change="Delete the variables (del y): the values are then computed again.",
    )
    recalled_equal = Reason(
        "recalled",
        "{count:value is|values are} taken from an earlier evaluation instead of being computed again, because "
        "variables of the program still refer to the evaluated expressions. {equal:of these expressions is new, but "
        "equals an evaluated one|of these expressions are new, but equal evaluated ones}. This saves {saved_flops}.",
        meaning="y = ex.tanh(x) records an expression, and ex.evaluate(y) computes its value. The value is kept until "
        "no variable refers to the expression any more. Two expressions are equal if they apply the same operations "
        "to the same values.",
        change="Delete the variables (del y): the values are then computed again.",
    )

    def run(self, graph: PlanGraph) -> None:
        """Replace nodes whose values are known by tensors, with one decision."""
        recalled = self._simplified(graph) if self.simplified else self._recorded(graph)
        if not recalled:
            return
        tensors = [*recalled.values()]
        facts: Facts = {
            "count": len(recalled),
            "saved_flops": sum([flops_of(node, graph.inputs[node.uid]) for node in recalled]),
        }
        # Compare tensors by identity, because two tensors are two values even if their elements are equal.
        reusable = graph.notes(ReusableValues)
        uid_of = {id(tensor): uid for uid, tensor in reusable.tensors.items()}
        equal = sum([uid_of[id(tensor)] in reusable.equal for tensor in tensors])
        if equal:
            facts["equal"] = equal
        decision = graph.decide(
            self,
            self.recalled_equal if equal else self.recalled,
            facts,
            [*recalled],
            tuple(tensors),
        )
        for node, tensor in recalled.items():
            graph.add_nodes(decision, [tensor], node)
            graph.substitute(decision, node, tensor)

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether values are available; after simplify, whether some of them would still be computed."""
        return bool(graph.notes(ReusableValues).tensors) and (not self.simplified or bool(self._simplified(graph)))

    def _recorded(self, graph: PlanGraph) -> dict[Expr, Tensor]:
        """Return the nodes whose values are reused before simplify.

        These are all nodes whose values are known, or none if a node may overflow.
        """
        # If only some values were reused, and others simplified, the result would depend on which values are available.
        if any(isinstance(node.operation, _RISKY) or _calls_risky(node) for node in graph.live):
            return {}
        tensors = graph.notes(ReusableValues).tensors
        return {node: tensors[node.uid] for node in graph.live if node.uid in tensors}

    def _simplified(self, graph: PlanGraph) -> dict[Expr, Tensor]:
        """Return the nodes that currently replace evaluated nodes and would still be computed."""
        tensors = graph.notes(ReusableValues).tensors
        current = {graph.resolve(node): tensors[node.uid] for node in graph.recorded if node.uid in tensors}
        return {node: tensor for node, tensor in current.items() if node.uid in graph.inputs and node.operands}


def _calls_risky(node: Expr) -> bool:
    """Return whether ``node`` calls a body that contains, at any depth, an operation that may overflow.

    Cached in the body.
    """
    if not isinstance(node.operation, Call):
        return False
    body = node.operation.body
    if "risky" not in body.derived:
        seen, pending = {id(body)}, [body]
        kinds = set[type]()
        while pending:
            for inner in pending.pop().nodes:
                kinds.add(type(inner.operation))
                if isinstance(inner.operation, Call) and id(inner.operation.body) not in seen:
                    seen.add(id(inner.operation.body))
                    pending.append(inner.operation.body)
        body.derived["risky"] = any(issubclass(cls, _RISKY) for cls in kinds)
    risky: bool = body.derived["risky"]
    return risky
