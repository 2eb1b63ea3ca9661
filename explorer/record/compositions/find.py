"""Search for known compositions in the recorded nodes of a graph.

A composition is only a label: it changes no graph, plan or fingerprint.
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


_TOLERANCE = {"bfloat16": 4e-3}
"""dtype → relative error of its numbers, which is the rounding error"""
_USUAL = 1e-3
_MOST = 200
"""maximum number of nodes of a composition"""


def compositions(recording: Recording, numbers: Mapping[int, float]) -> list[Composition]:
    """Return the known compositions of the recorded nodes, in the order of their results.

    ``numbers`` maps single-element leaves to their values. Nodes of a composition may have other readers; a composition
    whose nodes are all part of another one is omitted.
    """
    formulas, rows = table()
    there = {recording.operations[row] for row in set(recording.nodes.operation)}
    rows = tuple([row for row in rows if all(_is_there(function, there) for function in row.functions)])
    if not rows:
        return []
    by_kind: dict[type, list[Formula]] = {}
    for row in rows:
        by_kind.setdefault(type(formulas.terms[row.value]), []).append(row)
    values = RecordedValues(recording, numbers)
    matchers = {tolerance: Match(formulas, values.algebra, tolerance) for tolerance in (_USUAL, *_TOLERANCE.values())}
    labels: list[Composition] = []
    for node, value in values.of.items():
        if node in values.same or recording.nodes.kind[node] != "operation":
            continue
        known = by_kind.get(type(values.algebra.terms[value]))
        if known is None:
            continue
        parts = signature(values.algebra, value)
        for row in known:
            # Compare sets first: matching tries all assignments of terms, and most values are no known function.
            if row.parts <= parts:
                matcher = matchers[_TOLERANCE.get(recording.type_of(node).dtype, _USUAL)]
                operand = _operand(matcher, row, value, len(recording.type_of(node).shape))
                ends = _ends(recording, values, matcher, node, operand) if operand >= 0 else None
                if ends is not None:
                    labels.append(Composition(row.name, node, *ends))
                    break
    return _outermost(labels)


def _is_there(function: str, operations: set[str]) -> bool:
    name = function.removeprefix("any_")
    return name in operations or (name == "mean" and "sum" in operations)


def _operand(matcher: Match, row: Formula, value: int, rank: int) -> int:
    """Return the value of ``x`` if a value matches a formula, else −1."""
    for bound in matcher.of(row.value, value, {}):
        axes = bound.get("axes", ())
        if not row.is_norm or axes == tuple(range(rank - len(axes), rank)):
            return int(bound["x"])
    return -1


def _ends(
    recording: Recording, values: RecordedValues, matcher: Match, node: int, operand: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return the operand's node, and the operations from it to a result; None if there are too few or many."""
    term = values.algebra.terms[operand]
    parts = {
        value
        for value, _ in (term.factors if isinstance(term, Product) else term.terms if isinstance(term, Sum) else ())
    }
    nodes, inside, pending, own = recording.nodes, {node}, [node], -1
    while pending and len(inside) <= _MOST:
        for each in nodes.operands[pending.pop()]:
            value = values.of.get(each, operand)
            if matcher.equal(value, operand):
                own = each if own < 0 else min(own, each)
            # Stop at the operand, or at its parts if it is no node itself: a formula's x may be a sum that was
            # expanded.
            elif each not in inside and nodes.operands[each] and value not in parts:
                inside.add(each)
                pending.append(each)
    return (own, tuple(sorted(inside))) if 1 < len(inside) <= _MOST else None


def _outermost(labels: list[Composition]) -> list[Composition]:
    """Omit compositions whose nodes are all part of another one."""
    holders: dict[int, list[set[int]]] = {}
    for row in labels:
        members = set(row.members)
        for node in row.members:
            holders.setdefault(node, []).append(members)
    return [row for row in labels if not any(set(row.members) < members for members in holders[row.node])]


Bindings: TypeAlias = Mapping[str, Any]
"""variable → value; also "axes" and "keeps" of the reductions, if any"""
_Factors: TypeAlias = tuple[float, list[tuple[int, float]], list[tuple[int, float]]]
_EPS = 0.1
"""largest number accepted as the eps of a norm"""


class Match:
    """Matches between the formulas' algebra and another one; numbers are equal within a tolerance.

    Formulas are only a few levels deep, even if the graph is deep.
    """

    def __init__(self, formulas: Algebra, values: Algebra, tolerance: float) -> None:
        self._formulas, self._values, self._tolerance = formulas, values, tolerance
        self._known: dict[int, _Factors] = {}

    def of(self, formula: int, value: int, bound: Bindings) -> Iterator[Bindings]:
        """Yield the bindings under which a formula equals a value."""
        wanted, term = self._formulas.terms[formula], self._values.terms[value]
        match wanted:
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
                yield from self._reduction(wanted, term, bound)
            case Product():
                yield from self._product(self._factors(formula), 1.0, *self._values.factors(value), bound)
            case Sum():
                yield from self._sum(wanted, *self._values.addends(value), bound)

    def _reduction(self, wanted: Reduction, term: object, bound: Bindings) -> Iterator[Bindings]:
        if not isinstance(term, Reduction) or term.function != wanted.function:
            return
        if wanted.keeps and not term.keeps:
            return
        known = {"axes": term.axes} if wanted.keeps else {"axes": term.axes, "keeps": term.keeps}
        if all(bound.get(name, fact) == fact for name, fact in known.items()):
            yield from self.of(wanted.operand, term.operand, {**bound, **known})

    def _product(
        self, wanted: _Factors, times: float, scale: float, factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[Bindings]:
        """Match a product: each factor of the formula matches one of the value, and the rest is ``x``."""
        coefficient, variables, others = wanted
        ratio = scale / (coefficient * times)
        # From here on the factor is exactly 1: a constant in a program is rounded, 0.7978846 for √(2/π).
        ratio = 1.0 if self._close(ratio, 1.0) else ratio
        if len(factors) < len(others) or (not variables and (ratio != 1 or len(factors) > len(others))):
            return
        for rest, bindings in self._assigned(others, factors, bound):
            if not variables:
                yield bindings
                continue
            ((variable, exponent),) = variables
            # A variable needs a value, and no even root of a negative number is defined.
            if not rest or (exponent != 1 and ratio <= 0):
                continue
            root = ratio if exponent == 1 else ratio ** (1 / exponent)
            powers = {value: times / exponent for value, times in rest.items()}
            if all(power.is_integer() for power in powers.values()) or exponent == 1:
                yield from self.of(variable, self._values.product(root, powers), bindings)

    def _assigned(
        self, others: Sequence[tuple[int, float]], factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        """Yield the remaining factors for each assignment of the formula's factors to factors of equal exponent."""
        if not others:
            yield factors, bound
            return
        (formula, exponent), *more = others
        for value, power in factors.items():
            if power == exponent:
                rest = {each: times for each, times in factors.items() if each != value}
                for bindings in self.of(formula, value, bound):
                    yield from self._assigned(more, rest, bindings)

    def _sum(self, wanted: Sum, constant: float, terms: Mapping[int, float], bound: Bindings) -> Iterator[Bindings]:
        """Match a sum: each term of the formula matches one of the value, and the rest is ``x``."""
        variables, others = self._apart(dict(wanted.terms))
        by_name = {self._name(variable): (variable, times) for variable, times in variables}
        for rest, bindings in self._summands(others, terms, bound):
            left = constant - wanted.constant
            if "x" in by_name:
                variable, times = by_name["x"]
                scaled = {value: coefficient / times for value, coefficient in rest.items()}
                if rest:
                    yield from self.of(variable, self._values.total(left / times, scaled), bindings)
            elif not rest and (0 < left <= _EPS if "eps" in by_name else self._close(constant, wanted.constant)):
                yield bindings

    def _summands(
        self, others: Sequence[tuple[int, float]], terms: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        if not others:
            yield terms, bound
            return
        (formula, times), *more = others
        wanted = self._factors(formula)
        for value, scale in terms.items():
            by, factors = self._values.factors(value)
            for bindings in self._product(wanted, times, by * scale, factors, bound):
                rest = {each: other for each, other in terms.items() if each != value}
                yield from self._summands(more, rest, bindings)

    def _factors(self, formula: int) -> _Factors:
        """Return a formula as a product: its coefficient, its variables with their exponents, other factors."""
        known = self._known.get(formula)
        if known is None:
            coefficient, factors = self._formulas.factors(formula)
            known = self._known[formula] = (coefficient, *self._apart(factors))
        return known

    def _apart(self, parts: Mapping[int, float]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Split the parts of a formula into variables and other values."""
        terms = self._formulas.terms
        variables = [part for part in parts.items() if isinstance(terms[part[0]], Atom)]
        return variables, [part for part in parts.items() if not isinstance(terms[part[0]], Atom)]

    def _name(self, variable: int) -> object:
        term = self._formulas.terms[variable]
        return term.name if isinstance(term, Atom) else None

    def _close(self, number: float, other: float) -> bool:
        return math.isclose(number, other, rel_tol=self._tolerance)

    def equal(self, value: int, other: int) -> bool:
        """Whether two values are equal except for rounded coefficients."""
        (scale, factors), (by, others) = self._values.factors(value), self._values.factors(other)
        return value == other or (factors == others and self._close(scale, by))


FUNCTIONS = frozenset({"exp", "erf", "tanh", "sigmoid", "log"})
REDUCTIONS = frozenset({"sum", "mean", "max"})
SAME = frozenset({"cast", "positive", "stop_gradient", "to_device"})
"""operations whose result equals their operand, except for rounding"""
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


class RecordedValues:
    """Values of the recorded nodes in an algebra: ``of`` is node → value, ``first`` is value → its first node.

    ``numbers`` maps single-element leaves to their values.
    """

    def __init__(self, recording: Recording, numbers: Mapping[int, float]) -> None:
        self.algebra = Algebra()
        self._recording, self._nodes = recording, recording.nodes
        self._lengths: dict[int, tuple[int, ...]] = {}
        """reduction → shape of its operand"""
        self.of: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.same: set[int] = set()
        """nodes with the same value as their operand"""
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
        # An operand that is not a recorded node, such as one produced by a pass.
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
        """Return the value of an operation of the algebra, None for other operations."""
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
        """Return the mean if a sum is divided by its number of elements, else the value."""
        term = self.algebra.terms[value]
        if isinstance(term, Product) and len(term.factors) == 1 and term.factors[0][1] == 1:
            ((inner, _),) = term.factors
            total = self.algebra.terms[inner]
            if isinstance(total, Reduction) and total.function == "sum":
                count = math.prod([self._lengths[inner][axis] for axis in total.axes])
                if math.isclose(term.coefficient * count, 1, rel_tol=1e-3):
                    mean = self.algebra.enter(Reduction("mean", total.axes, total.keeps, total.operand))
                    self._lengths[mean] = self._lengths[inner]
                    return mean
        return value

    def _reshaped(self, node: int, value: int) -> int:
        """Return the value of a reshape, including one that keeps or drops the axes of a reduction."""
        term, shape = self.algebra.terms[value], self._recording.type_of(node).shape
        if isinstance(term, Reduction):
            lengths = list(enumerate(self._lengths[value]))
            kept = tuple([1 if axis in term.axes else length for axis, length in lengths])
            dropped = tuple([length for axis, length in lengths if axis not in term.axes])
            if shape in (kept, dropped):
                reshaped = self.algebra.enter(
                    Reduction(term.function, term.axes, shape == kept or not shape, term.operand)
                )
                self._lengths[reshaped] = self._lengths[value]
                return reshaped
        return self.algebra.enter(Atom(node))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
