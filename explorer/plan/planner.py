"""The planner: converts expressions to a schedule and records every decision. It computes no values.

`EvalPlan` (run/evalplan.py) calls `plan` with the registered expressions, and the diagnosis tools (run/diagnosis) call
it with changed expressions. The result depends only on expressions and options, not on the machine, the time or the
values of tensors. Equal programs therefore have equal plans everywhere, and plans can be cached, compared and tested.

The passes run in the order of the pipeline (plan/pipeline.py). All passes change the same PlanGraph; nodes in it are
replaced, but never rebuilt (assets/decisions/0002-planning-replaces-nodes.md).
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
from explorer.plan.graph.kernels import BodyPlan, BodyPlans
from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.options import Options
from explorer.plan.passes.recall import ReusableValues
from explorer.plan.schedule.schedule import Schedule
from explorer.record.reasons import counted_text
from explorer.record.rows import Decides

PLANNED = "planned"
"""key of a body's only plan, if another process sent the body together with its plan"""


@dataclass(eq=False, slots=True)
class Plan:
    """Finished plan: the graph with its decisions, and the schedule."""

    graph: PlanGraph
    schedule: Schedule
    options: Options
    micros: float


@under({})
def plan(roots: Sequence[Expr], options: Options | None = None, reusable: ReusableValues | None = None) -> Plan:
    """Return a plan that evaluates ``roots``.

    ``reusable`` contains values of earlier plans for the pass `Recall`. Raises StateError if a pass reads a result of a
    later pass, and DeclarationError if a user's rule or pass violates its contract.

    Example: ``plan([x @ w + b], Options(without=("fuse",))).schedule.kernels``.
    """
    options = options or Options()
    started = time.perf_counter()
    graph = PlanGraph(roots, options.numerics, options.inference)
    if reusable is not None:
        graph.note(reusable)
    purpose = (
        "The program as it was recorded. Nothing has been computed: flops and bytes written are those that it would "
        "take as it stands."
    )
    _close_stage(graph, "recorded", "record", purpose, 0, started)
    _report_recorded(graph)
    names: set[str] = set()
    changed: set[str] = set()
    callback = current_callback()
    for step in options.passes:
        if isinstance(step, Again):
            # Nothing that the pass depends on has changed, so its stage would be empty.
            if changed.isdisjoint(step.after):
                continue
            planning_pass = step.repeated
        else:
            planning_pass = step
        if not planning_pass.has_work(graph):
            continue
        name = f"{planning_pass.name} again" if planning_pass.name in names else planning_pass.name
        names.add(planning_pass.name)
        # A call that was not inlined is one kernel; its working memory is given by the schedule of its body.
        if planning_pass.kind == "order":
            graph.note(_plans_of_bodies(graph, options))
        if callback is not None:
            callback(Progress("planning", f"{planning_pass.name} ({counted_text(len(graph.live), 'node')})"))
        if _run(planning_pass, name, graph):
            # Use the name of the stage, so that a step can also depend on a repeated pass, such as "simplify again".
            changed.add(name)
    if reusable is not None:
        graph.note(ReusableValues())  # values that were not reused must not be kept as long as the plan
    return Plan(graph, graph.scheduled, options, (time.perf_counter() - started) * 1e6)


def plan_closed(body: Body, options: Options) -> tuple[Plan, tuple[Expr, ...]]:
    """Return the plan of ``body``, and the parameters that represent the operands of a call, in order.

    The plan is built once for the current options and rules, and cached in the body. Its kernels run one at a time,
    whatever the number of lanes in ``options``, because the call is one kernel of the surrounding plan.
    """
    options = options.of_bodies
    key = "closed", planning_context(options)
    cached: tuple[Plan, tuple[Expr, ...]] | None = body.derived.get(PLANNED) or body.derived.get(key)
    if cached is None:
        inputs, outputs = close_over(body, body.captured)
        with one_deeper(f"a plan of {body.name}"):
            # Use setdefault: if two threads plan a body concurrently, both use the first plan.
            cached = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return cached


def _plans_of_bodies(graph: PlanGraph, options: Options) -> BodyPlans:
    """Plan the bodies of the calls that were not inlined; return their plans by the id of the body.

    This must happen before the kernels are built, because the working memory of a call's kernel depends on the plan of
    its body.
    """
    calls = [node.operation for node in graph.live if isinstance(node.operation, Call)] if graph.has(Call) else []
    plans = BodyPlans()
    for body in [body for call in calls for body in call.planned_bodies]:
        planned, parameters = plan_closed(body, options)
        plans[id(body)] = BodyPlan(planned.schedule, planned.graph.inputs, parameters)
    return plans


Watcher: TypeAlias = Callable[[PlanGraph], None]

_watcher: ContextVar[Watcher | None] = ContextVar("explorer_recorded_graph", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` with the first graph that is planned inside the block, before any pass has run.

    Planning takes longer than recording. In the meantime, a notebook can show the graph as recorded.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def _report_recorded(graph: PlanGraph) -> None:
    """Call the watcher if there is one and it was not called before."""
    watcher = _watcher.get()
    if watcher is not None:
        _watcher.set(None)  # reset it first, because the bodies of functions may be planned during this call
        watcher(graph)


def _run(planning_pass: Pass, name: str, graph: PlanGraph) -> bool:
    """Run a pass and end its stage; return whether it replaced nodes. If so, other passes may have work again."""
    started, first, substitution_count = time.perf_counter(), len(graph.decisions), len(graph.substitutions)
    planning_pass.run(graph)
    # Refreshing takes no time if the pass changed nothing. Without it, the next pass would see outdated lists and
    # reader counts.
    graph.refresh()
    _close_stage(
        graph,
        name,
        planning_pass.kind,
        planning_pass.purpose,
        first,
        started,
        dict(planning_pass.counts(graph)),
        planning_pass.decides,
        planning_pass.limits,
    )
    return len(graph.substitutions) > substitution_count


def _close_stage(
    graph: PlanGraph,
    name: str,
    kind: StageKind,
    purpose: str,
    first: int,
    started: float,
    counts: dict[str, int] | None = None,
    decides: Decides = "",
    limits: str = "",
) -> None:
    """Add the stage that started at the decision ``first`` and at the time ``started`` (perf_counter) to the graph."""
    micros = (time.perf_counter() - started) * 1e6
    stage = PlanStage(
        name, kind, purpose, first, len(graph.decisions), tuple(graph.live), counts or {}, micros, decides, limits
    )
    graph.stages.append(stage)
