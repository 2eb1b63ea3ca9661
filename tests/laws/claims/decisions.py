"""Checks that a decision's reason holds and that every fact equals a value recomputed from the graph.

A check is registered for a reason. It computes the expected facts only from the recorded nodes, the substitutions, the
schedule and values; it never reads the decision's own facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TupleType
from explorer.plan import Plan
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.reasons import Facts, Reason
from explorer.plan.passes.recall import ReusableValues
from explorer.plan.schedule.blocked_kernel import blocks_of
from explorer.plan.schedule.schedule import Kernel
from tests.support.interpreter import reference


class At:
    """Graph at a given position, rebuilt only from the recorded roots and the substitutions."""

    def __init__(self, planned: Plan, position: int) -> None:
        self.graph = planned.graph
        graph = planned.graph
        self._replaced = {old.uid: new for decision, old, new in graph.substitutions if decision < position}
        self.roots = [self.resolve(root) for root in graph.recorded_roots]
        self.has_parameters = any(isinstance(node.operation, Parameter) for node in graph.recorded)
        self.live: dict[int, ex.Expr] = {}
        self.inputs: dict[int, list[ex.Expr]] = {}
        self.readers: dict[int, list[ex.Expr]] = {}
        self._values: dict[int, Any] = {}
        pending = [*self.roots]
        while pending:
            node = pending.pop()
            if node.uid not in self.live:
                self.live[node.uid] = node
                self.inputs[node.uid] = self.operands(node)
                for operand in self.inputs[node.uid]:
                    self.readers.setdefault(operand.uid, []).append(node)
                pending += self.inputs[node.uid]

    def resolve(self, node: ex.Expr) -> ex.Expr:
        while node.uid in self._replaced:
            node = self._replaced[node.uid]
        return node

    def operands(self, node: ex.Expr) -> list[ex.Expr]:
        return [self.resolve(operand) for operand in node.operands]

    def below_at(self, node: ex.Expr, *path: int) -> ex.Expr:
        """Return the node at the end of a path of operand positions."""
        for place in path:
            node = self.resolve(node.operands[place])
        return node

    def uses(self, node: ex.Expr) -> int:
        """Return the number of reads of a node, including those by roots."""
        return len(self.readers.get(node.uid, [])) + sum(root is node for root in self.roots)

    def below(self, nodes: Iterable[ex.Expr]) -> dict[int, ex.Expr]:
        """Return all nodes that the given nodes depend on, by uid, without the nodes themselves."""
        results: dict[int, ex.Expr] = {}
        pending = [operand for node in nodes for operand in self.operands(node)]
        while pending:
            node = pending.pop()
            if node.uid not in results:
                results[node.uid] = node
                pending += self.operands(node)
        return results

    def value(self, node: ex.Expr) -> Any:
        """Return the value of a node, computed from the current replacements of its operands."""
        pending = [node]
        while pending:
            each = pending[-1]
            waiting = [operand for operand in self.operands(each) if operand.uid not in self._values]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            below = {
                written.uid: self._values[now.uid]
                for written, now in zip(each.operands, self.operands(each), strict=True)
            }
            (self._values[each.uid],) = reference([each], below)
        return np.asarray(self._values[node.uid])

    def varies(self, node: ex.Expr) -> bool:
        """Return whether a node depends on a parameter or on an impure operation."""
        held = [node, *self.below([node]).values()]
        return any(isinstance(each.operation, Parameter) or not each.operation.pure for each in held)


@dataclass
class Claim:
    """Decision, with the plan and the values that it is checked against."""

    planned: Plan
    number: int
    held: ReusableValues | None = None
    """the values that the plan may use, if any"""

    @cached_property
    def choice(self) -> PlanDecision:
        return self.planned.graph.decisions[self.number]

    @property
    def subjects(self) -> list[ex.Expr]:
        return self.choice.subjects

    @cached_property
    def _positions(self) -> dict[int, At]:
        return {}

    def at(self, position: int) -> At:
        if position not in self._positions:
            self._positions[position] = At(self.planned, position)
        return self._positions[position]

    @property
    def stage(self) -> At:
        """Return the graph at the start of the stage."""
        return self.at(self.planned.graph.stages[self.choice.stage].first)

    @property
    def last(self) -> At:
        """Return the graph at the end of the stage."""
        return self.at(self.planned.graph.stages[self.choice.stage].last)

    @property
    def before(self) -> At:
        return self.at(self.number)

    @property
    def after(self) -> At:
        return self.at(self.number + 1)

    @property
    def moments(self) -> Iterable[At]:
        """Yield the graphs in which the decision may hold, because equal declined decisions of a stage are reported
        once."""
        yield self.before
        if not self.choice.applied:
            for position in range(self.number + 1, self.planned.graph.stages[self.choice.stage].last + 1):
                yield self.at(position)

    @cached_property
    def kernels(self) -> dict[int, Kernel]:
        """Return the kernel that computes each node, by the node's uid; before `JoinRows` joined kernels."""
        graph, result = self.planned.graph, {}
        fused: dict[int, list[ex.Expr]] = {}
        for group in graph.groups:
            if group.kind == "kernel" and graph.decider(group.decision).name != "JoinRows":
                fused.update(dict.fromkeys([node.uid for node in group.members], group.members))
        for kernel in self.planned.schedule.kernels:
            is_joined = kernel.blocks is not None and kernel.blocks.whole
            for node in kernel.nodes:
                if node.uid not in result:
                    part = fused.get(node.uid, [node]) if is_joined else kernel.nodes
                    blocks = blocks_of(part, self.operands) if is_joined and len(part) > 1 else kernel.blocks
                    own = replace(kernel, nodes=tuple(part), blocks=blocks) if is_joined else kernel
                    result.update(dict.fromkeys([each.uid for each in part], own))
        return result

    def operands(self, node: ex.Expr) -> tuple[ex.Expr, ...]:
        """Return the operands of a node in the planned graph."""
        return self.planned.graph.inputs[node.uid]

    @property
    def replaced(self) -> list[tuple[ex.Expr, ex.Expr]]:
        return [(old, new) for decision, old, new in self.planned.graph.substitutions if decision == self.number]

    @property
    def added(self) -> list[ex.Expr]:
        return [node for decision, node in self.planned.graph.added if decision == self.number]


CHECKS: dict[Reason, Callable[[Claim], None]] = {}
"""reason → check that raises AssertionError if the claim or a fact is wrong"""


def of_decision(*reasons: Reason) -> Callable[[Callable[[Claim], Facts]], Callable[[Claim], Facts]]:
    """Register a function that checks the claim of a whole decision and returns the expected facts."""

    def enter(expected: Callable[[Claim], Facts]) -> Callable[[Claim], Facts]:
        def check(claim: Claim) -> None:
            agree(claim.choice.facts, expected(claim))

        CHECKS.update(dict.fromkeys(reasons, check))
        return expected

    return enter


def of_nodes(
    *reasons: Reason, holds: Callable[[At, ex.Expr], bool] = lambda at, node: True
) -> Callable[[Callable[[At, ex.Expr], Facts]], Callable[[At, ex.Expr], Facts]]:
    """Register a function that returns the expected facts for each subject; ``holds`` checks the claim."""

    def enter(expected: Callable[[At, ex.Expr], Facts]) -> Callable[[At, ex.Expr], Facts]:
        def agrees(claim: Claim, node: ex.Expr) -> None:
            error = AssertionError("no moment of the stage")
            for at in claim.moments:
                try:
                    agree(claim.choice.facts, expected(at, node))
                    assert holds(at, node), "the claim does not hold"
                except (AssertionError, IndexError, AttributeError, StopIteration) as caught:
                    error = AssertionError(f"{node.operation.label}: {type(caught).__name__} {caught}")
                else:
                    return
            raise error

        def check(claim: Claim) -> None:
            for node in claim.subjects:
                agrees(claim, node)

        CHECKS.update(dict.fromkeys(reasons, check))
        return expected

    return enter


def agree(facts: Facts, expected: Facts) -> None:
    """Raise AssertionError unless the facts equal the expected ones."""
    assert facts.keys() == expected.keys(), f"{sorted(facts)} instead of {sorted(expected)}"
    for name, value in expected.items():
        assert _equal(facts[name], value), f"{name} is {facts[name]!r}, and must be {value!r}"


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(expected, ex.Expr) or isinstance(value, ex.Expr):
        return value is expected
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(_equal, value, expected))
    if isinstance(expected, float):
        return isinstance(value, (int, float)) and math.isclose(value, expected, rel_tol=1e-9, abs_tol=0.0051)
    return type(value) is type(expected) and bool(value == expected)


def verify(claim: Claim) -> None:
    """Raise AssertionError if the claim of a decision, or one of its facts, is wrong."""
    assert claim.subjects
    if not claim.choice.applied:
        changes_nothing(claim)
    CHECKS[claim.choice.reason](claim)
    if claim.choice.applied:
        same_values(claim)


def changes_nothing(claim: Claim) -> None:
    graph = claim.planned.graph
    for rows in (graph.substitutions, graph.added, graph.removed):
        assert claim.number not in [row[0] for row in rows]
    assert claim.number not in [group.decision for group in graph.groups]


def same_values(claim: Claim) -> None:
    """Check that each replacement has the replaced node's value, where the program as written has a finite one."""
    for old, new in claim.replaced:
        if isinstance(old.type, TupleType) or not (has_value(old) and has_value(new)):
            continue
        was, now = (np.asarray(value) for value in reference([old, new]))
        assert was.shape == now.shape
        if now.dtype.kind not in "biufc":
            continue
        with np.errstate(all="ignore"):
            good = np.isfinite(was) & (np.abs(was) < 1e6)
        np.testing.assert_allclose(now[good], was[good], rtol=1e-4, atol=1e-5)


LARGEST = 1 << 20
"""maximum number of elements of a value computed for a check"""


def has_value(node: ex.Expr) -> bool:
    """Return whether the value of a node can be computed and is small enough."""
    pending, seen = [node], {node.uid}
    while pending:
        each = pending.pop()
        if isinstance(each.operation, Parameter) or not each.type.plain:
            return False
        if not isinstance(each.type, TupleType) and each.size > LARGEST:
            return False
        fresh = [operand for operand in each.operands if operand.uid not in seen]
        seen.update(operand.uid for operand in fresh)
        pending += fresh
    return True


def sizes_text(sizes: Iterable[int]) -> str:
    return "×".join(map(str, sizes))


def shape_text(node: ex.Expr) -> str:
    return sizes_text(node.shape) or "scalar"


def result_bytes(node: ex.Expr) -> int:
    """Return the size of a result in bytes, which is 0 for a view."""
    return 0 if node.operation.view else node.type.nbytes
