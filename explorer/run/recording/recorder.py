"""Recorder: converts a plan and its run to a recording, with rows for expressions and ids for uids.

Views read only the recording and need no engine. Rows are created on request rather than during planning, since most
evaluations need only the plan. Nodes come first, because this assigns their ids. Decisions follow the schedule, because
decisions about batches contain measured kernel times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from explorer.core.errors import OperandError
from explorer.core.ir.dimension_declarations import declared_dimensions
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body as Traced
from explorer.core.ir.function import Call
from explorer.core.ir.recording_context import Scope
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import numbers_of
from explorer.core.types.device import cpu
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.numerics import EFFECTS
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import Plan
from explorer.record import (
    Body,
    Decision,
    DimensionNames,
    Explanation,
    FileOperator,
    Group,
    OperatorType,
    Port,
    Recording,
    Run,
    Stage,
    Step,
    Summary,
)
from explorer.record.batches import Batch, trace_batches
from explorer.record.compositions.find import compositions
from explorer.record.escape import shortened
from explorer.record.layer_rows import Layer as LayerRow
from explorer.record.reasons import counted_text
from explorer.record.rows import in_order
from explorer.run.recording.code_rows import codes
from explorer.run.recording.gradient_tables import gradients
from explorer.run.recording.interface_table import NO_INTERFACE, Interface
from explorer.run.recording.node_rows import NodeRows, attribute_text, fingerprint
from explorer.run.recording.stage_rows import schedule, stage
from explorer.run.recording.variable_tables import source_texts, variables
from explorer.run.runtime.timing import Note

if TYPE_CHECKING:
    from explorer.layers.framework.layer import Layer


def build(
    planned: Plan,
    title: str,
    options: Mapping[str, Any],
    run: Run | None = None,
    values: Mapping[int, Summary] | None = None,
    reused: bool = False,
    notes: Sequence[Note] = (),
    interface: Interface = NO_INTERFACE,
) -> Recording:
    """Return the recording of a plan, with its run if there was one; ``values`` maps uids to summaries.

    ``notes`` are the executor's notes, and ``interface`` describes the model. ``reused`` is
    whether the run used a program planned earlier for a graph of the same structure.
    """
    tables, graph = NodeRows(), planned.graph
    recording, ids = tables.recording, tables.ids
    nodes = _enter_graph(tables, graph)
    recording.compositions = compositions(recording, numbers(nodes))
    interface.record(recording, ids, tables.boxes)
    recording.schedule, recording.codes = schedule(planned, ids), codes(planned, recording, ids)
    recording.once = [index for index, kernel in enumerate(planned.schedule.kernels) if kernel.constant]
    subjects = [tuple([ids[node.uid] for node in decision.subjects]) for decision in graph.decisions]
    produced = [tuple([ids[n.uid] for n in decision.produced if n.uid in ids]) for decision in graph.decisions]
    measured = _batch_times(recording, graph, subjects, produced, run.steps) if run is not None else {}
    recording.decisions = decision_rows(graph.decisions, subjects, produced, ids, measured)
    recording.declined_edges = declined_edges(graph.decisions, ids)
    recording.explanations = explanations(graph.decisions)
    recording.title, recording.options = title, dict(options)
    recording.fingerprint = fingerprint(planned)
    if run is not None:
        summaries = {ids[uid]: summary for uid, summary in (values or {}).items() if uid in ids}
        recording.run = replace(run, values=summaries)
        recording.stages.append(_run_stage(run, recording.end, reused, notes))
    return recording


def build_recorded(graph: PlanGraph) -> Recording:
    """Return the recording of a graph before any pass, with only its nodes and first stage, for a quick drawing."""
    return recorded_only(graph).recording


def recorded_only(graph: PlanGraph) -> NodeRows:
    """Return the rows of a graph before any pass, and the ids of its nodes."""
    tables = NodeRows()
    _enter_graph(tables, graph)
    return tables


def _enter_graph(tables: NodeRows, graph: PlanGraph) -> list[Expr]:
    """Add rows for the nodes of a graph, including replacements, and for its stages; return the nodes."""
    recording = tables.recording
    expressions_ = _enter_nodes(tables, graph)
    ids, nodes = tables.ids, recording.nodes
    tables.add_callers()
    recording.source_texts = source_texts(tables.recorded_lines)
    recording.gradients = gradients(graph, expressions_, ids)
    recording.layers, recording.ports = layers(tables.boxes), ports(tables.boxes, ids)
    recording.operators, recording.operator_types = operators(tables.boxes)
    for decision, node in graph.removed:
        # Only the first decision that removed a node counts.
        if nodes.gone[ids[node.uid]] < 0:
            nodes.gone[ids[node.uid]] = decision
    rows = [(decision, ids[old.uid], ids[new.uid]) for decision, old, new in graph.substitutions]
    recording.substitutions = in_order(rows)
    recording.dimensions = dimensions(recording, expressions_)
    recording.variables = variables(recording, expressions_)
    recording.shared_leaves = shared_leaves(expressions_)
    recording.groups = [
        Group(group.decision, group.kind, group.label, tuple([ids[node.uid] for node in group.members]))
        for group in graph.groups
    ]
    recording.stages = [stage(planned_stage, tables.flops, graph.groups) for planned_stage in graph.stages]
    return expressions_


def _batch_times(
    recording: Recording,
    graph: PlanGraph,
    subjects: Sequence[tuple[int, ...]],
    produced: Sequence[tuple[int, ...]],
    steps: Sequence[Step],
) -> dict[int, dict[str, Any]]:
    """Return decision index → measured facts, for decisions about batches; the schedule must be recorded already."""
    estimated = {index for index, decision in enumerate(graph.decisions) if "together_us" in decision.facts}
    # The iterations of a body that replaces a mapped call are measured like the elements of a batch.
    groups = [
        replace(group, kind="batch", members=subjects[group.decision])
        if group.kind == "function" and group.decision in estimated
        else group
        for group in recording.groups
    ]
    assert recording.schedule is not None
    tables = recording.nodes, groups, recording.substitutions, subjects, recording.schedule.kernels
    return batch_timings(trace_batches(*tables), produced, steps)


def _run_stage(run: Run, end: int, reused: bool, notes: Sequence[Note]) -> Stage:
    """Return the stage of a run, which follows the last decision."""
    counts = {"steps": len(run.steps), **{name: count for note in notes for name, count in note.counts.items()}}
    program = " by a program that was built before, for a graph of the same structure." if reused else "."
    purpose = f"The schedule, executed and measured{program}" + "".join([f" {note.text}" for note in notes])
    return Stage("run", "run", end, end, counts, purpose, run.micros)


def _rows(graph: PlanGraph) -> tuple[list[tuple[Expr, int, int]], list[Traced]]:
    """Return (node, decision that produced it, graph that contains it) rows, and the bodies, each by id."""
    bodies = _bodies([*graph.recorded, *[node for _, node in graph.added]])
    rows = [(node, -1, 0) for node in graph.recorded]
    visited = {node.uid for node in graph.recorded}
    for row, body in enumerate(bodies, 1):
        for node in body.nodes:
            if node.uid not in visited:
                visited.add(node.uid)
                rows.append((node, -1, row))
    # Ids are assigned to recorded nodes first, then to nodes inside functions, then to produced nodes by decision.
    rows.extend([(node, decision, 0) for decision, node in graph.added if node.uid not in visited])
    return rows, bodies


def expressions(planned: Plan) -> list[Expr]:
    """Return the expressions of a recording's nodes, by node id."""
    return [node for node, _, _ in _rows(planned.graph)[0]]


def node_id(planned: Plan, expr: Expr) -> int:
    """Return an expression's node id in a plan's recording; raise OperandError if it is not there."""
    for index, node in enumerate(expressions(planned)):
        if node is expr:
            return index
    if not isinstance(expr, Expr):
        raise OperandError(
            f"{expr!r} as a node of this plan",
            rule="a node must be an expression, or a name of an operator, layer, scope, variable or operation",
            fix='plan.explain("tanh"), plan.explain(y)',
        )
    raise OperandError(
        f"{expr!r} in this plan",
        rule="the expression must be needed by the plan's results, or produced by a pass",
        fix="register the expression, or an expression that reads it, before the plan is built",
    )


def _enter_nodes(tables: NodeRows, graph: PlanGraph) -> list[Expr]:
    """Add a row for each node and each graph of nodes; return the expressions by node id."""
    recording = tables.recording
    rows, bodies = _rows(graph)
    for row, body in enumerate(bodies, 1):
        tables.bodies[id(body)] = row
    tables.enter(rows)
    expressions_ = [node for node, _, _ in rows]
    ids = tables.ids
    recording.bodies.append(Body("", (), ()))
    for body in bodies:
        inputs = tuple([ids[node.uid] for node in (*body.parameters, *body.captured)])
        recording.bodies.append(Body(body.name, inputs, tuple([ids[node.uid] for node in body.outputs])))
    leaves = tuple([ids[node.uid] for node in graph.recorded if not node.operands])
    recording.bodies[0] = Body("", leaves, tuple([ids[root.uid] for root in graph.recorded_roots]))
    return expressions_


def _bodies(nodes: Iterable[Expr]) -> list[Traced]:
    """Return the bodies of all calls, including nested calls, without duplicates, in order of first use."""
    bodies: dict[int, Traced] = {}
    pending = list(nodes)
    while pending:
        calls = [node.operation.body for node in pending if isinstance(node.operation, Call)]
        pending = []
        for body in calls:
            if id(body) not in bodies:
                bodies[id(body)] = body
                pending.extend(body.nodes)
    return list(bodies.values())


def shared_leaves(nodes: Sequence[Expr]) -> dict[int, int]:
    """Return node id → id of the first tensor with the same storage, for all other tensors of the storage."""
    first_of: dict[int, int] = {}
    shared: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if isinstance(node, Tensor) and (first := first_of.setdefault(id(node.storage), index)) != index:
            shared[index] = first
    return shared


def dimensions(recording: Recording, nodes: Sequence[Expr]) -> dict[int, DimensionNames]:
    """Return node id → declared dimensions; a node that replaced another one has the same declaration."""
    names = {
        index: DimensionNames(*declared)
        for index, node in enumerate(nodes)
        if (declared := declared_dimensions(node)) is not None
    }
    types = recording.nodes.type
    # the old node of each row was replaced by an earlier row, or not at all
    for _, old, new in recording.substitutions if names else ():
        if old in names and types[old] == types[new]:
            names.setdefault(new, names[old])
    return dict(sorted(names.items()))


def numbers(nodes: Sequence[Expr]) -> dict[int, float]:
    """Return a dict from node id to value for leaves in memory that hold one real number."""
    return {
        index: float(numbers_of(node.storage.array).item())
        for index, node in enumerate(nodes)
        if isinstance(node, Tensor)
        and type(node.storage) is Storage  # other storages may have to read a file
        and node.storage.device is cpu
        and node.tensor_type.size == 1
        and node.dtype.kind not in "bcU"
    }


class _Weight(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...


class _Defined(Protocol):
    """Definition of an operator, as the net builder passes it to the operator's box."""

    @property
    def arguments(self) -> Mapping[str, Any]: ...
    @property
    def weights(self) -> Mapping[str, _Weight]: ...
    @property
    def doc(self) -> str: ...
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    @property
    def documentation(self) -> OperatorType | None: ...
    @property
    def implied(self) -> Collection[str]: ...
    @property
    def metadata(self) -> Sequence[tuple[str, str]]: ...


def operators(boxes: Sequence[Scope | None]) -> tuple[list[FileOperator], list[OperatorType]]:
    """Return a row for each operator of a model file, and their types; ``boxes`` has the scope of each scope row."""
    rows: list[FileOperator] = []
    types: dict[int, tuple[int, OperatorType]] = {}
    """type of an operator and its row, by identity, since the operators of a type share it"""
    for index, box in enumerate(boxes):
        if box is not None and box.kind == "file" and _is_definition(box.payload):
            type = box.payload.documentation
            row = -1 if type is None else types.setdefault(id(type), (len(types), type))[0]
            rows.append(file_operator(index, box.payload, row))
    return rows, [type for _, type in types.values()]


def _is_definition(payload: object) -> TypeGuard[_Defined]:
    """Return whether a box belongs to an operator; isinstance with a protocol takes 0.1 ms on Python 3.11."""
    return all(hasattr(payload, name) for name in ("arguments", "weights", "doc", "inputs", "outputs"))


def file_operator(scope: int, operator: _Defined, documentation: int = -1) -> FileOperator:
    """Return the row of an operator, whose box has the scope row ``scope``, and its type the row ``documentation``."""
    weights = [
        (name, f"{weight.key} · {'×'.join(map(str, weight.shape)) or 'scalar'} {weight.dtype}")
        for name, weight in operator.weights.items()
    ]
    attributes = [(name, attribute_text(value)) for name, value in operator.arguments.items()]
    names = tuple(operator.inputs), tuple(operator.outputs)
    doc = shortened(" ".join(operator.doc.splitlines()))
    return FileOperator(
        scope,
        tuple(attributes),
        tuple(weights),
        doc,
        *names,
        documentation=documentation,
        implied=tuple([name for name in operator.arguments if name in operator.implied]),
        stated=_stated(operator.metadata),
    )


def _stated(metadata: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of an operator with short values; if there are too many, the last pair counts the others."""
    pairs = [(shortened(name, _VALUE), shortened(" ".join(value.split()), _VALUE)) for name, value in metadata[:_PAIRS]]
    left = len(metadata) - len(pairs)
    return (*pairs, *[("…", counted_text(left, "more value"))] * (left > 0))


_PAIRS, _VALUE = 20, 200
"""maximum number of pairs about an operator, and of characters of a name or value"""


def layers(boxes: Sequence[Scope | None]) -> list[LayerRow]:
    """Return a row for each layer; ``boxes`` contains the scope of each scope row.

    Boxes inside a layer's box are matched to its sublayers by name, because shared code does not know which layer runs
    it.
    """
    layer_of: dict[int, Layer | None] = {}
    rows_of: dict[int, tuple[Layer, list[int]]] = {}
    for row, box in enumerate(boxes):
        layer = _layer(box, layer_of)
        if layer is not None:
            rows_of.setdefault(id(layer), (layer, []))[1].append(row)
    tables: list[LayerRow] = []
    for layer, rows in rows_of.values():
        tables.append(replace(layer.to_row(), scopes=tuple(rows)))
    return sorted(tables, key=lambda layer: layer.scopes[0])


def _layer(box: Scope | None, layer_of: dict[int, Layer | None]) -> Layer | None:
    """Return the layer of a box, or None; ``layer_of`` caches results for every box on its path."""
    path = []
    while box is not None and id(box) not in layer_of:
        path.append(box)
        box = box.parent
    layer = layer_of[id(box)] if box is not None else None
    for inner_box in reversed(path):
        if inner_box.kind == "layer":
            from explorer.layers.framework.layer import Layer  # programs without layers do not need this import

            layer = (
                inner_box.payload if isinstance(inner_box.payload, Layer) else layer and layer.sublayer(inner_box.name)
            )
        elif inner_box.kind != "twin":
            layer = None
        layer_of[id(inner_box)] = layer
    return layer_of[id(path[0])] if path else layer


def ports(boxes: Sequence[Scope | None], ids: Mapping[int, int]) -> list[Port]:
    """Return the recorded values of the inputs and outputs of layers' boxes."""
    rows: list[Port] = []
    for row, box in enumerate(boxes):
        if box is not None and box.ports is not None:
            inputs, outputs = box.ports
            rows += [Port(row, "input", name, ids[uid]) for name, uid in inputs.items() if uid in ids]
            rows += [Port(row, "output", name, ids[uid]) for name, uid in outputs.items() if uid in ids]
    return rows


def batch_timings(
    batches: Sequence[Batch], produced: Sequence[tuple[int, ...]], steps: Sequence[Step]
) -> dict[int, dict[str, Any]]:
    """Return decision index → measured facts, for the decisions that created batches.

    ``produced`` contains the nodes that each decision produced, and ``steps`` the measured kernels. In the facts,
    ``measured_us`` is the total time of the kernels that computed a batch, and ``kernels`` is their number.
    ``computed_with`` lists results of other batches from the same kernels. ``separate_us`` remains an estimate, since
    the elements did not run separately.
    """
    micros: dict[int, float] = {}
    for step in steps:
        micros[step.kernel] = micros.get(step.kernel, 0.0) + step.micros
    # Fusion may join several batches into one kernel, whose time then counts for each of them.
    sharing: dict[int, list[int]] = {}
    for batch in batches:
        for kernel in batch.kernels:
            sharing.setdefault(kernel, []).append(batch.decision)
    measured: dict[int, dict[str, Any]] = {}
    for batch in batches:
        if not batch.kernels:
            continue
        facts = measured[batch.decision] = {
            "measured_us": round(sum([micros.get(kernel, 0.0) for kernel in batch.kernels]), 2),
            "kernels": len(batch.kernels),
        }
        sharers = sorted({sharer for kernel in batch.kernels for sharer in sharing[kernel]} - {batch.decision})
        results = [{"node": node} for sharer in sharers for node in produced[sharer]]
        if results:
            facts["computed_with"] = results
    return measured


def decision_rows(
    decisions: Sequence[PlanDecision],
    subjects: Sequence[tuple[int, ...]],
    produced: Sequence[tuple[int, ...]],
    ids: Mapping[int, int],
    measured: Mapping[int, Mapping[str, Any]],
) -> list[Decision]:
    """Return the row of each decision.

    ``subjects`` and ``produced`` contain node ids per decision, ``ids`` maps uids of expressions in the facts to node
    ids, and ``measured`` maps decision indices to facts that a run adds.
    """
    return [
        Decision(
            decision.stage,
            decision.rule,
            "applied" if decision.applied else "declined",
            decision.code,
            decision.reason.sentence,
            {
                **{name: _fact(value, ids) for name, value in decision.facts.items()},
                **({} if decision.applied else {"estimated_cost_us": round(decision.cost_us(), 3)}),
                **measured.get(index, {}),
            },
            subjects[index],
            produced[index],
            decision.rule_index,
            decision.location,
        )
        for index, decision in enumerate(decisions)
    ]


def declined_edges(decisions: Sequence[PlanDecision], ids: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return (decision, operand, reader) for each value written because a decision declined to fuse it."""
    return [
        (index, operand, reader)
        for index, decision in enumerate(decisions)
        for operand, reader in dict.fromkeys([(ids[a.uid], ids[b.uid]) for a, b in decision.unfused_edges])
    ]


def explanations(decisions: Sequence[PlanDecision]) -> list[Explanation]:
    """Return the meanings of the reasons of all decisions, without duplicates."""
    reasons = dict.fromkeys(
        [decision.reason for decision in decisions if decision.reason.meaning or decision.reason.effect != "exact"]
    )
    return [
        Explanation(
            reason.code,
            reason.sentence,
            reason.meaning,
            reason.change,
            reason.anchor,
            "" if reason.effect == "exact" else f"{reason.effect}: {EFFECTS[reason.effect]}",
        )
        for reason in reasons
    ]


def _fact(value: Any, ids: Mapping[int, int]) -> Any:
    """Convert a fact to plain data: expressions become node ids."""
    if isinstance(value, Expr):
        return {"node": ids[value.uid]} if value.uid in ids else value.label
    if isinstance(value, (list, tuple)):
        return [_fact(item, ids) for item in value]
    return value.item() if hasattr(value, "item") else value
