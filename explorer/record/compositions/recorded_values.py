"""Recorded nodes as values of an algebra.

Nodes whose operations the algebra knows become formulas of their operands; all others are atoms, so that a formula ends
at them. Reshapes, casts and means written as sums are looked through, since exporters write functions in many ways.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.record.compositions.algebra import Algebra, Applied, Atom, Number, Product, Reduction

if TYPE_CHECKING:
    from explorer.record.recording import Recording

FUNCTIONS = frozenset({"exp", "erf", "tanh", "sigmoid", "log"})
REDUCTIONS = frozenset({"sum", "mean", "max"})
SAME = frozenset({"cast", "positive", "stop_gradient", "to_device"})
"""operations whose result is their operand, but for rounding"""
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


class RecordedValues(Algebra):
    """Values of the recorded nodes: ``of`` is node → value, ``first`` is value → its first node.

    ``numbers`` are the values of leaves of one element, by node.
    """

    def __init__(self, recording: Recording, numbers: Mapping[int, float]) -> None:
        super().__init__()
        self._recording, self._nodes = recording, recording.nodes
        self._lengths: dict[int, tuple[int, ...]] = {}
        """reduction → shape of its operand"""
        self.of: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.same: set[int] = set()
        """nodes whose value is that of their operand"""
        for node in range(len(self._nodes)):
            if self._nodes.born[node] < 0:
                value = self._value(node, numbers.get(node))
                self.of[node] = value
                self.first.setdefault(value, node)

    def _value(self, node: int, number: float | None) -> int:
        nodes, operands = self._nodes, self._nodes.operands[node]
        operation = self._recording.operations[nodes.operation[node]]
        if operation == "full":
            number = _number(nodes.attributes.get(node, {}).get("value", ""))
        if number is not None and math.isfinite(number):
            return self.enter(Number(number))
        # An operand outside of the recorded nodes, such as one that a pass produced.
        if not operands or any(operand not in self.of for operand in operands):
            return self.enter(Atom(node))
        values = [self.of[operand] for operand in operands]
        if operation in SAME:
            self.same.add(node)
            return values[0]
        if operation in FUNCTIONS:
            return self.enter(Applied(operation, values[0]))
        if operation in REDUCTIONS:
            return self._reduction(node, operation, values[0])
        if operation == "reshape":
            return self._reshaped(node, values[0])
        value = self._arithmetic(operation, values)
        return self.enter(Atom(node)) if value is None else value

    def _arithmetic(self, operation: str, values: list[int]) -> int | None:
        """Return the value of an operation of the algebra, None of another one."""
        match operation:
            case "add" | "add_n":
                total = values[0]
                for value in values[1:]:
                    total = self.add(total, value)
                return total
            case "subtract":
                return self.add(values[0], values[1], -1.0)
            case "negative":
                return self.multiply(values[0], self.enter(Number(-1.0)))
            case "multiply":
                return self._scaled(self.multiply(*values))
            case "divide":
                return self._scaled(self.multiply(values[0], self.power(values[1], -1.0)))
            case "power":
                exponent = self.terms[values[1]]
                return self.power(values[0], exponent.value) if isinstance(exponent, Number) else None
        return self.power(values[0], _POWERS[operation]) if operation in _POWERS else None

    def _reduction(self, node: int, operation: str, operand: int) -> int:
        attributes, nodes = self._nodes.attributes.get(node, {}), self._nodes
        axes = tuple(
            [int(axis) for axis in attributes.get("axes", "").strip("()").split(",") if axis.strip().isdigit()]
        )
        keeps = attributes.get("keepdims") == "True" or not self._recording.type_of(node).shape
        value = self.enter(Reduction(operation, axes, keeps, operand))
        self._lengths[value] = self._recording.type_of(nodes.operands[node][0]).shape
        return value

    def _scaled(self, value: int) -> int:
        """Return a value, for a sum divided by the number of its elements their mean."""
        term = self.terms[value]
        if isinstance(term, Product) and len(term.factors) == 1 and term.factors[0][1] == 1:
            ((inner, _),) = term.factors
            total = self.terms[inner]
            if isinstance(total, Reduction) and total.function == "sum":
                count = math.prod([self._lengths[inner][axis] for axis in total.axes])
                if math.isclose(term.coefficient * count, 1, rel_tol=1e-3):
                    mean = self.enter(Reduction("mean", total.axes, total.keeps, total.operand))
                    self._lengths[mean] = self._lengths[inner]
                    return mean
        return value

    def _reshaped(self, node: int, value: int) -> int:
        """Return the value of a reshape; a reduction keeps its axes, or drops them, by one, too."""
        term, shape = self.terms[value], self._recording.type_of(node).shape
        if isinstance(term, Reduction):
            lengths = list(enumerate(self._lengths[value]))
            kept = tuple([1 if axis in term.axes else length for axis, length in lengths])
            dropped = tuple([length for axis, length in lengths if axis not in term.axes])
            if shape in (kept, dropped):
                reshaped = self.enter(Reduction(term.function, term.axes, shape == kept or not shape, term.operand))
                self._lengths[reshaped] = self._lengths[value]
                return reshaped
        return self.enter(Atom(node))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
