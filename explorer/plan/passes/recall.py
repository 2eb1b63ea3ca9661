"""Recall: values that earlier plans computed, and that somebody still holds, are taken instead of computed again."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.core.function import Body, Call, Item
from explorer.core.operation import Operation
from explorer.core.tensor import Tensor
from explorer.ops.elementwise import Log, Log1p
from explorer.ops.loss import NllLoss, NllLossGradient
from explorer.ops.transcendental import Log10
from explorer.plan.graph import Graph, flops_of
from explorer.plan.links.carriers import CARRIERS
from explorer.plan.links.risks import SOURCES

_CARRIERS: tuple[type[Operation], ...] = (*CARRIERS, Call, Item)
_READERS: tuple[type[Operation], ...] = (*CARRIERS, Log, Log1p, Log10, NllLoss, NllLossGradient, Call)
"""operations before which a power has another form, that is not rounded"""


@dataclass(frozen=True)
class Recall:
    """Take what was evaluated before.

    What simplify computes in another form, since its value may be rounded to 0 or ∞, is left to simplify first.
    """

    values: Mapping[int, Tensor]
    """uid of an expression → its value"""
    equal: Set[int] = frozenset()
    """uids of those that were not evaluated themselves, but an equal expression"""
    simplified: bool = False
    """whether simplify has run, so that nothing is left to it"""
    name = "recall"

    def run(self, graph: Graph) -> None:
        """One decision for all of them."""
        found = self._simplified(graph) if self.simplified else self._recorded(graph)
        if not found:
            return
        tensors = [*found.values()]
        facts = {"count": len(found), "saved_flops": sum([flops_of(node, graph.inputs[node.uid]) for node in found])}
        reason = "{count:value} evaluated before, and still held, taken as they are"
        own = {id(tensor): uid for uid, tensor in self.values.items()}
        equal = sum([own[id(tensor)] in self.equal for tensor in tensors])
        if equal:
            facts["equal"] = equal
            reason += "; {equal} of them by an equal expression that was written before"
        decision = graph.decide(
            self,
            "recalled",
            reason,
            facts,
            [*found],
            tuple(tensors),
        )
        for node, tensor in found.items():
            graph.introduce(decision, [tensor], node)
            graph.substitute(decision, node, tensor)

    def has_waiting(self, graph: Graph) -> bool:
        """Whether values that were left to simplify are still computed."""
        return bool(self._simplified(graph))

    def _recorded(self, graph: Graph) -> dict[Expr, Tensor]:
        """The nodes whose values are taken before anything is simplified."""
        waiting = _waiting(graph)
        values = self.values
        return {node: values[node.uid] for node in graph.live if node.uid in values and node.uid not in waiting}

    def _simplified(self, graph: Graph) -> dict[Expr, Tensor]:
        """What stands for the others now, where it is still computed."""
        held = {graph.resolve(node): self.values[node.uid] for node in graph.recorded if node.uid in self.values}
        return {node: tensor for node, tensor in held.items() if node.uid in graph.inputs and node.operands}


def _waiting(graph: Graph) -> set[int]:
    """The uids of powers that are read where they have another form."""
    found: set[int] = set()
    powers: set[int] = set()
    for node in graph.live:
        operation = node.operation
        below = [operand.uid for operand in graph.inputs[node.uid] if operand.uid in powers] if powers else []
        if below and isinstance(operation, _READERS):
            found.update(below)
        carried = below and isinstance(operation, _CARRIERS)
        if carried or isinstance(operation, SOURCES) or (isinstance(operation, Call) and _has_powers(operation.body)):
            powers.add(node.uid)
    return found


def _has_powers(body: Body) -> bool:
    """Whether a power is among the nodes of a body, or of the bodies that it calls; remembered."""
    if "powers" not in body.derived:
        seen, pending = {id(body)}, [body]
        kinds = set[type]()
        while pending:
            for node in pending.pop().nodes:
                kinds.add(type(node.operation))
                if isinstance(node.operation, Call) and id(node.operation.body) not in seen:
                    seen.add(id(node.operation.body))
                    pending.append(node.operation.body)
        body.derived["powers"] = any(issubclass(kind, SOURCES) for kind in kinds)
    found: bool = body.derived["powers"]
    return found
