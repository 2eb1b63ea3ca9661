"""Estimates of a plan on several workers: how long it would take there, what is sent, and who waits.

Nothing is run and nothing is connected: the plan's own prices are assigned to workers on paper
(plan/schedule/task_assignment.py), by the algorithm that the executor "dask" uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.hooks import hooks
from explorer.plan.schedule.chain_tasks import ChainTasks, chain_tasks
from explorer.plan.schedule.schedule import Schedule
from explorer.plan.schedule.task_assignment import (
    BANDWIDTH,
    HOME,
    LATENCY,
    OVERHEAD,
    Assignment,
    Network,
    assign,
    critical_path,
)
from explorer.record.lanes import Lane, Span, lanes_text
from explorer.record.reasons import bytes_text, counted_text, micros_text


@dataclass(frozen=True, slots=True, repr=False)
class ScaleEstimate:
    """Estimated run on several workers; times are in µs. ``print`` shows it as text, a notebook as a picture."""

    network: Network
    micros: float
    """from the first message to the last result"""
    alone: float
    """all kernels one after the other, on one worker that holds the inputs"""
    critical: float
    """the longest way through the kernels: no number of workers takes less"""
    bytes: int
    """bytes sent, each time they are"""
    messages: int
    lanes: tuple[Lane, ...]
    """the work of each worker, with its times; the first is the process that asks, where it computes or receives"""

    @property
    def speedup(self) -> float:
        """How many times faster than one worker that holds the inputs."""
        return self.alone / self.micros if self.micros else 1.0

    @property
    def idle(self) -> float:
        """Part of the workers' time in which they do not compute."""
        whole = self.micros * self.network.workers
        return 1 - sum([lane.busy for lane in self.lanes[1:]]) / whole if whole else 0.0

    @property
    def worthwhile(self) -> bool:
        """Whether the workers are faster than one that holds the inputs."""
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
    schedule: Schedule, workers: int, bandwidth: float = BANDWIDTH, latency: float = LATENCY, overhead: float = OVERHEAD
) -> ScaleEstimate:
    """Estimate a schedule on workers; see ``EvalPlan.estimate``."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OperandError(
            f"estimate(workers={workers!r})", rule="workers must be a whole number of 1 or more", fix="workers=4"
        )
    _check_number("bandwidth", bandwidth, "MB/s above 0", bandwidth_is_legal(bandwidth), "bandwidth=1000")
    for name, value in (("latency", latency), ("overhead", overhead)):
        _check_number(name, value, "µs, 0 or more", _is_number(value) and 0 <= value < float("inf"), f"{name}=1000")
    network = Network(workers, float(bandwidth), float(latency), float(overhead))
    # The process that asks sends and receives, and takes over the kernels that end sooner than a message would arrive.
    work = chain_tasks(schedule, at_home=lambda kernel: kernel.cost.estimate <= network.latency)
    return estimate_of(work, assign(work.tasks, work.sizes, work.inputs, work.results, network), schedule, network)


def estimate_of(work: ChainTasks, assignment: Assignment, schedule: Schedule, network: Network) -> ScaleEstimate:
    """Return an assignment as an estimate, with its lanes."""
    spans: list[list[Span]] = [[] for _ in range(network.workers + 1)]
    for number in assignment.order:
        first = schedule.kernels[work.kernels[number][0]].result.operation.label
        count = len(work.kernels[number])
        label = first if count == 1 else f"{first} and {counted_text(count - 1, 'more kernel')}"
        spans[assignment.lanes[number]].append(Span(assignment.starts[number], assignment.ends[number], label))
    for transfer in assignment.transfers:
        label = f"{bytes_text(transfer.bytes)} from {_name(transfer.source)}"
        spans[transfer.target].append(Span(transfer.start, transfer.end, label, receiving=True))
    return ScaleEstimate(
        network,
        assignment.micros,
        sum([task.micros for task in work.tasks]),
        critical_path(work.tasks),
        sum([transfer.bytes for transfer in assignment.transfers]),
        len(assignment.transfers),
        tuple([Lane(_name(lane), tuple(sorted(held))) for lane, held in enumerate(spans)]),
    )


def _name(lane: int) -> str:
    return "here" if lane == HOME else f"worker {lane}"


def bandwidth_is_legal(bandwidth: Any) -> bool:
    """Whether a bandwidth is a number above 0; infinity is one."""
    return _is_number(bandwidth) and bandwidth > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _check_number(name: str, value: Any, what: str, is_legal: bool, fix: str) -> None:
    if not is_legal:
        raise OperandError(f"estimate({name}={value!r})", rule=f"{name} must be a number of {what}", fix=fix)
