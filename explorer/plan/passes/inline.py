"""Inline: calls are replaced by the bodies that they call, so that the later passes see through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, Scope
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.traversal import rebuild, rescope
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


@dataclass(frozen=True)
class Inline(Pass):
    """Put the bodies of calls in the calls' places, up to ``limit`` nodes in all."""

    limit: int = 500_000
    name = "inline"
    inlined = Reason(
        "inlined",
        "`{name}` is called in {count:place}; each call is replaced by the operations of its body, so that these can "
        "be simplified, merged and fused together with the operations around the call.",
        meaning="As if the function's lines had been written where it is called.",
        change="ex.EvalPlan(inline=Inline(limit=…)) sets how many operations there may be in all.",
    )
    too_large = Reason(
        "too_large",
        "`{name}` is not replaced by the operations of its body here, because the program would then have more than "
        "{limit:operation}, so the call is planned once and runs as one step.",
        meaning="A program that calls large functions many times would become too large to plan in reasonable time.",
        change="A higher limit: ex.EvalPlan(inline=Inline(limit=…)).",
    )
    required = True

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether there are calls."""
        return any(isinstance(node.operation, Call) for node in graph.live)

    def run(self, graph: PlanGraph) -> None:
        """Walk from the operands up; calls inside an opened body are opened in turn."""
        pending = deque(graph.live)
        items: dict[int, list[Expr]] = {}
        """uid of a call with several outputs → what reads them"""
        _enter_items(graph.live, items, graph)
        decisions: dict[int, tuple[int, NodeGroup]] = {}
        total = len(pending)
        while pending:
            node = pending.popleft()
            operation = node.operation
            if not isinstance(operation, Call):
                continue
            body = operation.body
            if total + len(body.nodes) > self.limit:
                graph.decline(
                    self,
                    self.too_large,
                    {"name": body.name, "limit": self.limit},
                    node,
                    estimated_cost_us=_border(node, graph),
                )
                continue
            inside, outputs = inline(body, node, graph.operands(node))
            graph.inlined[node.uid] = body, inside
            total += len(inside)
            key = id(operation)
            if key not in decisions:
                number = graph.decide(
                    self,
                    self.inlined,
                    {"name": body.name},
                    [],
                    outputs,
                )
                group = NodeGroup(number, "function", body.name, [])
                graph.groups.append(group)
                decisions[key] = number, group
            number, group = decisions[key]
            decision = graph.decisions[number]
            decision.subjects.append(node)
            decision.facts["count"] = len(decision.subjects)
            group.members.extend(inside)
            graph.add_nodes(number, inside, node)
            if len(outputs) == 1:
                graph.substitute(number, node, outputs[0])
            else:
                graph.removed.append((number, node))
                for item in items.pop(node.uid, ()):
                    assert isinstance(item.operation, Item)
                    graph.substitute(number, item, outputs[item.operation.index])
            _enter_items(inside, items, graph)
            pending.extendleft(reversed(inside))


def _enter_items(nodes: Iterable[Expr], items: dict[int, list[Expr]], graph: PlanGraph) -> None:
    for node in nodes:
        if isinstance(node.operation, Item):
            items.setdefault(graph.operand(node, 0).uid, []).append(node)


def _border(call: Expr, graph: PlanGraph) -> float:
    """µs to write and read what a closed call takes and gives, which kernels around it could have kept."""
    crossing = [call.type.nbytes, *[operand.type.nbytes for operand in graph.operands(call) if operand.operands]]
    return 2 * sum(crossing) / REFERENCE_COST_MODEL.bandwidth


def inline(body: Body, call: Expr, operands: tuple[Expr, ...]) -> tuple[list[Expr], tuple[Expr, ...]]:
    """The body's nodes over a call's operands, inside a box of its own in the call's scope; and its outputs.

    The body of a layer stands in the box of the layer, which the call was recorded in.
    """
    inputs = (*body.parameters, *body.captured)
    given = {node.uid: operand for node, operand in zip(inputs, operands, strict=True)}
    kind = body.scope.kind if body.scope is not None else "function"
    box = call.scope
    while box is not None and box.kind == "twin":
        box = box.parent
    is_layer = kind == "layer" and box is not None and box.kind == "layer"
    inside = call.scope if is_layer and call.scope is not None else Scope(body.name, kind, call.scope)
    scopes = {id(body.scope): inside}
    nodes = own(body)
    made = rebuild(nodes, given, lambda node: rescope(node.scope, scopes, inside))
    if is_layer and inside.kind == "layer":
        named, results = body.ports
        inside.ports = (
            {name: operands[place].uid for name, place in named.items()},
            {name: made[body.outputs[place].uid].uid for name, place in results.items()},
        )
    return [made[node.uid] for node in nodes], tuple([made[node.uid] for node in body.outputs])


def own(body: Body) -> list[Expr]:
    """The body's nodes without its operands."""
    operands = {node.uid for node in (*body.parameters, *body.captured)}
    return [node for node in body.nodes if node.uid not in operands]
