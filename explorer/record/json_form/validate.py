"""Validation of a recording beyond the types of its fields: every row number must refer to an existing row.

Recordings that are read from files are validated before any view receives them, because later code indexes tables
without checks. Graphs may be 100,000 nodes deep, so cycles are found by removing finished rows, and not by recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import chain, pairwise
from operator import lt
from typing import Any

from explorer.record.json_form.decoder import spoken
from explorer.record.reasons import FIELD, counted_text
from explorer.record.recording import Recording

_UNITS = ("_bytes", "_us", "_flops")
_MAX_DEPTH = 8


def check(recording: Recording) -> None:
    """Raise ValueError, which names the field, if a row number is out of range or a reason lacks a fact."""
    _check_nodes(recording)
    _check_tables(recording)
    _check_dimensions(recording)
    _check_decisions(recording)
    _check_layers(recording)
    _check_run(recording)


def _rows(field: str, rows: Iterable[int], table: str, size: int, lowest: int = 0) -> None:
    """Raise ValueError unless all ``rows`` are in ``lowest`` … ``size`` − 1, for a table with ``size`` rows."""
    # min and max run in C: a recording has millions of row numbers, and errors are rare.
    rows = rows if isinstance(rows, (list, tuple)) else list(rows)
    if rows and not (min(rows) >= lowest and max(rows) < size):
        invalid = next(row for row in rows if not lowest <= row < size)
        raise ValueError(f"recording field recording.{field}: {spoken(invalid)} is no row of {table}, which has {size}")


def _filled(field: str, lists: Iterable[Sequence[int]]) -> None:
    """Raise ValueError if one of the lists of nodes is empty."""
    if not all(lists):
        raise ValueError(f"recording field recording.{field}: the list is empty, but must contain at least one node")


def _check_nodes(recording: Recording) -> None:
    """Raise ValueError unless all columns of the nodes have equal lengths and refer to existing rows."""
    nodes, size = recording.nodes, len(recording.nodes)
    for column in fields(nodes):
        if column.name != "attributes" and len(values := getattr(nodes, column.name)) != size:
            raise ValueError(
                f"recording field recording.nodes.{column.name}: expected {size} values, as many as operation has, "
                f"found {len(values)}"
            )
    _rows("nodes.operation", nodes.operation, "operations", len(recording.operations))
    _rows("nodes.type", nodes.type, "types", len(recording.types))
    _rows("nodes.operands", chain.from_iterable(nodes.operands), "nodes", size)
    _rows("nodes.scope", nodes.scope, "scopes", len(recording.scopes))
    _rows("nodes.source", nodes.source, "sources", len(recording.sources), -1)
    _rows("nodes.born", nodes.born, "decisions", recording.end, -1)
    _rows("nodes.gone", nodes.gone, "decisions", recording.end, -1)
    _rows("nodes.body", nodes.body, "bodies", len(recording.bodies))
    _rows("nodes.callee", nodes.callee, "bodies", len(recording.bodies), -1)
    _rows("nodes.attributes", list(nodes.attributes), "nodes", size)
    _acyclic("nodes.operands", nodes.operands, "reads its own result")


def _check_tables(recording: Recording) -> None:
    nodes = len(recording.nodes)
    _rows("types.parts", chain.from_iterable(row.parts for row in recording.types), "types", len(recording.types))
    _rows("scopes.parent", [row.parent for row in recording.scopes], "scopes", len(recording.scopes), -1)
    # Later code follows scopes and types from row to row, and would never terminate in a cycle.
    _acyclic("types.parts", [row.parts for row in recording.types])
    _acyclic("scopes.parent", [(row.parent,) if row.parent >= 0 else () for row in recording.scopes])
    for body in recording.bodies:
        _rows("bodies", (*body.inputs, *body.outputs), "nodes", nodes)
    for text in recording.source_texts:
        numbers = text.numbers
        if len(numbers) != len(text.lines) or not all(map(lt, (0, *numbers), numbers)):
            raise ValueError(
                "recording field recording.source_texts: expected increasing numbers of lines from 1, one for each of "
                f"{counted_text(len(text.lines), 'line')}, found {len(numbers)}, "
                f"the first {spoken(numbers[0] if numbers else None)}"
            )
    for row, type_row in enumerate(recording.types):
        invalid = [size for size in type_row.shape if type(size) is not int or size < 0]
        if invalid:
            raise ValueError(
                f"recording field recording.types: row {row} has the size {spoken(invalid[0])}; "
                "sizes are nonnegative integers"
            )
    for before, stage in pairwise(recording.stages):
        if stage.first < before.last:
            raise ValueError(
                f"recording field recording.stages: {spoken(stage.name)} starts at decision {stage.first}, and "
                f"{spoken(before.name)}, which comes before it, ends at {before.last}"
            )
    for stage in recording.stages:
        if not 0 <= stage.first <= stage.last <= recording.end:
            bounds = f"{spoken(stage.first)} … {spoken(stage.last)}"
            raise ValueError(f"recording field recording.stages: {bounds} are not among the {recording.end} decisions")


def _acyclic(field: str, parts_of: Sequence[tuple[int, ...]], problem: str = "is a part of itself") -> None:
    """Raise ValueError if a row contains itself, directly or indirectly.

    Rows that contain no other remaining rows are removed until none is left.
    """
    wholes_of: list[list[int]] = [[] for _ in parts_of]
    missing = [len(parts) for parts in parts_of]
    for row, parts in enumerate(parts_of):
        for part in parts:
            wholes_of[part].append(row)
    ready = [row for row, count in enumerate(missing) if count == 0]
    for row in ready:
        for user in wholes_of[row]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if len(ready) != len(parts_of):
        row = next(row for row, count in enumerate(missing) if count)
        raise ValueError(f"recording field recording.{field}: row {row} {problem}")


def _check_dimensions(recording: Recording) -> None:
    """Raise ValueError unless dimension names belong to existing nodes, with one name per dimension."""
    _rows("dimensions", list(recording.dimensions), "nodes", len(recording.nodes))
    for node, declared in recording.dimensions.items():
        if len(declared.names) != len(recording.type_of(node).shape):
            raise ValueError(
                f"recording field recording.dimensions: expected {len(recording.type_of(node).shape)} names for node "
                f"{spoken(node)}, as many as its dimensions, found {len(declared.names)}"
            )


def _check_decisions(recording: Recording) -> None:
    """Raise ValueError if a decision lacks a fact for its sentence, or refers to nodes that do not exist."""
    nodes = len(recording.nodes)
    _rows("authors", list(recording.authors), "decisions", recording.end)
    for decision in recording.decisions:
        _rows("decisions.stage", (decision.stage,), "stages", len(recording.stages))
        _rows("decisions.subjects", decision.subjects, "nodes", nodes)
        _rows("decisions.produced", decision.produced, "nodes", nodes)
        template_fields = FIELD.findall(decision.reason)
        missing = [name for name, _, _ in template_fields if name not in decision.facts]
        if missing:
            raise ValueError(
                f"recording field recording.decisions.reason: {spoken(missing[0])} is none of the facts of decision "
                f"{spoken(decision.code)}, which are {', '.join(map(spoken, [*decision.facts][:8])) or 'none'}"
            )
        for name, noun, _ in template_fields:
            if noun and type(decision.facts[name]) is not int:
                raise ValueError(
                    f"recording field recording.decisions.reason: {spoken(name)} counts {spoken(noun)} in decision "
                    f"{spoken(decision.code)}: expected an integer, found {spoken(decision.facts[name])}"
                )
        for name, value in decision.facts.items():
            _check_fact(name, value, nodes)
    _rows("substitutions", chain.from_iterable(row[1:] for row in recording.substitutions), "nodes", nodes)
    _rows("substitutions", [row[0] for row in recording.substitutions], "decisions", recording.end)
    _rows("declined_edges", chain.from_iterable(row[1:] for row in recording.declined_edges), "nodes", nodes)
    _rows("declined_edges", [row[0] for row in recording.declined_edges], "decisions", recording.end)
    _check_substitutions(recording)
    _filled("groups.members", [group.members for group in recording.groups])
    for group in recording.groups:
        _rows("groups.decision", (group.decision,), "decisions", recording.end)
        _rows("groups.members", group.members, "nodes", nodes)


def _check_substitutions(recording: Recording) -> None:
    """Raise ValueError unless views can apply the replacements one by one, forwards and backwards, without cycles."""
    replaced: set[int] = set()
    for _, old, new in recording.substitutions:
        prefix = f"recording field recording.substitutions: node {spoken(new)} is put in the place of {spoken(old)}"
        if new in replaced or new == old:
            raise ValueError(f"{prefix}, and was replaced itself before")
        if old in replaced:
            raise ValueError(f"{prefix}, which was replaced before")
        replaced.add(old)


_MAX_NUMBER = 1 << 1000
"""upper limit of numbers that have a unit, because larger numbers cannot be formatted"""


def _check_fact(name: str, fact: Any, nodes: int) -> None:
    field = f"decisions.facts[{spoken(name)}]"
    pending = [(fact, 0)]
    for value, depth in pending:
        if isinstance(value, (list, tuple)):
            if depth == _MAX_DEPTH:
                raise ValueError(f"recording field recording.{field}: lists are nested more than {_MAX_DEPTH} deep")
            pending += [(item, depth + 1) for item in value]
        elif isinstance(value, dict):
            if list(value) != ["node"] or type(value["node"]) is not int:
                raise ValueError(
                    f'recording field recording.{field}: a fact that is an object must have the form {{"node": id}}'
                )
            _rows(field, (value["node"],), "nodes", nodes)
        elif name.endswith(_UNITS) and (type(value) not in (int, float) or abs(value) >= _MAX_NUMBER):
            raise ValueError(
                f"recording field recording.{field}: expected a number, as the name has a unit, found {spoken(value)}"
            )


def _check_layers(recording: Recording) -> None:
    nodes, scopes = len(recording.nodes), len(recording.scopes)
    for gradient in recording.gradients:
        _rows("gradients", (gradient.node, *gradient.backward, *gradient.saved), "nodes", nodes)
    for layer in recording.layers:
        _rows("layers.scopes", layer.scopes, "scopes", scopes)
    for composition in recording.compositions:
        _rows("compositions", (composition.node, *composition.members), "nodes", nodes)
        _rows("compositions.operand", (composition.operand,), "nodes", nodes, -1)
    _rows("leaf_values", list(recording.leaf_values), "nodes", nodes)
    _rows("shared_leaves", [*recording.shared_leaves, *recording.shared_leaves.values()], "nodes", nodes)
    _rows("variables", list(recording.variables), "nodes", nodes)
    _rows("operators.scope", [operator.scope for operator in recording.operators], "scopes", scopes)
    for operator in recording.operators:
        _rows("operators.parameters", [at for _, at in operator.parameters], "inputs", len(operator.inputs), -1)
        _rows("operators.results", [node for _, node in operator.results], "nodes", nodes, -1)
    documented = [operator.documentation for operator in recording.operators]
    _rows("operators.documentation", documented, "operator_types", len(recording.operator_types), -1)
    _rows("interface.node", [row.node for row in recording.interface], "nodes", nodes)
    _rows("ports.scope", [port.scope for port in recording.ports], "scopes", scopes)
    _rows("ports.node", [port.node for port in recording.ports], "nodes", nodes)


def _check_run(recording: Recording) -> None:
    nodes, schedule, run = len(recording.nodes), recording.schedule, recording.run
    kernels = schedule.kernels if schedule else ()
    _filled("schedule.kernels.nodes", [kernel.nodes for kernel in kernels])
    for kernel in kernels:
        _rows("schedule.kernels.nodes", kernel.nodes, "nodes", nodes)
        _rows("schedule.kernels.ready", kernel.ready_candidates, "nodes", nodes)
        _rows("schedule.kernels.waiting", kernel.waiting, "nodes", nodes)
        _rows("schedule.kernels.frees", kernel.frees, "nodes", nodes)
        buffers = () if kernel.buffer is None else (kernel.buffer,)
        _rows("schedule.kernels.buffer", buffers, "buffers", len(schedule.buffers) if schedule else 0, -1)
    _rows("placements", list(recording.placements), "schedule.kernels", len(kernels))
    _rows("codes", list(recording.codes), "schedule.kernels", len(kernels))
    _rows("once", recording.once, "schedule.kernels", len(kernels))
    for code in recording.codes.values():
        count = code.text.count("\n") + 1
        _rows("codes.lines", [line for line, _ in code.lines], "the code's lines", count + 1, 1)
        _rows("codes.lines", [node for _, node in code.lines], "nodes", nodes)
    if run:
        _rows("run.steps.kernel", [step.kernel for step in run.steps], "schedule.kernels", len(kernels))
        _rows("run.values", list(run.values), "nodes", nodes)
