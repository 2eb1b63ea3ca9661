"""Rows of stages, schedules and runs.

The counts of a stage describe the graph at its end, so the difference between two rows shows the effect of a pass, even
a user-defined one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import NodeGroup, PlanStage
from explorer.plan.planner import Plan
from explorer.plan.schedule.schedule import Priority
from explorer.record import Kernel, Run, Schedule, Stage, Step
from explorer.run.runtime.timing import Timing


def stage(stage: PlanStage, flops: Mapping[int, int], clusters: Sequence[NodeGroup]) -> Stage:
    """Return the row of a stage with its counts; ``flops`` maps uids to numbers of operations."""
    operations = [node for node in stage.live if node.operands]
    inside = _inside_kernels(clusters, stage.last)
    written_nodes = [node for node in operations if node.uid not in inside] if inside else operations
    counts = {
        "nodes": len(stage.live),
        "operations": len(operations),
        "flops": sum([flops[node.uid] for node in operations]),
        "bytes": sum([0 if node.operation.view else node.type.nbytes for node in written_nodes]),
        **stage.counts,
    }
    micros = round(stage.micros, 1)
    facts = stage.purpose, micros, stage.decides, stage.limits
    return Stage(stage.name, stage.kind, stage.first, stage.last, counts, *facts)


def _inside_kernels(clusters: Sequence[NodeGroup], position: int) -> set[int]:
    """Return the uids of values that stay inside a kernel, and are never written, after ``position`` decisions."""
    kernels = [group for group in clusters if group.kind == "kernel" and group.decision < position]
    return {node.uid for kernel in kernels for node in kernel.members[:-1]}


def schedule(planned: Plan, ids: Mapping[int, int]) -> Schedule:
    """Return the row of a plan's schedule; ``ids`` maps uids to node ids."""
    plan = planned.schedule

    def node_ids(nodes: Sequence[Expr]) -> tuple[int, ...]:
        return tuple([ids[node.uid] for node in nodes])

    def results(priorities: Sequence[Priority]) -> tuple[int, ...]:
        return tuple([ids[uid] for _, _, uid, _ in sorted(priorities)])

    kernels = [
        Kernel(
            node_ids(kernel.nodes),
            level,
            chain,
            kernel.cost.flops,
            kernel.cost.bytes,
            kernel.cost.workspace,
            round(kernel.cost.estimate, 3),
            placement.buffer,
            placement.reuses is not None,
            results(pick.candidates),
            pick.ready_count,
            pick.reason,
            node_ids(placement.frees),
            placement.live,
            results(pick.waiting),
            pick.waiting_count,
        )
        for kernel, level, chain, pick, placement in zip(
            plan.kernels, plan.levels, plan.chains, plan.picks, plan.placements, strict=True
        )
    ]
    return Schedule(tuple(kernels), plan.buffers, plan.peak, plan.peak_without_reuse)


def measured(planned: Plan, executor: str, timing: Timing) -> Run:
    """Return the row of a run, with its steps in the order of their starts."""
    placements = planned.schedule.placements
    if not placements:
        return Run(executor, (), 0.0)
    start = min(timing.began)
    threads = timing.threads or [0] * len(placements)
    steps = [
        Step(index, (began - start) / 1000, (ended - began) / 1000, placements[index].live, threads[index])
        for index, (began, ended) in enumerate(zip(timing.began, timing.ended, strict=True))
    ]
    in_order = tuple(sorted(steps, key=lambda step: step.start))
    return Run(executor, in_order, timing.nanoseconds / 1000, warm=timing.warm, watched=timing.watched)
