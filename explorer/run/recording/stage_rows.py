"""Stages, schedules and runs as the rows of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import Chapter, Cluster
from explorer.plan.planner import Planned
from explorer.record import Kernel, Run, Schedule, Stage, Step
from explorer.run.runtime.timing import Timing


def stage(chapter: Chapter, flops: Mapping[int, int], clusters: Sequence[Cluster]) -> Stage:
    """Return a stage with its counts; ``flops`` are by uid."""
    operations = [node for node in chapter.live if node.operands]
    inner = _inside_kernels(clusters, chapter.last)
    written = [node for node in operations if node.uid not in inner] if inner else operations
    counts = {
        "nodes": len(chapter.live),
        "operations": len(operations),
        "flops": sum([flops[node.uid] for node in operations]),
        "bytes": sum([0 if node.operation.view else node.type.nbytes for node in written]),
        **chapter.counts,
    }
    return Stage(
        chapter.name, chapter.kind, chapter.first, chapter.last, counts, chapter.purpose, round(chapter.micros, 1)
    )


def _inside_kernels(clusters: Sequence[Cluster], position: int) -> set[int]:
    """The uids of values that are handed on inside a kernel once so many decisions are taken, and never written."""
    kernels = [cluster for cluster in clusters if cluster.kind == "kernel" and cluster.decision < position]
    return {node.uid for kernel in kernels for node in kernel.members[:-1]}


def schedule(planned: Planned, ids: Mapping[int, int]) -> Schedule:
    """Return the schedule of a plan; ``ids`` are by uid."""
    found = planned.schedule

    def numbers(nodes: Sequence[Expr]) -> tuple[int, ...]:
        return tuple([ids[node.uid] for node in nodes])

    kernels = [
        Kernel(
            numbers(kernel.nodes),
            kernel.level,
            kernel.chain,
            kernel.flops,
            kernel.bytes,
            kernel.workspace,
            round(kernel.estimate, 3),
            kernel.buffer,
            kernel.reuses is not None,
            tuple([ids[pick[2]] for pick in sorted(kernel.ready)]),
            kernel.ready_count,
            kernel.why,
            numbers(kernel.frees),
            kernel.live,
            tuple([ids[pick[2]] for pick in sorted(kernel.waiting)]),
            kernel.waiting_count,
        )
        for kernel in found.kernels
    ]
    return Schedule(tuple(kernels), found.buffers, found.peak, found.peak_without_reuse)


def measured(planned: Planned, executor: str, timing: Timing) -> Run:
    """The run of a schedule: its steps in the order in which they began."""
    kernels = planned.schedule.kernels
    if not kernels:
        return Run(executor, (), 0.0)
    begin = min(timing.began)
    threads = timing.threads or [0] * len(kernels)
    steps = [
        Step(index, (began - begin) / 1000, (ended - began) / 1000, kernels[index].live, threads[index])
        for index, (began, ended) in enumerate(zip(timing.began, timing.ended, strict=True))
    ]
    return Run(executor, tuple(sorted(steps, key=lambda step: step.start)), (max(timing.ended) - begin) / 1000)
