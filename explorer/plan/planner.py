"""The planner: roots in, schedule out, with every decision on the way. Pure: it computes no values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import explorer.plan.rewrite.rules  # noqa: F401  # makes the chain of rules
from explorer.core.argument_checks import check_name, check_type
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr, recording_at
from explorer.core.ir.function import Body, Call, Parameter
from explorer.core.ir.policy_operations import under
from explorer.core.ir.traversal import rebuild
from explorer.core.progress import Progress, current_callback
from explorer.core.recursion_limit import one_deeper
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.decisions import PlanStage, StageKind
from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes import Batch, Inline, Order, Recall
from explorer.plan.passes.order import HEURISTICS
from explorer.plan.pipeline import PIPELINE, Step, check_pipeline, pass_names, pass_of
from explorer.plan.rewrite.rule import Rule
from explorer.plan.schedule.schedule import Schedule


def close_over_parameters(body: Body) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The inputs, in the order of a call's operands, and outputs of a body that reads nothing else.

    Hidden operands are replaced by parameters, since what computes them stands outside.
    """
    if not body.captured:
        return body.parameters, body.outputs
    stand_ins = {}
    for node in body.captured:
        with recording_at(body.scope, node.code, node.instruction):
            stand_ins[node.uid] = Parameter(node.type, node.operation.label)()
    given = {**stand_ins, **{node.uid: node for node in body.parameters}}
    made = rebuild([node for node in body.nodes if node.uid not in given], given, lambda node: node.scope)
    inputs = (*body.parameters, *[stand_ins[node.uid] for node in body.captured])
    return inputs, tuple([made[node.uid] for node in body.outputs])


PASSES = tuple([name for name in pass_names(PIPELINE) if name != Recall.name])
"""names of the passes that can be left out or set"""
_REQUIRED = tuple([step.name for step in map(pass_of, PIPELINE) if step.required])


@dataclass(frozen=True)
class Options:
    """What a plan may do: passes left out, and the options of each pass."""

    without: tuple[str, ...] = ()
    lanes: int = 1
    """how many kernels may run at a time: memory that one of them still reads is not used again by another"""
    order: str = "earliest"
    """which of the ready kernels is picked: "earliest", the one recorded first, or "depth_first", InferFramework's
    order, in which of two branches the one that comes last by name runs to its end before the other"""
    cost_model: CostModel = REFERENCE_COST_MODEL
    """what groups and the order are priced with"""
    batch: Batch | None = None
    """instead of the one among the passes"""
    inline: Inline | None = None
    """instead of the one among the passes"""
    passes: tuple[Step, ...] = PIPELINE

    def __post_init__(self) -> None:
        check_name(self.order, "order", HEURISTICS)
        if type(self.lanes) is not int or self.lanes < 1:
            raise OperandError(f"lanes={self.lanes!r}", rule="one kernel or more runs at a time", fix="lanes=1")
        check_type(
            self.cost_model, "cost_model", CostModel, "a cost model", 'costs="measured", or cost_model=ex.calibrate()'
        )
        if self.passes is not PIPELINE:
            check_pipeline(self.passes)
        known = PASSES if self.passes is PIPELINE else tuple(dict.fromkeys([*PASSES, *pass_names(self.passes)]))
        if self.batch is not None:
            check_type(self.batch, "batch", Batch, "the pass that batches", "batch=Batch(), of explorer.plan.passes")
        if self.inline is not None:
            check_type(
                self.inline, "inline", Inline, "the pass that inlines calls", "inline=Inline(), of explorer.plan.passes"
            )
        names = f"the names of passes to leave out ({', '.join(known)})"
        check_type(self.without, "without", tuple, names, 'without="fuse", or without=["fuse", "simplify"]')
        for name in self.without:
            check_type(name, "without", str, names, 'without=["fuse", "simplify"]')
            if name not in known:
                raise UnknownNameError(name, kind="pass", known=known)
            if name in _REQUIRED:
                raise OperandError(
                    f"a plan without {name}",
                    rule=f"{' and '.join(_REQUIRED)} must run: they make the schedule",
                    fix="leave out another pass",
                )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, made once: options are looked up at each evaluation."""
        return hash(tuple([getattr(self, item.name) for item in fields(self)]))

    @cached_property
    def steps(self) -> tuple[tuple[Step, Pass], ...]:
        """The steps of the pipeline that are not left out, each with its pass as the options set it up."""
        configured = [(step, _configured(pass_of(step), self)) for step in self.passes]
        return tuple([(step, each) for step, each in configured if each.name not in self.without])

    def with_changes(self, *further: str, **changes: Any) -> Options:
        """The options with some of them changed; ``further`` are options that stand beside them, to be told of."""
        known = [item.name for item in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError(name, kind="plan option", known=[*known, *further])
        return replace(self, **changes)


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """A finished plan: the graph with its decisions, and the schedule."""

    graph: PlanGraph
    schedule: Schedule
    options: Options
    micros: float


@under({})
def plan(roots: Sequence[Expr], options: Options | None = None, recall: Recall | None = None) -> Plan:
    """Plan the evaluation of expressions; ``recall`` takes values that are known already."""
    options = options or Options()
    started = time.perf_counter()
    graph = PlanGraph(roots)
    purpose = "What the program wrote down, in order; nothing is computed."
    _close_stage(graph, "recorded", "record", purpose, 0, started)
    names: set[str] = set()
    changed: set[str] = set()
    for step, each in options.steps:
        if isinstance(step, Again) and changed.isdisjoint(step.after):
            continue
        if recall is not None and isinstance(each, Recall):
            each = replace(recall, simplified=each.simplified)
        if not each.has_work(graph):
            continue
        name = f"{each.name} again" if each.name in names else each.name
        names.add(each.name)
        if each.kind == "order":
            graph.body_schedules = _schedules_of_bodies(graph, options)
        if _run(each, name, graph):
            changed.add(name)
    return Plan(graph, graph.scheduled, options, (time.perf_counter() - started) * 1e6)


def _configured(step: Pass, options: Options) -> Pass:
    """A pass with what the options say of it."""
    match step:
        case Batch():
            return replace(options.batch or step, cost_model=options.cost_model)
        case Inline():
            return options.inline or step
        case Order():
            return Order(options.cost_model, options.lanes, options.order)
        case _:
            return step


def plan_closed(body: Body, options: Options) -> tuple[Plan, tuple[Expr, ...]]:
    """The plan of a body, and the parameters that stand for a call's operands, in their order; made once.

    A call is one kernel: those of its body run one at a time.
    """
    options = replace(options, lanes=1) if options.lanes > 1 else options
    key = ("closed", options, tuple(Rule.rules))
    held: tuple[Plan, tuple[Expr, ...]] | None = body.derived.get(key)
    if held is None:
        inputs, outputs = close_over_parameters(body)
        with one_deeper(f"a plan of {body.name}"):
            held = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return held


def _schedules_of_bodies(graph: PlanGraph, options: Options) -> dict[int, Schedule]:
    """Plan the bodies of the calls that were not inlined; return their schedules by id of the body.

    Before the kernels are made: a call's kernel needs as working memory what the plan of its body says.
    """
    calls = [node.operation for node in graph.live if isinstance(node.operation, Call)]
    return {id(call.body): plan_closed(call.body, options)[0].schedule for call in calls}


def _report_progress(name: str, graph: PlanGraph) -> None:
    follow = current_callback()
    if follow is not None:
        follow(Progress("planning", f"{name} ({len(graph.live):,} nodes)"))


def _run(each: Pass, name: str, graph: PlanGraph) -> bool:
    """Run a pass, close its stage, and say whether nodes were put in the place of others."""
    _report_progress(each.name, graph)
    began, first, substituted = time.perf_counter(), len(graph.decisions), len(graph.substitutions)
    each.run(graph)
    graph.refresh()
    _close_stage(graph, name, each.kind, each.purpose, first, began, dict(each.counts(graph)))
    return len(graph.substitutions) > substituted


def _close_stage(
    graph: PlanGraph,
    name: str,
    kind: StageKind,
    purpose: str,
    first: int,
    started: float,
    counts: dict[str, int] | None = None,
) -> None:
    """Close a stage that began at decision ``first`` and at ``started`` (perf_counter)."""
    micros = (time.perf_counter() - started) * 1e6
    stage = PlanStage(name, kind, purpose, first, len(graph.decisions), tuple(graph.live), counts or {}, micros)
    graph.stages.append(stage)
