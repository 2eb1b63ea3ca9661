"""Patterns: find and replace subgraphs that a formula describes, and report near misses with the condition that
failed.

A pattern is matched against the recorded graph of expressions or of a net. A replacement is recorded by calling the
operations in its formula, and the rest of the graph is copied. In a net, the replacement is a formula of operator
types, and the net is edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np

from explorer.core.argument_checks import check_type, named
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr, Operation, make_replacement
from explorer.core.ir.recording_context import operator_of
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.registry import functions, operations
from explorer.ops.creation.constants import Full, Zero
from explorer.plan.rewrite.formula_tree import Apply, Formula, Literal, Variable, parse, record

Condition = Callable[[Expr], bool]


@runtime_checkable
class Searchable(Protocol):
    """Program (``ex.Net``) whose operators can be recorded for a search, and replaced at the matches."""

    def pattern_roots(self) -> list[Expr]:
        """Return the expressions that all operators record."""

    def with_replacements(self, formula: str, matches: Sequence[Match]) -> Self:
        """Return an edited copy in which each match is replaced by ``formula``, a formula of operator types."""


_Searchable = TypeVar("_Searchable", bound=Searchable)


@dataclass(frozen=True)
class Match:
    """Match of a pattern: the last node, all nodes, and the values of the variables."""

    root: Expr
    nodes: tuple[Expr, ...]
    """nodes of the match in topological order, without the values of variables"""
    variables: Mapping[str, Expr]

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the net's operators that recorded the nodes, in topological order; empty for expressions."""
        return tuple(dict.fromkeys(filter(None, map(_operator_name, self.nodes))))


@dataclass(frozen=True)
class NearMiss:
    """Node that has the last operation of a pattern, and the first condition that failed."""

    root: Expr
    matched: int
    """number of operations of the pattern that matched"""
    reason: str

    @property
    def operator(self) -> str:
        """Name of the net's operator that recorded the node; "" for an expression."""
        return _operator_name(self.root)

    def __str__(self) -> str:
        return f"{self.operator or repr(self.root)}: {self.reason}"


class Pattern:
    """Formula such as ``x * sigmoid(x)`` whose occurrences in a graph can be found and replaced.

    Names are variables. A variable matches any value, but the same value at each occurrence. Numbers are constants.
    Operators and functions are operations, with the names that nodes show. ``axis=1`` after operands is a condition on
    an attribute. Operands of commutative operations may be swapped. ``where`` contains additional conditions for
    variables. Calls of functions match as single nodes; their bodies are not searched.
    """

    def __init__(self, formula: str, where: Mapping[str, Condition] | None = None) -> None:
        self.formula, self.where = formula, dict(where or {})
        tree = parse(formula, operations)
        if not isinstance(tree, Apply):
            raise OperandError(
                f"the pattern {formula!r}",
                rule="a pattern must contain an operation",
                fix='ex.pattern("x * sigmoid(x)")',
            )
        _check_attributes(tree)
        self._tree, names = tree, tree.variables()
        if unknown := sorted(set(self.where) - names):
            raise OperandError(
                f"a condition for {', '.join(unknown)}",
                rule=f"a condition must be for a variable of {formula!r}: {', '.join(sorted(names))}",
                fix="where={'x': …} with a variable of the pattern",
            )

    def __repr__(self) -> str:
        return f"<pattern {self.formula!r}>"

    def find(self, *roots: Expr | Searchable) -> list[Match]:
        """Return all matches in the graphs of the given expressions or nets, in topological order."""
        return [answer for answer in self._results(roots) if isinstance(answer, Match)]

    def near_misses(self, *roots: Expr | Searchable) -> list[NearMiss]:
        """Return the nodes that have the pattern's last operation, but fail a condition.

        The nearest misses come first.
        """
        misses = [answer for answer in self._results(roots) if isinstance(answer, NearMiss)]
        return sorted(misses, key=lambda miss: -miss.matched)

    def overlay(self, *roots: Expr | Searchable) -> dict[Expr, float]:
        """Return a dict from node to the number of its match, counted from 1, for ``view.overlay``."""
        return {node: number for number, match in enumerate(self.find(*roots), 1) for node in match.nodes}

    @overload
    def replace(self, root: Expr, formula: str | Callable[..., Expr]) -> Expr: ...

    @overload
    def replace(self, root: _Searchable, formula: str) -> _Searchable: ...

    def replace(self, root: Expr | Searchable, formula: str | Callable[..., Expr]) -> Expr | Searchable:
        """Return a copy of ``root``, an expression or a net, in which every match is replaced.

        ``root`` does not change. In an expression, the replacement is a formula of the variables, or a function that
        gets the variables as keyword arguments. In a net, the replacement is a formula of operator types:
        ``silu.replace(net, "nn.SiLU(x)")``. The result and the last operator then keep their names, and operators that
        nothing reads any more are removed. If matches share a node, only the last recorded match is replaced. Raises
        OperandError if a replacement has another type than the replaced value, or if a variable is not a blob of the
        net.
        """
        replaced_uids: set[int] = set()
        chosen: list[Match] = []
        for match in reversed(self.find(root)):
            if replaced_uids.isdisjoint(node.uid for node in match.nodes):
                replaced_uids.update(node.uid for node in match.nodes)
                chosen.append(match)
        if isinstance(root, Searchable):
            if not isinstance(formula, str):
                raise OperandError(
                    f"replace of {root!r} by {formula!r}",
                    rule="the replacement in a net must be a string with a formula of the net's operator types",
                    fix=f'ex.pattern({self.formula!r}).replace(net, "nn.SiLU(x)")',
                )
            return root.with_replacements(formula, chosen[::-1])
        replacement = (
            formula if callable(formula) else _recording(parse(formula, functions), self._tree.variables(), formula)
        )
        nodes, copies, variables_of = (
            reachable([root]),
            dict[int, Expr](),
            {match.root.uid: match.variables for match in chosen},
        )
        for node in nodes:
            if node.uid in variables_of:
                values = {name: copies.get(value.uid, value) for name, value in variables_of[node.uid].items()}
                copies[node.uid] = new = replacement(**values)
                if new.type != node.type:
                    raise OperandError(
                        f"{self.formula} of {node.type} replaced by {new.type}",
                        rule="a replacement must have the type of the replaced value",
                        fix="exclude such values with where={…}, or use another formula",
                    )
            elif any(operand.uid in copies for operand in node.operands):
                operands = tuple([copies.get(operand.uid, operand) for operand in node.operands])
                copies[node.uid] = make_replacement(node.operation, operands, node, node.scope)
        return copies.get(root.uid, root)

    def _results(self, roots: Iterable[Expr | Searchable]) -> Iterator[Match | NearMiss]:
        found: list[Expr] = []
        for root in roots:
            fix = f"ex.pattern({self.formula!r}).find(y)"
            check_type(root, "root", (Expr, Searchable), "an expression, or a net", fix)
            found += [root] if isinstance(root, Expr) else root.pattern_roots()
        for node in reachable(found):
            if node.operation.name == self._tree.operation:
                yield self._match_at(node)

    def _match_at(self, root: Expr) -> Match | NearMiss:
        """Try all orders of commutative operands; if none matches, return the nearest miss."""
        nearest = NearMiss(root, -1, "")
        for attempt in _attempts(self._tree, root, _Binding({}, ())):
            if isinstance(attempt, _Binding):
                failed = next((name for name, holds in self.where.items() if not holds(attempt.values[name])), None)
                if failed is None:
                    return Match(root, tuple(sorted(attempt.nodes, key=lambda node: node.uid)), attempt.values)
                attempt = _Failure(
                    len(attempt.nodes), f"the condition of `{failed}` does not hold for {attempt.values[failed]!r}"
                )
            if attempt.matched > nearest.matched:
                nearest = NearMiss(root, attempt.matched, attempt.reason)
        return nearest


def _operator_name(node: Expr) -> str:
    """Return the name of the net's operator that recorded ``node``, or "" for other nodes."""
    operator = operator_of(node.scope)
    return "" if operator is None else str(operator.name)


@named
def pattern(formula: str, where: Mapping[str, Condition] | None = None) -> Pattern:
    """Return a pattern that finds or replaces the subgraphs described by ``formula``.

    Raises OperandError if the formula is invalid, and UnknownNameError if an operation or attribute is unknown.

    >>> x = ex.tensor([[1.0, -2.0]], name="x")
    >>> silu = ex.pattern("x * sigmoid(x)")
    >>> y = ex.tanh(x * ex.sigmoid(x))
    >>> [match.root.operation.name for match in silu.find(y)]
    ['multiply']
    >>> z = silu.replace(y, "relu(x)")
    >>> bool((ex.evaluate(z) == np.tanh([[1.0, 0.0]])).all())
    True
    >>> silu.near_misses(x * ex.tanh(x))[0].reason
    'operand 2 of multiply must be sigmoid(x), and is tanh'
    """
    return Pattern(formula, where)


@dataclass(frozen=True)
class _Binding:
    """Values of the variables, and nodes of the operations, that were matched so far."""

    values: Mapping[str, Expr]
    nodes: tuple[Expr, ...]


@dataclass(frozen=True)
class _Failure:
    matched: int
    reason: str


def _attempts(tree: Formula, node: Expr, bound: _Binding) -> Iterator[_Binding | _Failure]:
    """Yield each way in which ``node`` matches a formula, and for each failure the condition that failed."""
    pending: list[tuple[_Binding, tuple[tuple[Formula, Expr, str], ...]]] = [(bound, ((tree, node, "the node"),))]
    while pending:
        binding, goals = pending.pop()
        if not goals:
            yield binding
            continue
        (formula, value, role), remaining = goals[0], goals[1:]
        reason = _mismatch(formula, value, role, binding)
        if reason:
            yield _Failure(len(binding.nodes), reason)
        elif isinstance(formula, Variable):
            pending.append((_Binding({**binding.values, formula.name: value}, binding.nodes), remaining))
        elif isinstance(formula, Apply):
            inner = _Binding(binding.values, (*binding.nodes, value))
            # Push the order as written last, so that it is tried first.
            for order in reversed(_orders(formula, value)):
                steps = tuple(
                    (part, operand, f"operand {position} of {formula.operation}")
                    for position, (part, operand) in enumerate(zip(formula.operands, order, strict=True), 1)
                )
                pending.append((inner, steps + remaining))
        else:
            pending.append((binding, remaining))


def _orders(formula: Apply, node: Expr) -> list[Sequence[Expr]]:
    operands = node.operands
    exchanged = node.operation.commutative and len(operands) == 2
    return [operands, operands[::-1]] if exchanged else [operands]


def _mismatch(formula: Formula, node: Expr, role: str, binding: _Binding) -> str:
    """Return the condition that ``node`` does not satisfy, or "" if it matches so far."""
    if isinstance(formula, Variable):
        bound = binding.values.get(formula.name)
        is_same = bound is None or bound is node
        return "" if is_same else f"{role} must be the same value as the other `{formula.name}`, and is {_named(node)}"
    if isinstance(formula, Literal):
        return "" if _is_number(node, formula.value) else f"{role} must be {formula}, and is {_named(node)}"
    if node.operation.name != formula.operation:
        return f"{role} must be {formula}, and is {_named(node)}"
    if len(node.operands) != len(formula.operands):
        return f"{formula.operation} must have {len(formula.operands)} operands, and has {len(node.operands)}"
    for name, value in formula.attributes:
        actual = getattr(node.operation, _field(node.operation, name))
        expected = _from_front(value, node.operands[0].ndim) if name == "axis" and node.operands else value
        if actual not in (expected, (expected,)):
            return f"{name} of {formula.operation} must be {value!r}, and is {actual!r}"
    return ""


def _field(operation: Operation, attribute: str) -> str:
    """Return the attribute name of ``operation`` for a name in a formula: reductions call ``axis`` ``axes``."""
    return "axes" if attribute == "axis" and not hasattr(operation, "axis") else attribute


def _from_front(axis: Any, rank: int) -> Any:
    """Return ``axis``, one axis or a tuple of axes, counted from the front; a tuple is sorted."""
    if isinstance(axis, tuple) and all(type(item) is int for item in axis):
        return tuple(sorted([_from_front(item, rank) for item in axis]))
    return axis % rank if type(axis) is int and -rank <= axis < 0 else axis


def _check_attributes(tree: Formula) -> None:
    """Raise UnknownNameError if a formula uses an attribute that its operation does not have."""
    remaining: list[Formula] = [tree]
    while remaining:
        formula = remaining.pop()
        if isinstance(formula, Apply):
            remaining += formula.operands
            declared = operations[formula.operation].attribute_names
            known = [*declared, *(["axis"] if "axes" in declared else [])]
            for name, _ in formula.attributes:
                if name not in known:
                    raise UnknownNameError(name, kind=f"attribute of {formula.operation}", known=known)


def _is_number(node: Expr, value: float) -> bool:
    if isinstance(node.operation, (Full, Zero)):
        return bool(getattr(node.operation, "value", 0) == value)
    return isinstance(node, Tensor) and node.size == 1 and bool(np.all(node.array == value))


def _named(node: Expr) -> str:
    return node.operation.name


def _recording(tree: Formula, known: set[str], formula: str) -> Callable[..., Expr]:
    """Return a function that takes the values of variables as keyword arguments and records a formula."""
    unknown = sorted(tree.variables() - known)
    if unknown:
        raise OperandError(
            f"the replacement {formula!r} uses {', '.join(unknown)}",
            rule=f"a replacement must use only variables of its pattern: {', '.join(sorted(known))}",
            fix="add the variable to the pattern",
        )

    def recorded(**values: Expr) -> Expr:
        expression: Expr = record(tree, values)
        return expression

    return recorded
