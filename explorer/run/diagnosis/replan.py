"""Replanning: a planned graph is changed slightly and planned again, for what-if analysis.

Rules do not report the facts on which they depend. Therefore the changed graph is recorded again, with the same
operations and scopes, and planned with all passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr, make_replacement
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.options import Options
from explorer.plan.planner import Plan, plan

Images: TypeAlias = dict[int, Expr]
"""uid of a node → node that corresponds to it in the changed graph"""


@dataclass(frozen=True)
class ReplanInput:
    """Graph to be changed: its nodes in topological order, their operands, and its roots."""

    nodes: Sequence[Expr]
    operands: Callable[[Expr], tuple[Expr, ...]]
    roots: Sequence[Expr]


@dataclass(frozen=True)
class Counterfactual:
    """One small change of a graph or of the options, with its description."""

    text: str
    edges: Mapping[tuple[int, int], Callable[[Expr], Expr]] = field(default_factory=dict)
    """(uid of a reader, uid of its operand) → function from the operand to the operand's replacement for this reader"""
    nodes: Mapping[int, Callable[[tuple[Expr, ...]], Expr]] = field(default_factory=dict)
    """uid of a node → function from its operands to its replacement"""
    dropped: frozenset[int] = frozenset()
    """roots that are no longer requested"""
    further: Callable[[Images], list[Expr]] | None = None
    """function that returns additional roots"""
    passes: Mapping[type[Pass], Mapping[str, Any]] = field(default_factory=dict)
    """pass class → changed values of its fields"""
    work: float = 1.0
    """factor by which the change increases the amount of work; costs are divided by this factor"""
    shows: Callable[[Plan, Images], bool] | None = None
    """test of success, if it is not sufficient to check the declined nodes"""


NOTHING = Counterfactual("as it is")


def recorded_input(graph: PlanGraph) -> ReplanInput:
    """Return the graph as the user recorded it."""
    return ReplanInput(graph.recorded, lambda node: node.operands, graph.recorded_roots)


def planned_input(graph: PlanGraph) -> ReplanInput:
    """Return the graph as it is after all passes."""
    return ReplanInput(graph.live, lambda node: graph.inputs[node.uid], graph.roots)


def neighbourhood(graph: PlanGraph, node: Expr, depth: int) -> ReplanInput:
    """Return ``node`` with ``depth`` levels of operands; random arrays replace all values below them."""
    level = {node.uid: 0}
    reached = [node]
    # The list grows during the loop, level by level, as in a breadth-first search.
    for current in reached:
        for operand in graph.operands(current):
            if operand.uid not in level:
                level[operand.uid] = level[current.uid] + 1
                if level[operand.uid] <= depth:
                    reached.append(operand)
    nodes = _operands_first(node, lambda current: [o for o in graph.operands(current) if level[o.uid] <= depth])
    leaves: dict[int, Expr] = {}

    def operands(current: Expr) -> tuple[Expr, ...]:
        return tuple([leaves.get(operand.uid, operand) for operand in graph.operands(current)])

    for current in nodes:
        for operand in graph.operands(current):
            if level[operand.uid] > depth:
                leaves[operand.uid] = placeholder(operand, graph) if operand.operands else operand
    part_nodes = [*{leaf.uid: leaf for leaf in leaves.values()}.values(), *nodes]
    return ReplanInput(part_nodes, lambda current: operands(current) if current.operands else (), (node,))


def _operands_first(node: Expr, operands: Callable[[Expr], Sequence[Expr]]) -> list[Expr]:
    nodes: dict[int, Expr] = {}
    pending = [node]
    while pending:
        missing = [operand for operand in operands(pending[-1]) if operand.uid not in nodes]
        if missing:
            pending.extend(missing)
        else:
            finished = pending.pop()
            nodes[finished.uid] = finished
    return list(nodes.values())


def placeholder(original: Expr, graph: PlanGraph, type_: TensorType | None = None) -> Expr:
    """Return a leaf of type ``type_``, by default the type of ``original``.

    The leaf is a parameter if ``original`` depends on a parameter, else a tensor.
    """
    type_ = type_ or original.tensor_type
    if graph.has_parameters and not is_constant(original, graph):
        return Parameter(type_, original.label)()
    return tensor(np.zeros(type_.shape, type_.dtype), name=original.label, copy=False, device=type_.device)


def replan(base: ReplanInput, options: Options, change: Counterfactual = NOTHING) -> tuple[Plan, Images]:
    """Plan a changed graph; raise OperandError if the change is not valid."""
    images: Images = {}
    for node in base.nodes:
        operands = []
        for operand in base.operands(node):
            image = images[operand.uid]
            edge = change.edges.get((node.uid, operand.uid))
            operands.append(image if edge is None else edge(image))
        replacement = change.nodes.get(node.uid)
        if replacement is not None:
            images[node.uid] = replacement(tuple(operands))
        elif not operands:
            # The new plan shares leaves with the explained plan, since only their types matter.
            images[node.uid] = node
        else:
            images[node.uid] = make_replacement(node.operation, tuple(operands), node, node.scope)
    roots = [images[root.uid] for root in base.roots if root.uid not in change.dropped]
    roots += change.further(images) if change.further is not None else []
    # A part of a graph may end in a call with several outputs. Its items, not the call, are the roots.
    roots = [root for root in roots if not isinstance(root.type, TupleType)]
    for kind, changes in change.passes.items():
        options = options.with_fields(kind, **changes)
    return plan(roots, options), images
