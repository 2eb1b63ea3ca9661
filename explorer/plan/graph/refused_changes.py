"""Changes of a graph that are refused where they are made, in the name of the rule or pass that makes them.

Without these checks a wrong pass of a user would fail in a later pass or in the run, where nobody knows its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.schedule.blocked_kernel import tiling_for


class _Graph(Protocol):
    """The parts of a PlanGraph that decide which changes are possible."""

    replaced: dict[int, Expr]
    substitutions: list[tuple[int, Expr, Expr]]
    inputs: dict[int, tuple[Expr, ...]]
    users: dict[int, int]
    fused: dict[int, int]

    def decider(self, decision: int) -> RuleInfo:
        """Return the rule or pass that took a decision."""

    def resolve(self, node: Expr) -> Expr:
        """Return the node that stands for another one now."""


def cycle(graph: _Graph, reader: Expr, operand: Expr) -> DeclarationError:
    """Return the error that a node waits for itself, in the name of the last substitution."""
    decision, old, new = graph.substitutions[-1]
    return DeclarationError(
        f"{graph.decider(decision)} put {new.label} in the place of {old.label}: {reader.label} reads "
        f"{operand.label}, which reads it",
        rule="a replacement must not read the node that it replaces",
        fix="build it from the node's operands: graph.operands(node)",
    )


def check_substitution(graph: _Graph, decision: int, old: Expr, new: Expr) -> None:
    """Raise DeclarationError where a node cannot stand for another one."""
    decider = graph.decider(decision)
    # Types are interned, so that identity is equality.
    if getattr(new, "type", None) is not old.type:
        given = f"{new.label}, {new.type}," if isinstance(new, Expr) else f"{new!r:.80}"
        rule, fix = "a replacement must have the node's type", "convert it: new.reshape(…), new.astype(…)"
    elif old.uid in graph.fused:
        given, rule = new.label, "nodes must be replaced before they are in a kernel"
        fix = f"run this pass before {graph.decider(graph.fused[old.uid])}"
    elif graph.resolve(new) is old:
        given, rule = new.label, "a replacement must not be, or be replaced by, the node itself"
        fix = "leave the node as it is: graph.resolve(new) is not old"
    else:
        return
    raise DeclarationError(f"{decider} put {given} in the place of {old.label}, {old.type}", rule=rule, fix=fix)


def check_kernel(graph: _Graph, decision: int, members: Sequence[Expr]) -> None:
    """Raise DeclarationError where nodes cannot run as one kernel."""
    decider = graph.decider(decision)
    rule, fix = _fault(graph, members)
    if rule:
        names = " and ".join([getattr(node, "label", repr(node)) for node in members]) or "nothing"
        raise DeclarationError(f"{decider} makes a kernel of {names}", rule=rule, fix=fix)


def _fault(graph: _Graph, members: Sequence[Expr]) -> tuple[str, str]:
    """Return the rule that a kernel of some nodes would break, with a fix; "" where it breaks none."""
    inputs, inside = graph.inputs, {node.uid for node in members if isinstance(node, Expr)}
    for node in members:
        if not isinstance(node, Expr) or node.uid not in inputs or node.uid in graph.replaced:
            return f"members must be live nodes, and {node!r:.80} is none", "take them from graph.live"
        if node.uid in graph.fused:
            other = graph.decider(graph.fused[node.uid])
            fix = "let one pass fuse: yours in the place of ex.passes.Fuse()"
            return f"a node must be in one kernel, and {node.label} is in one of {other}", fix
    if len(inside) < max(2, len(members)):
        return "a kernel must have two operations or more, each once", "fuse members only if there are several"
    reads: dict[int, int] = {}
    before: set[int] = set()
    for node in members:
        for operand in inputs[node.uid]:
            if operand.uid in inside:
                reads[operand.uid] = reads.get(operand.uid, 0) + 1
                if operand.uid not in before:
                    return f"operands must come first, and {node.label} reads {operand.label}", "sort the members"
        before.add(node.uid)
    for node in members[:-1]:
        # More readers than inside the kernel: one of them is outside, or the node is a root.
        if reads.get(node.uid, 0) < graph.users[node.uid]:
            return (
                f"only the last node of a kernel may be read outside it, and {node.label} is",
                "graph.consumers(node) == 1 for all nodes of a kernel but the last",
            )
    first, last = members[0], members[-1]
    is_reduced = last.operation.reduced_axes is not None and not last.operation.elementwise
    shape = inputs[last.uid][0].shape if is_reduced else last.shape
    for node in members:
        operation = node.operation
        is_product = operation.is_tileable and node is first and not is_reduced
        if operation.view or not (operation.elementwise or is_product or (is_reduced and node is last)):
            return (
                "members must be elementwise operations, after at most one product or before at most one "
                f"reduction, and {node.label} is none there",
                "node.operation.elementwise; node.operation.is_tileable for the first",
            )
        if node.shape != shape and not (is_reduced and node is last):
            return (
                f"members must have one shape, and {node.label} is {node.type}, {last.label} {last.type}",
                "node.shape == last.shape",
            )
    if is_reduced and tiling_for(members, lambda member: inputs[member.uid]) is None:
        return f"the rows that {last.label} reduces must fit into the cache", "leave the reduction out"
    return "", ""
