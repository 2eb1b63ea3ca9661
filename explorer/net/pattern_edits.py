"""Edits that replace the matches of a pattern in a net by operators of the net's types.

The result and the last operator of a match keep their names, so operators that read the result need not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import operator_of
from explorer.net.building.builder import Build
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.edits import changed, plain
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.editor import free_name, own_name_of, write
from explorer.net.operators.table import OperatorTable
from explorer.plan.rewrite.formula_tree import Apply, Formula, Variable, parse
from explorer.plan.rewrite.pattern import Match


def with_replacements(build: Build, table: OperatorTable, formula: str, matches: Sequence[Match]) -> NetDefinition:
    """Return the definition in which operators of a formula replace each match.

    Raise OperandError if a variable or the result is not a blob, and UnknownNameError for an unknown type.
    """
    tree, definition = parse(formula, table.types(), f"operator type of {table.format}"), build.definition
    if not isinstance(tree, Apply):
        raise OperandError(
            f"the replacement {formula!r} in a net", rule="it must be an operator", fix='"Relu(x)", "nn.SiLU(x)"'
        )
    blobs = {value.uid: name for name, value in reversed(build.values.items()) if isinstance(value, Expr)}
    taken = {operator.name for operator in definition.operators} | {blob.blob for blob in definition.blobs.values()}
    written: dict[str, list[OperatorDefinition]] = {}
    found: set[str] = set()
    for match in matches:
        last = _last(definition, build, match)
        variables = {name: _blob(match, name, blobs) for name in sorted(tree.variables())}
        written[last.name] = _written(tree, formula, last, variables, taken, table)
        found.update(match.operators)
    operators = [new for old in definition.operators for new in written.get(old.name, [old])]
    edited = _without_unread(changed(definition, operators=operators), found - written.keys())
    for read in {blob for new in written.values() for operator in new for blob in operator.inputs}:
        edited = plain(edited, read)
    return edited


def _last(definition: NetDefinition, build: Build, match: Match) -> OperatorDefinition:
    """Return the operator whose only output is the value of a match."""
    name = operator_of(match.root.scope).name
    outputs = definition.ssa.operator(name).outputs
    if len(outputs) != 1 or build.values[outputs[0]] is not match.root:
        raise OperandError(
            f"a match that ends at {match.root.operation.name} within operator {name!r}",
            rule="a match that is replaced in a net must end at the only output of an operator",
            fix="use where={…} to exclude such values from the pattern, or replace expressions: net.build()",
        )
    return definition.operator(name)


def _blob(match: Match, name: str, blobs: Mapping[int, str]) -> str:
    value = match.variables.get(name)
    if value is not None and value.uid in blobs:
        return blobs[value.uid]
    problem = "it is not in the pattern" if value is None else f"it is {value.operation.name} within an operator"
    raise OperandError(
        f"variable {name!r} of a match at {', '.join(match.operators)}: {problem}",
        rule="each variable of a replacement in a net must be a variable of the pattern, and a blob of the net",
        fix="use where={…} to exclude such values from the pattern, or replace expressions: net.build()",
    )


def _written(
    tree: Apply,
    formula: str,
    last: OperatorDefinition,
    variables: Mapping[str, str],
    taken: set[str],
    table: OperatorTable,
) -> list[OperatorDefinition]:
    """Return new operators for a formula in topological order; the last has the name, boxes and output of ``last``."""
    results: list[OperatorDefinition] = []

    def blob_of(part: Formula) -> str:
        if isinstance(part, Variable):
            return variables[part.name]
        if not isinstance(part, Apply):
            raise OperandError(
                f"the operand {part} of the replacement {formula!r}",
                rule="in a net, operands must be variables or operators, because numbers are arguments",
                fix='pass the number as an argument by name: "nn.LeakyReLU(x, negative_slope=0.1)"',
            )
        inputs = tuple(map(blob_of, part.operands))
        is_last = part is tree
        name = last.name
        if not is_last:
            name = free_name(f"{last.name}_{own_name_of(part.operation)}", taken.__contains__, {})
            taken.add(name)
        outputs = last.outputs if is_last else (name,)
        written = write(table, part.operation, name, inputs, outputs, dict(part.attributes), {}, lambda key: False)
        results.append(replace(written.operator, boxes=last.boxes))
        return outputs[0]

    blob_of(tree)
    return results


def _without_unread(definition: NetDefinition, names: set[str]) -> NetDefinition:
    """Return the definition without the operators among ``names`` whose outputs nothing reads."""
    needed, kept = set(definition.ssa.outputs), list[str]()
    for operator in reversed(definition.ssa.topological_order):  # readers first
        if operator.name not in names or not needed.isdisjoint(operator.outputs):
            kept.append(operator.name)
            needed.update(operator.inputs)
    return changed(definition, operators=[operator for operator in definition.operators if operator.name in kept])
