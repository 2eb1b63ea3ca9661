"""Recorder: turns a plan and its run into a recording, with expressions as rows and uids as ids.

The only place where the engine's objects become plain data: views read the recording alone, and need no engine. Rows
are made when somebody asks for the recording, not while planning, which most evaluations need alone. Each row is made
once: nodes come first, since ids are given out there, decisions after the schedule, since those about batches hold the
measured times of its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body as Traced
from explorer.core.ir.function import Call
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import Plan
from explorer.record import (
    Body,
    Group,
    Recording,
    Run,
    Stage,
    Step,
    Summary,
)
from explorer.record.batches import trace_batches
from explorer.record.compositions.find import compositions
from explorer.record.substitutions import in_order
from explorer.run.recording.batch_times import batch_timings
from explorer.run.recording.decision_rows import decision_rows, declined_edges, explanations
from explorer.run.recording.dimension_tables import dimensions
from explorer.run.recording.fingerprint import fingerprint
from explorer.run.recording.gradient_tables import gradients
from explorer.run.recording.interface_table import InterfaceValue, interface_rows
from explorer.run.recording.layer_tables import layers, ports
from explorer.run.recording.node_rows import NodeRows
from explorer.run.recording.numbers import numbers
from explorer.run.recording.operator_tables import operators
from explorer.run.recording.source_texts import source_texts
from explorer.run.recording.stage_rows import schedule, stage
from explorer.run.recording.variable_tables import variables
from explorer.run.runtime.timing import Note


def build(
    planned: Plan,
    title: str,
    options: Mapping[str, Any],
    run: Run | None = None,
    values: Mapping[int, Summary] | None = None,
    reused: bool = False,
    notes: Sequence[Note] = (),
    interface: Sequence[InterfaceValue] = (),
) -> Recording:
    """Return the recording of a plan, with its run if there was one; ``values`` are summaries by uid.

    ``notes`` are the executor's; ``interface`` is that of the model that was planned.
    ``reused``: the run used a program planned before, for a graph of the same structure.
    """
    tables, graph = NodeRows(), planned.graph
    recording, ids = tables.recording, tables.ids
    everything = _enter_graph(tables, graph)
    recording.compositions = compositions(recording, numbers(everything))
    recording.interface = interface_rows(interface, ids)
    recording.schedule = schedule(planned, ids)
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
    """Return the recording of a graph before any pass, to be drawn soon: its nodes and its first stage alone."""
    tables = NodeRows()
    _enter_graph(tables, graph)
    return tables.recording


def _enter_graph(tables: NodeRows, graph: PlanGraph) -> list[Expr]:
    """Enter the nodes of a graph, those that were put in the place of others, and its stages; return the nodes."""
    recording = tables.recording
    everything = _enter_nodes(tables, graph)
    ids, nodes = tables.ids, recording.nodes
    tables.tell_callers()
    recording.source_texts = source_texts(tables.recorded_lines)
    recording.gradients = gradients(graph, everything, ids)
    recording.layers, recording.ports = layers(tables.boxes), ports(tables.boxes, ids)
    recording.operators = operators(tables.boxes)
    for decision, node in graph.removed:
        # The first decision that removed it counts: a later one found it gone.
        if nodes.gone[ids[node.uid]] < 0:
            nodes.gone[ids[node.uid]] = decision
    rows = [(decision, ids[old.uid], ids[new.uid]) for decision, old, new in graph.substitutions]
    recording.substitutions = in_order(rows)
    recording.dimensions = dimensions(recording, everything)
    recording.variables = variables(recording, everything)
    recording.groups = [
        Group(group.decision, group.kind, group.label, tuple([ids[node.uid] for node in group.members]))
        for group in graph.groups
    ]
    recording.stages = [stage(planned_stage, tables.flops, graph.groups) for planned_stage in graph.stages]
    return everything


def _batch_times(
    recording: Recording,
    graph: PlanGraph,
    subjects: Sequence[tuple[int, ...]],
    produced: Sequence[tuple[int, ...]],
    steps: Sequence[Step],
) -> dict[int, dict[str, Any]]:
    """Return the measured facts of decisions about batches, by their numbers; the schedule is recorded already."""
    priced = {number for number, decision in enumerate(graph.decisions) if "together_us" in decision.facts}
    # A mapped call is replaced by a function's body, and its members are measured like those of a batch.
    groups = [
        replace(group, kind="batch", members=subjects[group.decision])
        if group.kind == "function" and group.decision in priced
        else group
        for group in recording.groups
    ]
    assert recording.schedule is not None
    tables = recording.nodes, groups, recording.substitutions, subjects, recording.schedule.kernels
    return batch_timings(trace_batches(*tables), produced, steps)


def _run_stage(run: Run, end: int, reused: bool, notes: Sequence[Note]) -> Stage:
    """Return the stage of a run, after the last decision."""
    counts = {"steps": len(run.steps), **{name: count for note in notes for name, count in note.counts.items()}}
    program = " by a program that was built before, for a graph of the same structure." if reused else "."
    purpose = f"The schedule, executed and measured{program}" + "".join([f" {note.text}" for note in notes])
    return Stage("run", "run", end, end, counts, purpose, run.micros)


def _rows(graph: PlanGraph) -> tuple[list[tuple[Expr, int, int]], list[Traced]]:
    """Return (node, decision that produced it, graph it belongs to) for each row, and the bodies, by id."""
    bodies = _bodies([*graph.recorded, *[node for _, node in graph.added]])
    rows = [(node, -1, 0) for node in graph.recorded]
    seen = {node.uid for node in graph.recorded}
    for row, body in enumerate(bodies, 1):
        for node in body.nodes:
            if node.uid not in seen:
                seen.add(node.uid)
                rows.append((node, -1, row))
    # Ids grow in the order of appearance: recorded, inside of functions, then produced, decision by decision.
    rows.extend([(node, decision, 0) for decision, node in graph.added if node.uid not in seen])
    return rows, bodies


def expressions(planned: Plan) -> list[Expr]:
    """Return the expressions of a recording's nodes, by id."""
    return [node for node, _, _ in _rows(planned.graph)[0]]


def node_id(planned: Plan, expr: Expr) -> int:
    """Return the id of an expression in a plan's recording; raises OperandError where it is not part of it."""
    for number, node in enumerate(expressions(planned)):
        if node is expr:
            return number
    raise OperandError(
        f"{expr!r} in this plan",
        rule="an expression must be one that its results need, or that a pass produced",
        fix="register the expression, or one that reads it, before the plan is built",
    )


def _enter_nodes(tables: NodeRows, graph: PlanGraph) -> list[Expr]:
    """Enter a row for each node, and for each graph of nodes; return the expressions by id."""
    recording = tables.recording
    rows, bodies = _rows(graph)
    for row, body in enumerate(bodies, 1):
        tables.bodies[id(body)] = row
    tables.enter(rows)
    everything = [node for node, _, _ in rows]
    ids = tables.ids
    recording.bodies.append(Body("", (), ()))
    for body in bodies:
        inputs = tuple([ids[node.uid] for node in (*body.parameters, *body.captured)])
        recording.bodies.append(Body(body.name, inputs, tuple([ids[node.uid] for node in body.outputs])))
    leaves = tuple([ids[node.uid] for node in graph.recorded if not node.operands])
    recording.bodies[0] = Body("", leaves, tuple([ids[root.uid] for root in graph.recorded_roots]))
    return everything


def _bodies(nodes: Iterable[Expr]) -> list[Traced]:
    """Return the bodies of all calls, nested ones too, each once, in order of first use."""
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
