"""Search for known compositions in the recorded nodes of a graph.

A composition is a label: it alters no graph, no plan and no fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.record.composition_rows import Composition
from explorer.record.compositions.algebra import Product, Sum
from explorer.record.compositions.match import Match
from explorer.record.compositions.recorded_values import RecordedValues
from explorer.record.compositions.signature import signature
from explorer.record.compositions.table import Formula, table

if TYPE_CHECKING:
    from explorer.record.recording import Recording

_TOLERANCE = {"bfloat16": 4e-3}
"""relative errors of numbers by dtype: that of their rounding"""
_USUAL = 1e-3
_MOST = 200
"""maximum number of nodes of a composition"""


def compositions(recording: Recording, numbers: Mapping[int, float]) -> list[Composition]:
    """Return the known compositions of the recorded nodes, in the order of their results.

    ``numbers`` are the values of leaves of one element, by node. Nodes of a composition may be read by others, too; one
    whose nodes all lie inside another one is left out.
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
    matchers = {tolerance: Match(formulas, values, tolerance) for tolerance in (_USUAL, *_TOLERANCE.values())}
    labels: list[Composition] = []
    for node, value in values.of.items():
        if node in values.same or recording.nodes.kind[node] != "operation":
            continue
        known = by_kind.get(type(values.terms[value]))
        if known is None:
            continue
        parts = signature(values, value)
        for row in known:
            # A test of sets first: matching tries all assignments of terms, and most values are no known function.
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
    """Return the value that is ``x`` if a value is a formula, else −1."""
    for bound in matcher.of(row.value, value, {}):
        axes = bound.get("axes", ())
        if not row.is_norm or axes == tuple(range(rank - len(axes), rank)):
            return int(bound["x"])
    return -1


def _ends(
    recording: Recording, values: RecordedValues, matcher: Match, node: int, operand: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return the node of an operand, and the operations from it to a result; None if there are too few or many."""
    term = values.terms[operand]
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
            # Up to the operand, and to its parts where the operand itself is no node: a formula's x may be a sum that
            # was opened.
            elif each not in inside and nodes.operands[each] and value not in parts:
                inside.add(each)
                pending.append(each)
    return (own, tuple(sorted(inside))) if 1 < len(inside) <= _MOST else None


def _outermost(labels: list[Composition]) -> list[Composition]:
    """Leave out compositions whose nodes all lie inside another one."""
    holders: dict[int, list[set[int]]] = {}
    for row in labels:
        members = set(row.members)
        for node in row.members:
            holders.setdefault(node, []).append(members)
    return [row for row in labels if not any(set(row.members) < members for members in holders[row.node])]
