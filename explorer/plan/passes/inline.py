"""Inline: calls are replaced by the bodies that they call, so that the later passes see through them.

Operations of different calls can then be merged and fused with each other. Where that would make a program of millions
of nodes, calls stay closed: each is one kernel, whose body is planned once (`plan_closed` in plan/planner.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.recording_context import Scope
from explorer.core.ir.traversal import rebuild, rescope
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


@dataclass(frozen=True)
class Inline(Pass):
    """Replace calls of functions by the operations inside them, up to a number of nodes (``limit``)."""

    limit: int = 500_000
    name = "inline"
    inlined = Reason(
        "inlined",
        "`{name}` is called in {count:place}; each call is replaced by the operations of its body, so that these can "
        "be simplified, merged and fused together with the operations around the call.",
        meaning="As if the function's lines had been written where it is called. Equal operations are merged into one; "
        "fused operations run as one loop over blocks of their arrays.",
        change="ex.EvalPlan(inline=ex.passes.Inline(limit=…)) sets how many operations there may be in all.",
    )
    too_large = Reason(
        "too_large",
        "`{name}` is not replaced by the operations of its body here, because the program would then have more than "
        "{limit:operation}, so the call is planned once and runs as one step.",
        meaning="A program that calls large functions many times would become too large to plan in reasonable time.",
        change="A higher limit: ex.EvalPlan(inline=ex.passes.Inline(limit=…)).",
    )
    required = True

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether there are calls."""
        return any(isinstance(node.operation, Call) and node.operation.inlinable for node in graph.live)

    def run(self, graph: PlanGraph) -> None:
        """Walk from the operands up; calls inside an inlined body are inlined in turn.

        All calls of one function share a decision, which gains subjects as they are met.
        """
        pending = deque(graph.live)
        items: dict[int, list[Expr]] = {}
        """uid of a call with several outputs → the Item nodes that read them"""
        _enter_items(graph.live, items, graph)
        decisions: dict[int, tuple[int, NodeGroup]] = {}
        total = len(pending)
        while pending:
            node = pending.popleft()
            operation = node.operation
            if not isinstance(operation, Call) or not operation.inlinable:
                continue
            body = operation.body
            # Counted before the body is copied: calls of calls grow exponentially.
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
            # The body's nodes come next, in their order, so that nested calls are met as if they had been written here.
            pending.extendleft(reversed(inside))


def _enter_items(nodes: Iterable[Expr], items: dict[int, list[Expr]], graph: PlanGraph) -> None:
    """Add the Item nodes among some nodes to ``items``, by the uid of their call."""
    for node in nodes:
        if isinstance(node.operation, Item):
            items.setdefault(graph.operand(node, 0).uid, []).append(node)


def _border(call: Expr, graph: PlanGraph) -> float:
    """Return the µs to write and read the operands and results of a closed call, which fusion could have saved."""
    crossing = [call.type.nbytes, *[operand.type.nbytes for operand in graph.operands(call) if operand.operands]]
    return 2 * sum(crossing) / REFERENCE_COST_MODEL.bandwidth


def inline(body: Body, call: Expr, operands: tuple[Expr, ...]) -> tuple[list[Expr], tuple[Expr, ...]]:
    """Copy a body's nodes over a call's operands; return the copies, in the order of `own`, and the outputs.

    The copies stand in a scope of their own inside the call's; those of a layer's body stand in the layer's scope, in
    which the call was recorded.
    """
    inputs = (*body.parameters, *body.captured)
    images = {node.uid: operand for node, operand in zip(inputs, operands, strict=True)}
    scope_kind = body.scope.kind if body.scope is not None else "function"
    box = call.scope
    while box is not None and box.kind == "twin":
        box = box.parent
    is_layer = scope_kind == "layer" and box is not None and box.kind == "layer"
    inside = call.scope if is_layer and call.scope is not None else Scope(body.name, scope_kind, call.scope)
    scopes = {id(body.scope): inside}
    nodes = own(body)
    copies = rebuild(nodes, images, lambda node: rescope(node.scope, scopes, inside))
    if is_layer and inside.kind == "layer":
        named, results = body.ports
        inside.ports = (
            {name: operands[place].uid for name, place in named.items()},
            {name: copies[body.outputs[place].uid].uid for name, place in results.items()},
        )
    return [copies[node.uid] for node in nodes], tuple([copies[node.uid] for node in body.outputs])


def own(body: Body) -> list[Expr]:
    """Return a body's nodes without its parameters and captured values."""
    operands = {node.uid for node in (*body.parameters, *body.captured)}
    return [node for node in body.nodes if node.uid not in operands]
