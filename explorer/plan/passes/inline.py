"""Inline: replaces calls by the operations in their bodies, so that later passes see these operations.

Operations of different calls can then be merged and fused. If the program would become too large, the remaining calls
are not inlined. Such a call is one kernel, and its body is planned once (`plan_closed` in plan/planner.py).

A mapped call is replaced by its body, vectorized over all elements (plan/batching/vectorize.py). If this costs more, or
if an operation has no batching rule, the call is not inlined, and its kernel runs the body once for each element. If
there are workers, and it is estimated to be faster, the elements are divided among them
(plan/batching/divided_calls.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.recording_context import Scope
from explorer.core.ir.traversal import rebuild, rescope
from explorer.plan.batching.divided_calls import divided_body, divided_us, part_count
from explorer.plan.batching.vectorize import NotBatchableError, batch_body
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel, body_cost, call_cost
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason
from explorer.plan.schedule.task_assignment import Network

_MAP = "ex.map(f, x) is np.stack([f(x[0]), f(x[1]), …])."
_LOOP = 'ex.EvalPlan(without=["batch"]) computes them one after another, in the memory of one call.'


class InlinedCalls(dict[int, tuple[Body, list[Expr]]]):
    """uid of a call → the body that replaced it, and the copies of the nodes that belong to the body"""


@dataclass(frozen=True)
class Inline(Pass):
    """Replace calls of functions by the operations in their bodies."""

    limit: int = 500_000
    """maximum number of nodes of the program; calls that would exceed it are not inlined"""
    vectorize: bool = True
    """whether all elements of a mapped call are computed at once if this is estimated to be faster; if False, they are
    computed one after another"""
    cost_model: CostModel = REFERENCE_COST_MODEL
    whole: tuple[str, ...] = ()
    """names of functions whose calls are not inlined and run on one worker"""
    network: Network | None = None
    """workers, with the costs of their messages; mapped calls are divided among them if this is estimated to be
    faster"""
    name = "inline"
    inlined = Reason(
        "inlined",
        "{count:call is|calls are} replaced by the operations in the body of `{name}`, so that these can be "
        "simplified, merged and fused with the operations around the call.",
        meaning="The plan is the same as if the function's lines had been written at each call. Equal operations are "
        "merged into one; fused operations run as one loop over blocks of their arrays.",
        change="ex.EvalPlan(inline=ex.passes.Inline(limit=…)) limits the number of operations of the program. Calls "
        "that would exceed the limit are not replaced.",
    )
    too_large = Reason(
        "too_large",
        "The call to `{name}` is not replaced by the operations of its body, because the program would then exceed "
        "the limit of {limit:operation}. The call is therefore a single step and is not fused with the operations "
        "around it.",
        meaning="A program that calls large functions many times would become too large to plan in reasonable time. "
        "Fused operations run as one loop over blocks of their arrays.",
        change="Raise the limit: ex.EvalPlan(inline=ex.passes.Inline(limit=…)).",
    )
    batched = Reason(
        "batched",
        "{count:call} to `{name}` by ex.map are computed at once, on stacked operands, because this takes an "
        "estimated {together_us}, but one call after another would take {separate_us}.",
        meaning=_MAP,
        change=_LOOP,
        numerics="reordering",
    )
    dear = Reason(
        "stacking_costs_more",
        "{count:call} to `{name}` by ex.map run one after another, not batched on stacked operands, because one after "
        "another they take an estimated {separate_us}, but batched they would take {together_us}.",
        meaning=_MAP,
    )
    divided = Reason(
        "divided",
        "{count:call} to `{name}` by ex.map are divided into {parts:part}, each computed by its own worker, because "
        "this takes an estimated {divided_us}, including messages; running all calls in this process would take "
        "{together_us}.",
        meaning=f"{_MAP} Workers are other processes: the operands of a part are sent to a worker, which sends its "
        "results back.",
        change='Run the program with executor="simple": all calls are then computed in this process.',
    )
    undivided = Reason(
        "messages_cost_more",
        "{count:call} to `{name}` by ex.map are not divided among {workers:worker}, because this would take an "
        "estimated {divided_us}, including messages; running all calls in this process takes {together_us}.",
        meaning=f"{_MAP} Workers are other processes: the operands of a part are sent to a worker, which sends its "
        "results back.",
        change="Map over more elements, or compute more for each element: messages then take a smaller part of the "
        "time.",
    )
    not_batchable = Reason(
        "not_batchable",
        "{count:call} to `{name}` by ex.map run one after another, not batched on stacked operands, because `{name}` "
        "contains `{inner}`, which cannot be computed on stacked operands: {why}.",
        meaning=_MAP,
        change="Move this operation out of the function. If it is user-defined, give its class a batch() method "
        "instead.",
    )
    not_asked = Reason(
        "left_out",
        "{count:call} to `{name}` by ex.map run one after another, not batched on stacked operands, because the plan "
        "was built without batching.",
        meaning=_MAP,
        change='Leave out the option without=["batch"], unless the calls must run in the memory of one call.',
    )
    kept_whole = Reason(
        "kept_whole",
        "The call to `{name}` is not replaced by the operations of its body, because a worker runs the call as a "
        "whole. The call is therefore a single step and is not fused with the operations around it.",
        meaning="Workers are other processes. Values that pass from one worker to another are sent as messages; "
        "values inside a call are not. Fused operations run as one loop over blocks of their arrays.",
        change="Remove ex.parallelize: the whole program then runs in one process, and the call is replaced by its "
        "operations.",
    )
    required = True

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether there are calls to inline."""
        return graph.has(Call) and any(_is_inlinable(node.operation) for node in graph.live)

    def run(self, graph: PlanGraph) -> None:
        """Inline calls in topological order; calls inside an inlined body are inlined next.

        All calls of one function share one decision, to which subjects are added.
        """
        pending = deque(graph.live)
        items: dict[int, list[Expr]] = {}
        """uid of a call with several outputs → the Item nodes that read these outputs"""
        if graph.has(Item):
            _index_items(graph.live, items, graph)
        inlined_calls, decisions = graph.notes(InlinedCalls), dict[int, tuple[int, NodeGroup]]()
        total = len(pending)
        while pending:
            node = pending.popleft()
            operation = node.operation
            if not _is_inlinable(operation):
                continue
            assert isinstance(operation, Call)
            body, reason, facts = operation.body, self.inlined, {"name": operation.body.name, "count": 0}
            if body.name in self.whole:
                boundary_us = _boundary_us(node, graph)
                graph.decline(self, self.kept_whole, {"name": body.name}, node, estimated_cost_us=boundary_us)
                continue
            # Calls of one function share one decision. A mapped call represents many calls, so it has its own decision.
            key = -id(operation)
            if isinstance(operation, MappedCall):
                vectorized = self._vectorized(operation, node, graph)
                if vectorized is None:
                    continue
                key, (reason, body, facts) = node.uid, vectorized
            # Check the limit before copying the body, because nested calls grow exponentially.
            if total + len(body.nodes) > self.limit:
                graph.decline(
                    self,
                    self.too_large,
                    {"name": body.name, "limit": self.limit},
                    node,
                    estimated_cost_us=_boundary_us(node, graph),
                )
                continue
            copies, outputs = inline(body, node, graph.operands(node))
            inlined_calls[node.uid] = body, copies
            total += len(copies)
            if key not in decisions:
                decision_index = graph.decide(self, reason, facts, [], outputs)
                group = NodeGroup(decision_index, "function", [], body.name)
                graph.groups.append(group)
                decisions[key] = decision_index, group
            decision_index, group = decisions[key]
            decision = graph.decisions[decision_index]
            decision.subjects.append(node)
            if reason is self.inlined:
                decision.facts["count"] = len(decision.subjects)
            group.members.extend(copies)
            graph.add_nodes(decision_index, copies, node)
            if len(outputs) == 1:
                graph.substitute(decision_index, node, outputs[0])
            else:
                graph.removed.append((decision_index, node))
                for item in items.pop(node.uid, ()):
                    assert isinstance(item.operation, Item)
                    graph.substitute(decision_index, item, outputs[item.operation.index])
            _index_items(copies, items, graph)
            # Process the copies next, in order, so that nested calls are handled as if they had been written here.
            pending.extendleft(reversed(copies))

    def _vectorized(self, call: MappedCall, node: Expr, graph: PlanGraph) -> tuple[Reason, Body, Facts] | None:
        """Return (reason, body, facts), where the body computes all elements of a mapped call; None if declined."""
        facts: Facts = {"name": call.body.name, "count": call.size}
        if not self.vectorize:
            graph.decline(self, self.not_asked, facts, node)
            return None
        try:
            body = batch_body(call.body, call.size, call.batched)
        except NotBatchableError as error:
            graph.decline(self, self.not_batchable, {**facts, "inner": error.given, "why": error.rule}, node)
            return None
        prices = self.cost_model
        # If elements are computed one after another, the operands of each element are views, and its results are
        # copied.
        results = [output.type.nbytes for output in call.body.outputs]
        rows = (call.batched.count(True) + len(results)) * prices.view + sum(results) / prices.bandwidth
        batched, one_by_one = body_cost(body, prices), call_cost(call, prices) + call.size * rows
        facts |= {"separate_us": round(one_by_one, 2), "together_us": round(batched, 2)}
        if batched > one_by_one:
            graph.decline(self, self.dear, facts, node)
            return None
        return self._divided(call, node, graph, batched) or (self.batched, body, facts)

    def _divided(
        self, call: MappedCall, node: Expr, graph: PlanGraph, batched_us: float
    ) -> tuple[Reason, Body, Facts] | None:
        """Return (reason, body, facts), where the body computes a mapped call in parts on workers.

        Return None if there are no workers, or if dividing is not estimated to be faster.
        """
        network = self.network
        if network is None or network.workers < 2 or call.size < 2 or not call.pure:
            return None
        types = [operand.type for operand in graph.operands(node)]
        estimated_us = divided_us(call, types, batched_us, network)
        facts: Facts = {"name": call.body.name, "count": call.size}
        facts |= {"divided_us": round(estimated_us, 2), "together_us": round(batched_us, 2)}
        if estimated_us >= batched_us:
            workers = network.workers
            graph.decline(self, self.undivided, {**facts, "workers": workers}, node, estimated_cost_us=0.0)
            return None
        parts = part_count(call, network)
        return self.divided, divided_body(call, parts), {**facts, "parts": parts}


def _is_inlinable(operation: Operation) -> bool:
    return isinstance(operation, Call) and (operation.inlinable or isinstance(operation, MappedCall))


def _index_items(nodes: Iterable[Expr], items: dict[int, list[Expr]], graph: PlanGraph) -> None:
    """Add the Item nodes among ``nodes`` to ``items``, by the uid of their call."""
    for node in nodes:
        if isinstance(node.operation, Item):
            items.setdefault(graph.operand(node, 0).uid, []).append(node)


def _boundary_us(call: Expr, graph: PlanGraph) -> float:
    """Return the time in µs to write and read a call's operands and results, which fusion could save after inlining."""
    transferred = [call.type.nbytes, *[operand.type.nbytes for operand in graph.operands(call) if operand.operands]]
    return 2 * sum(transferred) / REFERENCE_COST_MODEL.bandwidth


def inline(body: Body, call: Expr, operands: tuple[Expr, ...]) -> tuple[list[Expr], tuple[Expr, ...]]:
    """Copy the nodes of ``body`` with ``operands`` in place of its parameters.

    Returns the copies, in the order of `own`, and the outputs. The copies get a new scope inside the scope of ``call``.
    If the body is a layer's, the copies get the scope of the layer, in which the call was recorded.
    """
    inputs = (*body.parameters, *body.captured)
    images = {node.uid: operand for node, operand in zip(inputs, operands, strict=True)}
    scope_kind = body.scope.kind if body.scope is not None else "function"
    enclosing = call.scope
    # In a backward pass, a scope of kind "twin" only refers to the forward node (gradients/gradient_scopes.py), and the
    # layer's scope encloses it.
    while enclosing is not None and enclosing.kind == "twin":
        enclosing = enclosing.parent
    is_layer = scope_kind == "layer" and enclosing is not None and enclosing.kind == "layer"
    inside = call.scope if is_layer and call.scope is not None else Scope(body.name, scope_kind, call.scope)
    scopes = {id(body.scope): inside}
    nodes = own(body)
    copies = rebuild(nodes, images, lambda node: rescope(node.scope, scopes, inside))
    if is_layer and inside.kind == "layer":
        input_ports, output_ports = body.ports
        inside.ports = (
            {name: operands[index].uid for name, index in input_ports.items()},
            {name: copies[body.outputs[index].uid].uid for name, index in output_ports.items()},
        )
    return [copies[node.uid] for node in nodes], tuple([copies[node.uid] for node in body.outputs])


def own(body: Body) -> list[Expr]:
    """Return the nodes of ``body`` except its parameters and captured values."""
    operands = {node.uid for node in (*body.parameters, *body.captured)}
    return [node for node in body.nodes if node.uid not in operands]
