"""Values that decide shapes: they are computed while a net is built, from the arrays that it is built for.

A builder asks for such a value (``OperatorContext.value``), or for what follows from some (``OperatorContext.ask``).
The operations that compute it run at once, and the rest is recorded with the answer as a constant. Since expressions
follow from the inputs' types and the answers alone, what was built is kept by them: a tree of questions, whose branches
are answers and whose leaves are builds. A later run asks its way to a leaf, and builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import Array
from explorer.net.building.builder import Build
from explorer.net.definition.definition import OperatorDefinition
from explorer.net.operators.context import Answer, unknown_shape
from explorer.plan.passes.shape_values import ComputedFirst
from explorer.plan.planner import plan
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from explorer.run.runtime.marshalling import on_host

Keep: TypeAlias = Callable[[dict[Any, Any], Any, Any], None]
"""stores a branch in a table, and drops the oldest where there are too many"""


@dataclass(slots=True)
class Question:
    """The program of values that a builder asks for, and what was built for each answer."""

    program: Program
    operator: str
    name: str
    answer: Answer
    operations: int
    """number of operations that the values take"""
    next: dict[Hashable, Any] = field(default_factory=dict)
    """answer → the next question, or the build"""

    def can_be_asked(self, inputs: Mapping[Expr, Array]) -> bool:
        """Whether all inputs that the values depend on have arrays."""
        return all(node in inputs for node in self.program.parameters)

    def ask(self, inputs: Mapping[Expr, Array]) -> Hashable:
        """Compute the values from those of the net's inputs; return the answer."""
        self.program.bind({node: inputs[node] for node in self.program.parameters})
        EXECUTORS["simple"].run(self.program, None)
        roots = self.program.planned.schedule.roots
        return self.answer([on_host(root, value) for root, value in zip(roots, self.program.take(), strict=True)])


class Questions:
    """The way through a tree of questions for some values of inputs: along known answers first, then asking anew."""

    def __init__(self, table: dict[Any, Any], key: Any, inputs: Mapping[Expr, Array], keep: Keep) -> None:
        self._table, self._key, self._inputs, self._keep = table, key, inputs, keep
        self.values: list[ComputedFirst] = []
        answers: list[Hashable] = []
        while isinstance(question := self._table.get(self._key), Question) and question.can_be_asked(inputs):
            answers.append(self._follow(question))
        self._known = iter(answers)

    @property
    def build(self) -> Build | None:
        """The build for these answers; None where there is none yet."""
        end = self._table.get(self._key)
        return end if isinstance(end, Build) else None

    def keep(self, build: Build) -> None:
        """Store a build for these answers."""
        self._keep(self._table, self._key, build)

    def values_first(self, build: Build) -> tuple[ComputedFirst, ...]:
        """Return what was computed for a build, with the results of the operators that asked for it."""
        results: dict[str, list[int]] = {}
        for operator in build.definition.ssa.operators if self.values else ():
            values = [build.values[blob] for blob in operator.outputs]
            results[operator.name] = [value.uid for value in values if isinstance(value, Expr)]
        # an operator of an inner graph has its results there
        return tuple([value._replace(results=tuple(results.get(value.operator, ()))) for value in self.values])

    def ask(
        self, operator: OperatorDefinition, name: str, nodes: Sequence[Expr], answer: Answer, operations: int
    ) -> Hashable:
        """Return what follows from the values of nodes; raises UnknownShapeError if an input of theirs has no value."""
        # Builders ask in the order of recording, which the answers so far decide: the n-th question has the n-th
        # answer.
        for known in self._known:
            return known
        recorded = reachable(nodes)
        if any(isinstance(node.operation, Parameter) and node not in self._inputs for node in recorded):
            raise unknown_shape(operator.type, name)
        operations += len([node for node in recorded if node.operands])
        question = Question(Program(plan(list(nodes))), operator.name, name, answer, operations)
        self._keep(self._table, self._key, question)
        return self._follow(question)

    def _follow(self, question: Question) -> Hashable:
        answer = question.ask(self._inputs)
        self.values.append(ComputedFirst(question.operator, question.name, str(answer), question.operations))
        # Down one branch: the next question, or the build, belongs to this answer.
        self._table, self._key = question.next, answer
        return answer
