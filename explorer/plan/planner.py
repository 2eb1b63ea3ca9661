"""The planner: expressions in, a schedule out, with every decision on the way. It computes no values.

`EvalPlan` (run/evalplan.py) calls `plan` with the registered expressions, the diagnosis tools (run/diagnosis) with
changed ones. The result depends on expressions and options alone, never on the machine, on time or on the values of
tensors: equal programs have equal plans everywhere, so that plans can be cached, compared and kept under test.

The passes are those of the pipeline (plan/pipeline.py), in its order. Each works on one PlanGraph, in which nodes are
replaced and never rebuilt (assets/decisions/0002-planning-replaces-it-does-not-rebuild.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import explorer.plan.rewrite.rules  # noqa: F401  # makes the chain of rules
from explorer.core.argument_checks import check_name, check_type
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, close_over
from explorer.core.ir.policy_operations import under
from explorer.core.progress import Progress, current_callback
from explorer.core.recursion_limit import one_deeper
from explorer.plan import recorded_graph
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.decisions import PlanStage, StageKind
from explorer.plan.graph.numerics import LEVELS, Level
from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes import Batch, Buffers, Inline, JoinProducts, Order, Recall, UpdateInPlace
from explorer.plan.passes.order import HEURISTICS
from explorer.plan.pipeline import PIPELINE, Step, check_pipeline, pass_names, pass_of
from explorer.plan.rewrite.rule import Rule
from explorer.plan.schedule.schedule import Schedule
from explorer.record.reasons import counted_text

PASSES = tuple([name for name in pass_names(PIPELINE) if name != Recall.name])
"""names of the passes that can be left out or set"""
_REQUIRED = tuple([step.name for step in map(pass_of, PIPELINE) if step.required])


PLANNED = "planned"
"""key of a body's one plan, where the body came from another process with it"""


@dataclass(frozen=True)
class Options:
    """Options of a plan: passes left out, and the settings of single passes. Hashable: cached plans are found by it.

    Raises OperandError or UnknownNameError for a setting that no pass understands.
    """

    without: tuple[str, ...] = ()
    lanes: int = 1
    """maximum number of kernels that run at one time: memory that one still reads is not used again by another"""
    order: str = "earliest"
    """choice among the ready kernels: "earliest" takes the kernel that was recorded first; "depth_first" follows
    InferFramework, where the branch that comes last by name runs to its end before another one"""
    cost_model: CostModel = REFERENCE_COST_MODEL
    """prices of kernels, by which operations are batched and kernels ordered"""
    batch: Batch | None = None
    """a pass with other settings, in the place of the one in the pipeline"""
    inline: Inline | None = None
    """likewise"""
    update: UpdateInPlace | None = None
    """likewise: the parameters that a training step updates"""
    numerics: Level = "safe"
    """what rules may do to numbers: "safe" or "fast" (plan/graph/numerics.py)"""
    inference: bool = False
    """the plan of a net: weights are known and stay the same, so that rules may read them (plan/graph/numerics.py)"""
    passes: tuple[Step, ...] = PIPELINE

    def __post_init__(self) -> None:
        check_name(self.numerics, "numerics", LEVELS)
        check_type(self.inference, "inference", bool, "True or False", "inference=True")
        check_name(self.order, "order", HEURISTICS)
        if type(self.lanes) is not int or self.lanes < 1:
            raise OperandError(f"lanes={self.lanes!r}", rule="lanes must be a whole number of 1 or more", fix="lanes=1")
        check_type(
            self.cost_model, "cost_model", CostModel, "a cost model", 'costs="measured", or cost_model=ex.calibrate()'
        )
        if self.passes is not PIPELINE:
            check_pipeline(self.passes)
        pass_choices = PASSES if self.passes is PIPELINE else tuple(dict.fromkeys([*PASSES, *pass_names(self.passes)]))
        if self.batch is not None:
            check_type(self.batch, "batch", Batch, "the pass that batches", "batch=ex.passes.Batch()")
        if self.inline is not None:
            check_type(self.inline, "inline", Inline, "the pass that inlines calls", "inline=ex.passes.Inline()")
        if self.update is not None:
            fix = "update=ex.passes.UpdateInPlace(pairs=((parameter, new_value),))"
            check_type(self.update, "update", UpdateInPlace, "the pass that updates parameters in place", fix)
        names = f"the names of passes to leave out ({', '.join(pass_choices)})"
        check_type(self.without, "without", tuple, names, 'without="fuse", or without=["fuse", "simplify"]')
        for name in self.without:
            check_type(name, "without", str, names, 'without=["fuse", "simplify"]')
            if name not in pass_choices:
                raise UnknownNameError(name, kind="pass", known=pass_choices)
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
        """The hash, computed once: options are looked up at each evaluation."""
        return hash(tuple([getattr(self, item.name) for item in fields(self)]))

    @cached_property
    def steps(self) -> tuple[tuple[Step, Pass], ...]:
        """The steps of the pipeline that are not left out, each with its pass as the options set it up."""
        configured = [(step, _configured(pass_of(step), self)) for step in self.passes]
        return tuple([(step, step_pass) for step, step_pass in configured if step_pass.name not in self.without])

    def with_changes(self, *further: str, **changes: Any) -> Options:
        """Return the options with some of them changed.

        Raises UnknownNameError for an option that does not exist; ``further`` are options of the caller, which the
        error lists with ours.
        """
        option_names = [item.name for item in fields(self)]
        for name in changes:
            if name not in option_names:
                raise UnknownNameError(name, kind="plan option", known=[*option_names, *further])
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
    """Plan the evaluation of expressions.

    ``recall`` is the pass that takes values which earlier plans have computed, with these values. Raises StateError
    where a pass reads what a later one makes, and DeclarationError where a rule or pass of a user breaks its contract.

    Example: ``plan([x @ w + b], Options(without=("fuse",))).schedule.kernels``.
    """
    options = options or Options()
    started = time.perf_counter()
    graph = PlanGraph(roots, options.numerics, options.inference)
    purpose = (
        "The program as it was recorded. Nothing has been computed: flops and bytes written are those that it would "
        "take as it stands."
    )
    _close_stage(graph, "recorded", "record", purpose, 0, started)
    recorded_graph.report(graph)
    names: set[str] = set()
    changed: set[str] = set()
    for step, planning_pass in options.steps:
        # Nothing changed that it could see: its stage would be empty.
        if isinstance(step, Again) and changed.isdisjoint(step.after):
            continue
        if recall is not None and isinstance(planning_pass, Recall):
            planning_pass = replace(recall, simplified=planning_pass.simplified)
        if not planning_pass.has_work(graph):
            continue
        name = f"{planning_pass.name} again" if planning_pass.name in names else planning_pass.name
        names.add(planning_pass.name)
        # A call that stayed closed is a kernel, whose working memory is what its body's schedule takes.
        if planning_pass.kind == "order":
            graph.body_schedules = _schedules_of_bodies(graph, options)
        if _run(planning_pass, name, graph):
            # By the name of the stage, so that a step can also run after a pass that ran "again".
            changed.add(name)
    return Plan(graph, graph.scheduled, options, (time.perf_counter() - started) * 1e6)


def _configured(step: Pass, options: Options) -> Pass:
    """Return a pass with the settings that the options have for it."""
    match step:
        case Batch():
            return replace(options.batch or step, cost_model=options.cost_model)
        case Inline():
            inline = options.inline or step
            vectorize = inline.vectorize and Batch.name not in options.without
            return replace(inline, vectorize=vectorize, cost_model=options.cost_model)
        case UpdateInPlace():
            return options.update or step
        case Order():
            return replace(step, cost_model=options.cost_model, lanes=options.lanes, heuristic=options.order)
        case JoinProducts() | Buffers():
            return replace(step, cost_model=options.cost_model)
        case _:
            return step


def plan_closed(body: Body, options: Options) -> tuple[Plan, tuple[Expr, ...]]:
    """Return the plan of a body, and the parameters for a call's operands, in their order.

    The plan is built once and kept with the body, for the options and the rules of that time. Its kernels run one at a
    time, whatever ``lanes`` says: the call is one kernel of the plan around it.
    """
    # Before the key is built, so that plans with and without lanes, or updates, share bodies.
    if options.lanes > 1 or options.update is not None:
        options = replace(options, lanes=1, update=None)
    if options.inline is not None and options.inline.network is not None:
        options = replace(options, inline=replace(options.inline, network=None))  # a worker has no workers
    key = ("closed", options, tuple(Rule.rules))
    cached: tuple[Plan, tuple[Expr, ...]] | None = body.derived.get(PLANNED) or body.derived.get(key)
    if cached is None:
        inputs, outputs = close_over(body, body.captured)
        with one_deeper(f"a plan of {body.name}"):
            # setdefault: where two threads plan a body at once, both go on with the first plan.
            cached = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return cached


def _schedules_of_bodies(graph: PlanGraph, options: Options) -> dict[int, Schedule]:
    """Plan the bodies of the calls that were not inlined; return their schedules by id of the body.

    Before the kernels are built: a call's kernel needs as working memory what the plan of its body says.
    """
    calls = [node.operation for node in graph.live if isinstance(node.operation, Call)]
    bodies = [body for call in calls for body in call.planned_bodies]
    return {id(body): plan_closed(body, options)[0].schedule for body in bodies}


def _report_progress(name: str, graph: PlanGraph) -> None:
    """Call the user's progress callback, if there is one."""
    callback = current_callback()
    if callback is not None:
        callback(Progress("planning", f"{name} ({counted_text(len(graph.live), 'node')})"))


def _run(planning_pass: Pass, name: str, graph: PlanGraph) -> bool:
    """Run a pass and close its stage; return whether it replaced nodes, after which others may have work again."""
    _report_progress(planning_pass.name, graph)
    began, first, substituted = time.perf_counter(), len(graph.decisions), len(graph.substitutions)
    planning_pass.run(graph)
    # Free where the pass changed nothing; else the next one would see lists and counts of readers that lag behind.
    graph.refresh()
    _close_stage(
        graph, name, planning_pass.kind, planning_pass.purpose, first, began, dict(planning_pass.counts(graph))
    )
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
