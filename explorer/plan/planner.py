"""The planner: expressions in, a schedule out, with every decision on the way. It computes no values.

`EvalPlan` (run/evalplan.py) calls `plan` with the registered expressions, the diagnosis tools (run/diagnosis) with
changed ones. The result depends on expressions and options alone, never on the machine, on time or on the values of
tensors: equal programs have equal plans everywhere, so that plans can be cached, compared and kept under test.

The passes are those of the pipeline (plan/pipeline.py), in its order. Each works on one PlanGraph, in which nodes are
replaced and never rebuilt (assets/decisions/0002-planning-replaces-it-does-not-rebuild.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

import explorer.plan.rewrite.rules  # noqa: F401  # makes the chain of rules
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, close_over
from explorer.core.ir.policy_operations import under
from explorer.core.progress import Progress, current_callback
from explorer.core.recursion_limit import one_deeper
from explorer.plan.context import planning_context
from explorer.plan.graph.decisions import PlanStage, StageKind
from explorer.plan.graph.kernels import BodySchedules
from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.options import Options
from explorer.plan.passes.recall import HeldValues
from explorer.plan.pipeline import pass_of
from explorer.plan.schedule.schedule import Schedule
from explorer.record.reasons import counted_text

PLANNED = "planned"
"""key of a body's one plan, where the body came from another process with it"""


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """A finished plan: the graph with its decisions, and the schedule."""

    graph: PlanGraph
    schedule: Schedule
    options: Options
    micros: float


@under({})
def plan(roots: Sequence[Expr], options: Options | None = None, held: HeldValues | None = None) -> Plan:
    """Plan the evaluation of expressions.

    ``held`` are values that earlier plans computed, which the pass recall takes. Raises StateError where a pass reads
    what a later one makes, and DeclarationError where a rule or pass of a user breaks its contract.

    Example: ``plan([x @ w + b], Options(without=("fuse",))).schedule.kernels``.
    """
    options = options or Options()
    started = time.perf_counter()
    graph = PlanGraph(roots, options.numerics, options.inference)
    if held is not None:
        graph.note(held)
    purpose = (
        "The program as it was recorded. Nothing has been computed: flops and bytes written are those that it would "
        "take as it stands."
    )
    _close_stage(graph, "recorded", "record", purpose, 0, started)
    _report_recorded(graph)
    names: set[str] = set()
    changed: set[str] = set()
    for step in options.passes:
        planning_pass = pass_of(step)
        # Nothing changed that it could see: its stage would be empty.
        if isinstance(step, Again) and changed.isdisjoint(step.after):
            continue
        if not planning_pass.has_work(graph):
            continue
        name = f"{planning_pass.name} again" if planning_pass.name in names else planning_pass.name
        names.add(planning_pass.name)
        # A call that stayed closed is a kernel, whose working memory is what its body's schedule takes.
        if planning_pass.kind == "order":
            graph.note(_schedules_of_bodies(graph, options))
        if _run(planning_pass, name, graph):
            # By the name of the stage, so that a step can also run after a pass that ran "again".
            changed.add(name)
    graph.note(HeldValues())  # those that were not taken must not live as long as the plan
    return Plan(graph, graph.scheduled, options, (time.perf_counter() - started) * 1e6)


def plan_closed(body: Body, options: Options) -> tuple[Plan, tuple[Expr, ...]]:
    """Return the plan of a body, and the parameters for a call's operands, in their order.

    The plan is built once and kept with the body, for the options and the rules of that time. Its kernels run one at a
    time, whatever the lanes of ``options``: the call is one kernel of the plan around it.
    """
    options = options.of_bodies
    key = "closed", planning_context(options)
    cached: tuple[Plan, tuple[Expr, ...]] | None = body.derived.get(PLANNED) or body.derived.get(key)
    if cached is None:
        inputs, outputs = close_over(body, body.captured)
        with one_deeper(f"a plan of {body.name}"):
            # setdefault: where two threads plan a body at once, both go on with the first plan.
            cached = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return cached


def _schedules_of_bodies(graph: PlanGraph, options: Options) -> BodySchedules:
    """Plan the bodies of the calls that were not inlined; return their schedules by id of the body.

    Before the kernels are built: a call's kernel needs as working memory what the plan of its body says.
    """
    calls = [node.operation for node in graph.live if isinstance(node.operation, Call)]
    bodies = [body for call in calls for body in call.planned_bodies]
    return BodySchedules({id(body): plan_closed(body, options)[0].schedule for body in bodies})


Watcher: TypeAlias = Callable[[PlanGraph], None]

_watcher: ContextVar[Watcher | None] = ContextVar("explorer_recorded_graph", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` with the first graph that is planned inside the block, before any pass has run.

    Planning takes longer than recording: a notebook can show the graph as it was recorded meanwhile.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def _report_recorded(graph: PlanGraph) -> None:
    """Call the watcher, if there is one that has not been called yet."""
    watcher = _watcher.get()
    if watcher is not None:
        _watcher.set(None)  # bodies of functions are planned inside
        watcher(graph)


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
