"""Estimates of a plan on several workers: its duration, the bytes sent, and the idle time of each worker.

Nothing runs, and no workers are needed. As in the executor "dask", plan/schedule/task_assignment.py assigns kernels to
workers by estimated cost. A graph with mapped calls is planned again, because a pass divides them between workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.hooks import hooks
from explorer.plan.passes import Inline
from explorer.plan.planner import Plan
from explorer.plan.schedule.chain_tasks import chain_tasks, ends_before_messages
from explorer.plan.schedule.schedule import Schedule
from explorer.plan.schedule.task_assignment import (
    BANDWIDTH,
    HOME,
    LATENCY,
    OVERHEAD,
    Network,
    assign,
    critical_path,
)
from explorer.record.reasons import bytes_text, counted_text, micros_text
from explorer.record.worker_lanes import Lane, Span, lanes_text
from explorer.run.diagnosis.replan import recorded_input, replan

MAX_WORKERS = 100_000
"""maximum number of workers of an estimate: each worker has a lane, and many more would exhaust memory"""


@dataclass(frozen=True, slots=True, repr=False)
class ScaleEstimate:
    """Estimated run on several workers, with times in µs; ``print`` shows text, a notebook an image."""

    network: Network
    micros: float
    """time from the first message to the last result, in µs"""
    alone: float
    """time of all kernels in sequence on one worker that already has the inputs, in µs"""
    critical: float
    """time of the longest path through the kernels in µs, which is a lower bound for any number of workers"""
    bytes: int
    """total number of bytes sent, including repeated transfers"""
    messages: int
    lanes: tuple[Lane, ...]
    """tasks of each worker with their times; the first lane is the calling process, if it computes or receives"""

    @property
    def speedup(self) -> float:
        """Speedup relative to one worker that already has the inputs."""
        return self.alone / self.micros if self.micros else 1.0

    @property
    def idle(self) -> float:
        """Fraction of the workers' time during which they do not compute."""
        total = self.micros * self.network.workers
        return 1 - sum([lane.busy for lane in self.lanes[1:]]) / total if total else 0.0

    @property
    def worthwhile(self) -> bool:
        """Whether the workers are faster than one worker that already has the inputs."""
        return self.micros < self.alone

    def __str__(self) -> str:
        network = self.network
        rate = "any bandwidth" if network.bandwidth == float("inf") else f"{network.bandwidth:g} MB/s"
        verdict = (
            f"{self.speedup:.3g} times as fast as alone ({micros_text(self.alone)})"
            if self.worthwhile
            else f"not worth it: alone it takes {micros_text(self.alone)}"
        )
        return "\n".join(
            [
                f"{counted_text(network.workers, 'worker')}, {rate}, {micros_text(network.latency)} a message: "
                f"an estimated {micros_text(self.micros)}, {verdict}",
                f"  the longest way through the kernels takes {micros_text(self.critical)}: "
                "no number of workers takes less",
                f"  {counted_text(self.messages, 'message')} with {bytes_text(self.bytes)}; "
                f"workers wait {self.idle:.0%} of the time",
                lanes_text(self.lanes, self.micros),
                "",
            ]
        )

    def __repr__(self) -> str:
        return str(self).rstrip()

    def _repr_svg_(self) -> str:
        return hooks.lanes_picture(self.lanes, self.micros)


def scale_estimate(
    planned: Plan, workers: int, bandwidth: float = BANDWIDTH, latency: float = LATENCY, overhead: float = OVERHEAD
) -> ScaleEstimate:
    """Estimate a plan's run on ``workers`` workers; see ``EvalPlan.estimate``."""
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
        raise OperandError(
            f"estimate(workers={workers!r})",
            rule=f"workers must be an integer from 1 to {MAX_WORKERS:,}",
            fix="workers=4",
        )
    _check_number("bandwidth", bandwidth, "MB/s above 0", bandwidth_is_legal(bandwidth), "bandwidth=1000")
    for name, value in (("latency", latency), ("overhead", overhead)):
        _check_number(name, value, "µs, 0 or more", _is_number(value) and 0 <= value < float("inf"), f"{name}=1000")
    network = Network(workers, float(bandwidth), float(latency), float(overhead))
    # One worker runs the undivided plan, since dividing calls and joining their results would only slow it down.
    one_worker_us = sum([task.micros for task in chain_tasks(_planned_over(planned, None).schedule).tasks])
    return _estimate(_planned_over(planned, network).schedule, network, one_worker_us)


def _planned_over(planned: Plan, network: Network | None) -> Plan:
    """Return the plan with mapped calls divided between the workers of ``network``, or undivided for None.

    Returns the same plan if it has no mapped calls.
    """
    if not any(decision.code in (Inline.batched.code, Inline.divided.code) for decision in planned.graph.decisions):
        return planned
    options = planned.options.with_fields(Inline, network=network)
    if options is planned.options:
        return planned
    return replan(recorded_input(planned.graph), options)[0]


def _estimate(schedule: Schedule, network: Network, one_worker_us: float) -> ScaleEstimate:
    """Estimate a schedule's run; ``one_worker_us`` is the time in µs of one worker that already has the inputs."""
    # The calling process sends and receives values, and runs kernels that take less time than a message.
    work = chain_tasks(schedule, at_home=lambda kernel: ends_before_messages(kernel, network))
    assignment = assign(work.tasks, work.sizes, work.inputs, work.results, network)
    spans: list[list[Span]] = [[] for _ in range(network.workers + 1)]
    for task in assignment.order:
        first = schedule.kernels[work.kernels[task][0]].result.operation.label
        count = len(work.kernels[task])
        label = first if count == 1 else f"{first} and {counted_text(count - 1, 'more kernel')}"
        spans[assignment.lanes[task]].append(Span(assignment.starts[task], assignment.ends[task], label))
    for transfer in assignment.transfers:
        label = f"{bytes_text(transfer.bytes)} from {_lane_name(transfer.source)}"
        spans[transfer.target].append(Span(transfer.start, transfer.end, label, receiving=True))
    return ScaleEstimate(
        network,
        assignment.micros,
        one_worker_us,
        critical_path(work.tasks),
        sum([transfer.bytes for transfer in assignment.transfers]),
        len(assignment.transfers),
        tuple([Lane(_lane_name(lane), tuple(sorted(lane_spans))) for lane, lane_spans in enumerate(spans)]),
    )


def _lane_name(lane: int) -> str:
    return "here" if lane == HOME else f"worker {lane}"


def bandwidth_is_legal(bandwidth: Any) -> bool:
    """Return whether ``bandwidth`` is a number above 0; infinity is allowed."""
    return _is_number(bandwidth) and bandwidth > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _check_number(name: str, value: Any, unit: str, is_legal: bool, fix: str) -> None:
    if not is_legal:
        raise OperandError(f"estimate({name}={value!r})", rule=f"{name} must be a number of {unit}", fix=fix)
