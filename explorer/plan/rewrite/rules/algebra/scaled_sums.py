"""Values as sums of number · mantissa · eˣ with formal exponents x: powers that overflow and cancel are seen.

The rules of cancel_powers.py ask for the terms of a value, look whether the powers left in them can overflow, and have
the value recorded again from its terms. How each operation acts on terms is in power_propagation.py. Terms are found
operands first, without recursion, and remembered in the graph's notes: a power is followed once, not once a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, TypeAlias

from explorer.core.ir.expr import Expr, next_uid
from explorer.core.ir.operation import Operation
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import Multiply, add_n, maximum
from explorer.ops.elementwise.unary import Negative
from explorer.ops.nn.activation import clip
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import constant
from explorer.plan.rewrite.rules.algebra.overflow_risks import SOURCES, TERMS, Risks
from explorer.plan.rewrite.rules.algebra.powers import Leaf, Mantissa, nesting
from explorer.plan.rewrite.rules.algebra.terms import LOG_LIMIT, NOTHING, Algebra, Term, Terms, is_within

__all__ = ["LOG_LIMIT", "Rule", "Scaled", "Term", "Terms"]

_NESTED = 4
"""sums of powers inside each other that are followed, as in 1 / (1 + 1 / (1 + eˣ))"""
_STEPS = 64
"""operations through which a power is followed at most: terms grow with each"""


Rule: TypeAlias = "Callable[[Scaled, Expr, tuple[Expr, ...]], Terms | None]"


class Scaled(Algebra):
    """The values of one graph, as terms; a value that is no sum of such terms is a mantissa."""

    rules: ClassVar[dict[type[Operation], Rule]] = {}
    """class of operation → the terms of its result from those of its operands"""

    def __init__(self, graph: PlanGraph) -> None:
        super().__init__(graph)
        self.replacements: set[int] = set()
        """uids of values recorded in the place of powers that cancelled, which rules leave alone"""
        self.risks = Risks(graph, self.rules, self.replacements)
        self._terms: dict[int, Terms | None] = {}
        """by uid; None for a value without a power in it"""
        self._steps: dict[int, int] = {}
        """by uid, how many operations a power was followed through"""
        self._cancelled: dict[int, Terms] = {}
        """by uid, the terms of values in which all powers cancelled"""
        self._opened = len(graph.inlined)

    @classmethod
    def of_graph(cls, graph: PlanGraph) -> Scaled:
        """Return the terms of the values of a graph, remembered until calls are inlined in it."""
        values = graph.notes.get(cls)
        if values is None:
            values = graph.notes[cls] = cls(graph)
        assert isinstance(values, cls)
        if values._opened != len(graph.inlined):  # what was a call has powers now
            values._opened = len(graph.inlined)
            values.risks = Risks(graph, cls.rules, values.replacements)
            for memory in (values._terms, values._steps, values._cancelled, values.replacements):
                memory.clear()
        return values

    def terms(self, node: Expr) -> Terms | None:
        """Return the terms of a value; None where no power is in it that can be followed."""
        terms, rules = self._terms, self.rules
        if node.uid in terms:
            return terms[node.uid]
        node = self.graph.resolve(node)
        pending = [node]
        while pending:
            current = pending[-1]
            operation_class = type(current.operation)
            operands = self.graph.operands(current)
            if current.uid in terms or operation_class not in rules or len(operands) > TERMS:
                terms.setdefault(current.uid, None)
                pending.pop()
                continue
            before, reached = len(pending), operation_class in SOURCES
            if not reached:
                for operand in operands:
                    if operand.uid in terms:
                        reached = reached or terms[operand.uid] is not None or self._is_one(operand)
                    elif type(operand.operation) in rules:
                        pending.append(operand)
            if len(pending) == before:
                pending.pop()
                terms[current.uid] = self._carried(current, operands) if reached else None
        return terms[node.uid]

    def _is_one(self, node: Expr) -> bool:
        """Whether powers cancelled in a value and left one term."""
        return len(self._cancelled.get(node.uid, ())) == 1

    def _carried(self, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
        """Return the terms of a value from those of its operands; None where they are too many, or leave the floats."""
        dtype, step_counts = node.dtype, self._steps
        steps = self._steps[node.uid] = 1 + max([step_counts.get(operand.uid, 0) for operand in operands])
        if steps > _STEPS or dtype.kind != "f":
            return None
        if not all(operand.size and operand.dtype == dtype for operand in operands):
            return None
        terms = self.rules[type(node.operation)](self, node, operands)
        if terms is None or len(terms) > TERMS or not all(is_within(term.number) for term in terms):
            return None
        if any(len(term.exponent) > TERMS or max(map(nesting, term.exponent), default=0) > _NESTED for term in terms):
            return None
        if not any(term.exponent for term in terms):
            self._cancelled[node.uid] = terms
            return None
        return terms

    @contextmanager
    def making(self) -> Iterator[None]:
        """Note the nodes recorded inside the context: they stand for powers that cancelled."""
        first = next_uid()
        yield
        self.replacements.update(range(first, next_uid()))

    def reduced(self, node: Expr) -> Terms | None:
        """Return the terms of a value in which powers are, or were before all of them cancelled."""
        terms = self.terms(node)
        if terms is None:
            terms = self._cancelled.get(node.uid)
            if terms is None:
                self.risks.forget(node)
        return terms

    def of(self, node: Expr) -> Terms:
        """Return the terms of a value; itself as a mantissa where it has none."""
        terms = self.terms(node)
        if terms is not None:
            return terms
        number = constant(node, self.graph)
        if isinstance(number, (int, float)) and number != 0 and is_within(number):
            return [Term(float(number), None, {})]
        node = self.graph.resolve(node)
        cancelled = self._cancelled.get(node.uid, ())
        if len(cancelled) == 1:
            return [*cancelled]
        if isinstance(node.operation, Negative):
            return [term._replace(number=-term.number) for term in self.of(self.graph.operands(node)[0])]
        if isinstance(node.operation, Multiply):
            first, second = self.graph.operands(node)
            if constant(second, self.graph) == 0:  # what cancelled: a power times it does not overflow
                return [Term(0.0, Mantissa.of(first), {})]
        return [Term(1.0, Mantissa.of(node), {})]

    def total(self, terms: Terms, node: Expr) -> Expr:
        """Record the sum of terms, with NaN where a value that cancelled is NaN."""
        values = []
        carried: set[Leaf] = set()
        for term in terms:
            carried.update(*map(self.exponents.leaves, term.exponent))
            if term.mantissa is None and not term.exponent:
                value = full((), term.number, node.dtype, node.type.device)
                powers = [power for operand in self.graph.operands(node) for power in self.terms(operand) or ()]
                if len(terms) == 1 and powers and powers[0].exponent:
                    carried.update(*map(self.exponents.leaves, powers[0].exponent))
                    x = self.exponents.log(powers[0].exponent)
                    finite = x if term.number else maximum(x, 0.0)  # e to −∞ is 0: taken from itself, it is 0
                    value = finite - finite + value
                values.append(value)
            else:
                values.append(self.value(term))
        zeros = self.zeros(NOTHING.union(*[term.gone for term in terms]), carried)
        if len(values) == 2 and not zeros and terms[0].number * terms[1].number < 0:
            first, second = sorted(terms, key=lambda term: -term.number)
            if (first.mantissa or first.exponent) and (second.mantissa or second.exponent):
                return self.value(first) - self.value(second._replace(number=-second.number))
        return add_n(*values, *zeros) if len(values) + len(zeros) > 1 else values[0]

    def remember(self, value: Expr, terms: Terms) -> None:
        """Enter the terms of a value that was recorded in the place of another, so that they are not found again."""
        if any(term.exponent for term in terms):
            self._terms[value.uid] = terms
        else:
            self._cancelled[value.uid] = terms

    def zeros(self, gone: frozenset[Leaf | Mantissa], carried: set[Leaf]) -> list[Expr]:
        """Record 0 for each value that cancelled, with NaN where it is NaN; none where ``carried`` leaves are NaN
        then."""
        leaves = [leaf for leaf in gone if isinstance(leaf, Leaf) and not any(leaf.is_in(other) for other in carried)]
        values = [self.exponents.zero(leaf) for leaf in sorted(leaves)]
        mantissas = sorted([lost.value() for lost in gone if isinstance(lost, Mantissa)], key=lambda value: value.uid)
        return values + [clip(value, 0.0, 0.0) for value in mantissas]
