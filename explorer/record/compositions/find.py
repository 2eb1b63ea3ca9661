"""Search for known compositions among the recorded nodes of a graph.

A composition is only a label. It does not affect the graph, the plan or the fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from explorer.record.compositions.formula_algebra import Algebra, Applied, Atom, Number, Product, Reduction, Sum
from explorer.record.compositions.known_formulas import Formula, signature, table
from explorer.record.rows import Composition

if TYPE_CHECKING:
    from explorer.record.recording import Recording


_TOLERANCES = {"bfloat16": 4e-3}
"""dtype → relative tolerance for comparing constants of this dtype: the rounding error"""
_DEFAULT_TOLERANCE = 1e-3
_MAX_NODES = 200
"""maximum number of nodes of a composition"""


def compositions(recording: Recording, numbers: Mapping[int, float]) -> list[Composition]:
    """Return the known compositions among the recorded nodes, in the order of their results.

    ``numbers`` maps leaves with a single element to their values. Nodes of a composition may have other readers. A
    composition is omitted if all its nodes are part of another composition.
    """
    formulas, rows = table()
    operations = {recording.operations[row] for row in set(recording.nodes.operation)}
    rows = tuple([row for row in rows if all(_has_function(function, operations) for function in row.functions)])
    if not rows:
        return []
    by_kind: dict[type, list[Formula]] = {}
    for row in rows:
        by_kind.setdefault(type(formulas.terms[row.value]), []).append(row)
    values = RecordedValues(recording, numbers)
    matchers = {
        tolerance: Match(formulas, values.algebra, tolerance)
        for tolerance in (_DEFAULT_TOLERANCE, *_TOLERANCES.values())
    }
    labels: list[Composition] = []
    for node, value in values.of.items():
        if node in values.same or recording.nodes.kind[node] != "operation":
            continue
        candidates = by_kind.get(type(values.algebra.terms[value]))
        if candidates is None:
            continue
        parts = signature(values.algebra, value)
        for row in candidates:
            # Compare sets first: matching tries all assignments of terms, and most values are not a known function.
            if row.parts <= parts:
                matcher = matchers[_TOLERANCES.get(recording.type_of(node).dtype, _DEFAULT_TOLERANCE)]
                operand = _operand(matcher, row, value, len(recording.type_of(node).shape))
                ends = _operand_and_members(recording, values, matcher, node, operand) if operand >= 0 else None
                if ends is not None:
                    labels.append(Composition(row.name, node, *ends))
                    break
    return _outermost(labels)


def _has_function(function: str, operations: set[str]) -> bool:
    name = function.removeprefix("any_")
    return name in operations or (name == "mean" and "sum" in operations)


def _operand(matcher: Match, row: Formula, value: int, rank: int) -> int:
    """Return the value that corresponds to ``x`` if ``value`` matches a formula, else −1."""
    for bound in matcher.of(row.value, value, {}):
        axes = bound.get("axes", ())
        if not row.is_norm or axes == tuple(range(rank - len(axes), rank)):
            return int(bound["x"])
    return -1


def _operand_and_members(
    recording: Recording, values: RecordedValues, matcher: Match, node: int, operand: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return the operand's node, and the operations between the operand and the result ``node``.

    Returns None if there are too few or too many operations.
    """
    term = values.algebra.terms[operand]
    parts = {
        value
        for value, _ in (term.factors if isinstance(term, Product) else term.terms if isinstance(term, Sum) else ())
    }
    nodes, members, pending, operand_node = recording.nodes, {node}, [node], -1
    while pending and len(members) <= _MAX_NODES:
        for input_node in nodes.operands[pending.pop()]:
            value = values.of.get(input_node, operand)
            if matcher.equal(value, operand):
                operand_node = input_node if operand_node < 0 else min(operand_node, input_node)
            # Stop at the operand or, if the operand is not a node, at its terms, because the x of a formula may be an
            # expanded sum.
            elif input_node not in members and nodes.operands[input_node] and value not in parts:
                members.add(input_node)
                pending.append(input_node)
    return (operand_node, tuple(sorted(members))) if 1 < len(members) <= _MAX_NODES else None


def _outermost(labels: list[Composition]) -> list[Composition]:
    """Return the compositions without those whose nodes are all part of another composition."""
    holders: dict[int, list[set[int]]] = {}
    for row in labels:
        members = set(row.members)
        for node in row.members:
            holders.setdefault(node, []).append(members)
    return [row for row in labels if not any(set(row.members) < members for members in holders[row.node])]


Bindings: TypeAlias = Mapping[str, Any]
"""variable → its value; also "axes" and "keeps" if there are reductions"""
_Factors: TypeAlias = tuple[float, list[tuple[int, float]], list[tuple[int, float]]]
_MAX_EPS = 0.1
"""largest number that is accepted as the eps of a norm"""


class Match:
    """Matching of formulas with values of another algebra. Numbers are equal if they differ by less than a tolerance.

    Recursion is safe, because formulas are only a few levels deep, even if the graph is deep.
    """

    def __init__(self, formulas: Algebra, values: Algebra, tolerance: float) -> None:
        self._formulas, self._values, self._tolerance = formulas, values, tolerance
        self._factors_of: dict[int, _Factors] = {}

    def of(self, formula: int, value: int, bound: Bindings) -> Iterator[Bindings]:
        """Yield the bindings of variables for which a formula equals a value."""
        pattern, term = self._formulas.terms[formula], self._values.terms[value]
        match pattern:
            case Atom(name=str() as name):
                if name in bound:
                    if self.equal(bound[name], value):
                        yield bound
                elif not isinstance(term, Number):
                    yield {**bound, name: value}
            case Number(value=number):
                if isinstance(term, Number) and self._close(term.value, number):
                    yield bound
            case Applied(function=function, operand=operand):
                if isinstance(term, Applied) and term.function == function:
                    yield from self.of(operand, term.operand, bound)
            case Reduction():
                yield from self._reduction(pattern, term, bound)
            case Product():
                yield from self._product(self._factors(formula), 1.0, *self._values.factors(value), bound)
            case Sum():
                yield from self._sum(pattern, *self._values.addends(value), bound)

    def _reduction(self, pattern: Reduction, term: object, bound: Bindings) -> Iterator[Bindings]:
        if not isinstance(term, Reduction) or term.function != pattern.function:
            return
        if pattern.keeps and not term.keeps:
            return
        facts = {"axes": term.axes} if pattern.keeps else {"axes": term.axes, "keeps": term.keeps}
        if all(bound.get(name, fact) == fact for name, fact in facts.items()):
            yield from self.of(pattern.operand, term.operand, {**bound, **facts})

    def _product(
        self, pattern: _Factors, times: float, scale: float, factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[Bindings]:
        """Match a product: each factor of the formula matches a factor of the value.

        The remaining factors are ``x``.
        """
        coefficient, variables, fixed = pattern
        ratio = scale / (coefficient * times)
        # Treat the factor as exactly 1, because constants in programs are rounded, such as 0.7978846 for √(2/π).
        ratio = 1.0 if self._close(ratio, 1.0) else ratio
        if len(factors) < len(fixed) or (not variables and (ratio != 1 or len(factors) > len(fixed))):
            return
        for remaining, bindings in self._assigned(fixed, factors, bound):
            if not variables:
                yield bindings
                continue
            ((variable, exponent),) = variables
            # A variable needs a value, and even roots of negative numbers are undefined.
            if not remaining or (exponent != 1 and ratio <= 0):
                continue
            root = ratio if exponent == 1 else ratio ** (1 / exponent)
            powers = {value: times / exponent for value, times in remaining.items()}
            if all(power.is_integer() for power in powers.values()) or exponent == 1:
                yield from self.of(variable, self._values.product(root, powers), bindings)

    def _assigned(
        self, fixed: Sequence[tuple[int, float]], factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        """Yield the remaining factors for each assignment of the formula's factors to factors with equal exponents."""
        if not fixed:
            yield factors, bound
            return
        (formula, exponent), *further = fixed
        for value, power in factors.items():
            if power == exponent:
                remaining = {other_value: times for other_value, times in factors.items() if other_value != value}
                for bindings in self.of(formula, value, bound):
                    yield from self._assigned(further, remaining, bindings)

    def _sum(self, pattern: Sum, constant: float, terms: Mapping[int, float], bound: Bindings) -> Iterator[Bindings]:
        """Match a sum: each term of the formula matches a term of the value. The remaining terms are ``x``."""
        variables, fixed = self._split_variables(dict(pattern.terms))
        by_name = {self._name(variable): (variable, times) for variable, times in variables}
        for remaining, bindings in self._summands(fixed, terms, bound):
            constant_left = constant - pattern.constant
            if "x" in by_name:
                variable, times = by_name["x"]
                scaled = {value: coefficient / times for value, coefficient in remaining.items()}
                if remaining:
                    yield from self.of(variable, self._values.total(constant_left / times, scaled), bindings)
            elif not remaining and (
                0 < constant_left <= _MAX_EPS if "eps" in by_name else self._close(constant, pattern.constant)
            ):
                yield bindings

    def _summands(
        self, fixed: Sequence[tuple[int, float]], terms: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        if not fixed:
            yield terms, bound
            return
        (formula, times), *further = fixed
        pattern = self._factors(formula)
        for value, scale in terms.items():
            coefficient, factors = self._values.factors(value)
            for bindings in self._product(pattern, times, coefficient * scale, factors, bound):
                remaining = {
                    other_value: other_scale for other_value, other_scale in terms.items() if other_value != value
                }
                yield from self._summands(further, remaining, bindings)

    def _factors(self, formula: int) -> _Factors:
        """Return a formula as a product: coefficient, variables with exponents, and other factors with exponents."""
        cached = self._factors_of.get(formula)
        if cached is None:
            coefficient, factors = self._formulas.factors(formula)
            cached = self._factors_of[formula] = (coefficient, *self._split_variables(factors))
        return cached

    def _split_variables(self, parts: Mapping[int, float]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Split the factors or terms of a formula into variables and other values."""
        terms = self._formulas.terms
        variables = [part for part in parts.items() if isinstance(terms[part[0]], Atom)]
        return variables, [part for part in parts.items() if not isinstance(terms[part[0]], Atom)]

    def _name(self, variable: int) -> object:
        term = self._formulas.terms[variable]
        return term.name if isinstance(term, Atom) else None

    def _close(self, number: float, other: float) -> bool:
        return math.isclose(number, other, rel_tol=self._tolerance)

    def equal(self, value: int, other: int) -> bool:
        """Return whether two values are equal except for rounded coefficients."""
        (scale, factors), (other_scale, other_factors) = self._values.factors(value), self._values.factors(other)
        return value == other or (factors == other_factors and self._close(scale, other_scale))


FUNCTIONS = frozenset({"exp", "erf", "tanh", "sigmoid", "log"})
REDUCTIONS = frozenset({"sum", "mean", "max"})
SAME = frozenset({"cast", "positive", "stop_gradient", "to_device"})
"""operations whose result equals their operand, except for rounding"""
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


class RecordedValues:
    """Values of the recorded nodes in an algebra.

    ``of`` maps each node to its value, and ``first`` maps each value to the first node that has it. ``numbers`` maps
    leaves with a single element to their numeric values.
    """

    def __init__(self, recording: Recording, numbers: Mapping[int, float]) -> None:
        self.algebra = Algebra()
        self._recording, self._nodes = recording, recording.nodes
        self._lengths: dict[int, tuple[int, ...]] = {}
        """reduction → shape of its operand"""
        self.of: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.same: set[int] = set()
        """nodes whose value equals the value of their operand"""
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
            return self.algebra.enter(Number(number))
        # An operand may be produced by a pass, and then is not a recorded node.
        if not operands or any(operand not in self.of for operand in operands):
            return self.algebra.enter(Atom(node))
        values = [self.of[operand] for operand in operands]
        if operation in SAME:
            self.same.add(node)
            return values[0]
        if operation in FUNCTIONS:
            return self.algebra.enter(Applied(operation, values[0]))
        if operation in REDUCTIONS:
            return self._reduction(node, operation, values[0])
        if operation == "reshape":
            return self._reshaped(node, values[0])
        value = self._arithmetic(operation, values)
        return self.algebra.enter(Atom(node)) if value is None else value

    def _arithmetic(self, operation: str, values: list[int]) -> int | None:
        """Return the value of an operation that the algebra defines; None for other operations."""
        match operation:
            case "add" | "add_n":
                total = values[0]
                for value in values[1:]:
                    total = self.algebra.add(total, value)
                return total
            case "subtract":
                return self.algebra.add(values[0], values[1], -1.0)
            case "negative":
                return self.algebra.multiply(values[0], self.algebra.enter(Number(-1.0)))
            case "multiply":
                return self._scaled(self.algebra.multiply(*values))
            case "divide":
                return self._scaled(self.algebra.multiply(values[0], self.algebra.power(values[1], -1.0)))
            case "power":
                exponent = self.algebra.terms[values[1]]
                return self.algebra.power(values[0], exponent.value) if isinstance(exponent, Number) else None
        return self.algebra.power(values[0], _POWERS[operation]) if operation in _POWERS else None

    def _reduction(self, node: int, operation: str, operand: int) -> int:
        attributes, nodes = self._nodes.attributes.get(node, {}), self._nodes
        axes = tuple(
            [int(axis) for axis in attributes.get("axes", "").strip("()").split(",") if axis.strip().isdigit()]
        )
        keeps = attributes.get("keepdims") == "True" or not self._recording.type_of(node).shape
        value = self.algebra.enter(Reduction(operation, axes, keeps, operand))
        self._lengths[value] = self._recording.type_of(nodes.operands[node][0]).shape
        return value

    def _scaled(self, value: int) -> int:
        """Return the mean if ``value`` is a sum divided by its number of elements, else ``value``."""
        term = self.algebra.terms[value]
        if isinstance(term, Product) and len(term.factors) == 1 and term.factors[0][1] == 1:
            ((summed, _),) = term.factors
            total = self.algebra.terms[summed]
            if isinstance(total, Reduction) and total.function == "sum":
                count = math.prod([self._lengths[summed][axis] for axis in total.axes])
                if math.isclose(term.coefficient * count, 1, rel_tol=1e-3):
                    mean = self.algebra.enter(Reduction("mean", total.axes, total.keeps, total.operand))
                    self._lengths[mean] = self._lengths[summed]
                    return mean
        return value

    def _reshaped(self, node: int, value: int) -> int:
        """Return the value of a reshape.

        A reshape that only restores or drops the axes of a reduction counts as that reduction.
        """
        term, shape = self.algebra.terms[value], self._recording.type_of(node).shape
        if isinstance(term, Reduction):
            lengths = list(enumerate(self._lengths[value]))
            kept_shape = tuple([1 if axis in term.axes else length for axis, length in lengths])
            dropped_shape = tuple([length for axis, length in lengths if axis not in term.axes])
            if shape in (kept_shape, dropped_shape):
                reshaped = self.algebra.enter(
                    Reduction(term.function, term.axes, shape == kept_shape or not shape, term.operand)
                )
                self._lengths[reshaped] = self._lengths[value]
                return reshaped
        return self.algebra.enter(Atom(node))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
