"""Diagnostics of a net that do not run it: problems that keep the net from running, and look-up of nodes by name.

All problems are listed together, so a user can fix them with a single new export of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.core.errors import ExplorerError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.ir.recording_context import Scope
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import TupleType
from explorer.net.building.builder import Build, NetBuilder
from explorer.net.building.containers import leaves
from explorer.net.building.unsupported import Opaque
from explorer.net.definition.declared_types import disagreement
from explorer.net.definition.definition import Dimension, NetDefinition, OperatorDefinition, graph_error
from explorer.net.operators.table import OperatorTable, Remedy
from explorer.record.escape import visible
from explorer.record.reasons import counted_text

_LISTED = 5
"""maximum number of weights named in a problem"""


@dataclass(frozen=True, slots=True)
class UnknownType:
    """Unknown operator type with the names of its operators, and similar known types."""

    type: str
    operators: tuple[OperatorDefinition, ...]
    near: tuple[str, ...]
    remedy: Remedy | None = None

    def __str__(self) -> str:
        listed = ", ".join(f"{operator.quoted_label}" for operator in self.operators[:8])
        more = f", … ({len(self.operators)} in all)" if len(self.operators) > 8 else ""
        if self.remedy is not None:
            return visible(f"{self.type}: {listed}{more}; {self.remedy.rule}: {self.remedy.fix}")
        near = f"; near known types: {', '.join(self.near)}" if self.near else ""
        return visible(f"{self.type}: {listed}{more}{near}")


def unknown_types(definition: NetDefinition, table: OperatorTable) -> list[UnknownType]:
    """Return all operator types of a definition that are missing from a table, in file order."""
    operators_of: dict[str, list[OperatorDefinition]] = {}
    for operator in definition.operators:
        if operator.type not in table:
            operators_of.setdefault(operator.type, []).append(operator)
    return [
        UnknownType(name, tuple(operators), tuple(table.near(name)), table.remedy(name))
        for name, operators in operators_of.items()
    ]


def behind_unknown_types(definition: NetDefinition, table: OperatorTable) -> set[str]:
    """Return the names of the operators that read results of unknown operators, directly or through others.

    Results with declared lengths do not count. If a length is not declared, it is unknown behind such an operator.
    """
    uncertain: set[str] = set()
    names: set[str] = set()
    for operator in definition.ssa.topological_order:
        if operator.type not in table:
            shapes = {blob: definition.ssa.blobs[blob].shape for blob in operator.outputs}
            uncertain.update(blob for blob, shape in shapes.items() if shape is None or not all(map(_is_length, shape)))
        elif not uncertain.isdisjoint(operator.inputs):
            names.add(operator.name)
            uncertain.update(operator.outputs)
    return names


def _is_length(size: Dimension) -> bool:
    return isinstance(size, int)


def unknown_types_error(source: str, unknown: list[UnknownType], table: OperatorTable) -> ExplorerError:
    """Return the error for a net with unknown operator types, with a fix for the first of them."""
    first = unknown[0]
    rule = "all operator types must be known; net.types() lists the known ones"
    fix = f"register each: {table.registration(first.type)}"
    if first.remedy is not None:
        rule, fix = first.remedy
    listed = [str(replace(each, remedy=None, near=() if each.remedy else each.near)) for each in unknown]
    return graph_error(
        source,
        None,
        f"{counted_text(len(unknown), 'unknown operator type')}\n    " + "\n    ".join(listed),
        rule=rule,
        fix=f"{fix}; net.explore() shows the net all the same",
    )


def find_problems(build: Build, table: OperatorTable, guesses: str = "") -> list[str]:
    """Return descriptions of the problems that keep a net from running, and of operands that contradict the file.

    An operand contradicts the file if its type differs from its declared type. Problems are in topological order.
    ``guesses`` is a line about guessed lengths, for the first problem that may depend on them.
    """
    definition = build.definition
    order = {operator.name: index for index, operator in enumerate(definition.ssa.topological_order, 1)}
    problems = [
        (order[unknown.operators[0].name], f"unknown operator type {unknown}")
        for unknown in unknown_types(definition, table)
    ]
    problems += [(order.get(name, 0), text) for name, text in _weight_findings(definition)]
    shape_problems = [(order[names[0]], _finding(names, build)) for names in _grouped_problems(build, table)]
    if shape_problems and guesses:
        first = min(range(len(shape_problems)), key=lambda index: shape_problems[index][0])
        rank, text = shape_problems[first]
        shape_problems[first] = rank, f"{text}\n  {guesses}"
    problems += shape_problems
    problems += [(order.get(producer, 0), text) for producer, text in _contradictions(build)]
    return [text for _, text in sorted(problems, key=lambda finding: finding[0])]


def _grouped_problems(build: Build, table: OperatorTable) -> list[list[str]]:
    """Return the names of the operators that cannot run, grouped by type and reason."""
    groups: dict[tuple[str, ...], list[str]] = {}
    behind = behind_unknown_types(build.definition, table)
    for name, error in build.problems.items():
        if name in behind:
            continue
        operator = build.definition.ssa.operator(name)
        # Unknown types are already listed. An operator that reads their results is not a separate problem.
        if operator.type in table and not any(_is_untyped(build.values[blob]) for blob in operator.inputs):
            # The cause lacks the location, so failures for the same reason compare equal.
            reason = error.__cause__ if isinstance(error.__cause__, ExplorerError) else error
            groups.setdefault((operator.type, reason.given, reason.rule, reason.fix), []).append(name)
    return [*groups.values()]


def _finding(names: list[str], build: Build) -> str:
    """Return the problem of the first operator in ``names``, and the names of the other operators that share it."""
    text = str(build.problems[names[0]])
    if len(names) == 1:
        return text
    listed = ", ".join([build.definition.ssa.operator(name).quoted_label for name in names[1 : _LISTED + 1]])
    more = ", …" * (len(names) > _LISTED + 1)
    return f"{text}\n  the same for {len(names) - 1:,} more: {listed}{more}"


def _contradictions(build: Build) -> list[tuple[str, str]]:
    """Return (producer, description) for each operand whose type differs from its declared type.

    Operands that are computed from such an operand are omitted, because they differ for the same reason.
    """
    definition, wrong = build.definition, set[str]()
    findings = []
    for name in [*definition.ssa.inputs, *[out for each in definition.ssa.topological_order for out in each.outputs]]:
        blob, value = definition.blobs[name], build.values[name]
        if not isinstance(value, Expr) or isinstance(value.type, TupleType) or _is_opaque(value):
            continue
        producer = definition.ssa.operator(blob.producer) if blob.producer else None
        is_consequence = producer is not None and bool(wrong.intersection(producer.inputs))
        contradiction = disagreement(blob, value.type)
        if contradiction and not is_consequence:
            where = f"operator {producer.quoted_label}" if producer else "an input"
            findings.append((producer.name if producer else "", f"operand {name!r} of {where}: {contradiction}"))
        if contradiction or is_consequence:
            wrong.add(name)
    return findings


def _weight_findings(definition: NetDefinition) -> list[tuple[str, str]]:
    """Return (operator, problem) for each problem of weights; the operator is "" if the problem concerns all weights.

    Weights with the same problem, such as a missing file, are listed together.
    """
    absent = getattr(definition.weights, "error", None)
    if absent is not None:
        return [("", str(absent()))]
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    """text of the message before and after the name of the weight → operators and names of weights"""
    for operator in definition.operators:
        for attribute, reference in operator.weights.items():
            try:
                definition.verify(operator.name, attribute)
            except ExplorerError as error:
                # Messages that differ only in the weight's name are one problem.
                before, name, after = str(error).partition(f"weight {reference.key!r}")
                groups.setdefault((before, after), []).append((operator.name, name))
    return [
        (weights[0][0], f"{before}{_named([name for _, name in weights])}{after}")
        for (before, after), weights in groups.items()
    ]


def _named(weights: list[str]) -> str:
    """Return a noun phrase for several weights: ``3 weights ('a', 'b', 'c')``."""
    if len(weights) == 1:
        return weights[0]
    names = [name.removeprefix("weight ") for name in dict.fromkeys(weights)]
    return f"{counted_text(len(weights), 'weight')} ({', '.join(names[:_LISTED])}{', …' * (len(names) > _LISTED)})"


def _is_opaque(value: Expr) -> bool:
    producer = value.operands[0] if isinstance(value.operation, Item) else value
    return isinstance(producer.operation, Opaque)


def _is_untyped(value: object) -> bool:
    """Return whether a value has no type, because its operator cannot run and the file declares none."""
    return isinstance(value, Expr) and isinstance(value.operation, Opaque) and isinstance(value.type, TupleType)


def nodes_of(name: str, build: Build, builder: NetBuilder) -> list[Expr]:
    """Return the nodes of an operator, operand or weight in recording order; the node of a weight is its tensor.

    Any other name is a box as shown in views: ``pool``, ``layer1 / conv2``. Raise UnknownNameError if there is none.
    """
    definition = build.definition
    operators: Mapping[str, OperatorDefinition] = {operator.name: operator for operator in definition.operators}
    # Nodes are found by their boxes, since an operator may have recorded several.
    everything = reachable(ends(build))
    weights = {
        reference.key: (operator.name, attribute)
        for operator in definition.operators
        for attribute, reference in operator.weights.items()
    }
    if name not in operators and not definition.has_blob(name) and name not in weights:
        path = tuple([part.strip() for part in name.split(" / ")])
        if boxed := [node for node in everything if _is_below(node.scope, path)]:
            return boxed
        of_type = [operator.name for operator in definition.operators if _is_type(operator.type, name)]
        raise UnknownNameError(
            name,
            kind="operator, operand or weight",
            known={*operators, *definition.blobs, *weights, *_box_names(everything)},
            fix=f"this is a type; its operators are {_first(of_type, 8)}"
            if of_type
            else f"request one of {counted_text(len(operators), 'operator')} ({_first([*operators])}), "
            f"{counted_text(len(definition.blobs), 'operand')} ({_first([*definition.blobs])}) or "
            f"{counted_text(len(weights), 'weight')} ({_first([*weights])})",
        )
    nodes: list[Expr] = []
    if name in operators:
        box = builder.scope(operators[name])
        nodes += [node for node in everything if _is_inside(node.scope, box)]
    for value in leaves([build.values[definition.blob(name).name]]) if definition.has_blob(name) else ():
        if isinstance(value, Expr) and all(value is not node for node in nodes):
            nodes.append(value)
    if name in weights:
        nodes.append(builder.weights.tensor(*weights[name]))
    return nodes


def _first(names: list[str], count: int = 3) -> str:
    return (", ".join(map(visible, names[:count])) + ", …" * (len(names) > count)) or "none"


def _is_type(type_: str, name: str) -> bool:
    """Return whether a name matches a type; ``maxpool`` also matches ``nn.MaxPool2d``."""
    last = type_.rpartition(".")[2].casefold()
    return name == type_ or name.casefold() in (type_.casefold(), last, re.sub(r"[123]d$", "", last))


def _is_below(scope: Scope | None, path: tuple[str, ...]) -> bool:
    """Return whether the path of ``scope``, or of a scope that contains it, ends with ``path``."""
    names = _names(scope)
    return any(names[end - len(path) : end] == path for end in range(len(path), len(names) + 1))


def _names(scope: Scope | None) -> tuple[str, ...]:
    names = []
    while scope is not None:
        names.append(scope.name)
        scope = scope.parent
    return tuple(reversed(names))


def _box_names(nodes: Iterable[Expr]) -> set[str]:
    return {name for node in nodes for name in _names(node.scope) if name}


def _is_inside(scope: Scope | None, box: Scope) -> bool:
    while scope is not None:
        if scope is box:
            return True
        scope = scope.parent
    return False


def ends(build: Build) -> list[Expr]:
    """Return the net's outputs, followed by values that no operator reads.

    These expressions depend on every operator that computes a tensor.
    """
    names = dict.fromkeys(build.definition.ssa.outputs)
    blobs = build.definition.blobs.items()
    names |= dict.fromkeys([name for name, blob in blobs if not blob.consumers and blob.producer is not None])
    values = leaves([build.values[name] for name in names])
    return [*[value for value in values if isinstance(value, Expr)], *build.silent]
