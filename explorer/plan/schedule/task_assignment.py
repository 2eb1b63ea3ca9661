"""Assignment of tasks to workers without shared memory: where and when each task runs, and which values are sent.

The algorithm is HEFT (Topcuoglu, Hariri, Wu 2002), list scheduling by earliest finish time. Tasks are sorted by the
length of the longest path from their start to the end of the program. Each task is assigned to the worker that would
finish it first. Links follow the one-port model: a worker sends one message at a time, and receives one message at a
time. After a value was sent to a worker, it stays available there.

``plan.estimate`` predicts the time of an assignment; the executors "async" and "dask" run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HOME = 0
"""lane of the calling process; it has the inputs and receives the results"""

BANDWIDTH, LATENCY, OVERHEAD = 500.0, 2000.0, 3000.0
"""default speed of a link in MB/s, and default µs for each message and for each task start; these are approximately
Dask's, between processes on one machine (tests/bench/README.md)"""


class Task(NamedTuple):
    """Indivisible unit of work: kernels that run one after another on one worker."""

    micros: float
    reads: tuple[int, ...] = ()
    """ids of the values that the task needs: results of other tasks, and inputs"""
    outputs: tuple[int, ...] = ()
    """ids of the results that other tasks need"""
    at_home: bool = False
    """whether the calling process may run the task"""
    away: bool = True
    """whether a worker may run the task"""


@dataclass(frozen=True, slots=True)
class Network:
    """Workers and the links between them; times are in µs."""

    workers: int
    bandwidth: float = float("inf")
    """speed of each worker's link in bytes per µs, which equals MB/s"""
    latency: float = 0.0
    """latency of a message in µs"""
    overhead: float = 0.0
    """µs to start work on a worker: for the worker's first task, and for each task that waits for a message"""


class Transfer(NamedTuple):
    """Message from one lane to another."""

    source: int
    target: int
    bytes: int
    start: float
    end: float


class Assignment(NamedTuple):
    """Assignment of tasks to lanes (lane 0 is the calling process); lists are indexed by task."""

    lanes: list[int]
    starts: list[float]
    ends: list[float]
    order: list[int]
    """indices of the tasks in the order of their start"""
    transfers: list[Transfer]
    micros: float
    """time in µs at which the last result has arrived"""


class _Lanes:
    """State of the lanes during assignment."""

    def __init__(self, sizes: Mapping[int, int], network: Network) -> None:
        count = network.workers + 1
        self.sizes, self.network = sizes, network
        self.free, self.sending, self.receiving = [0.0] * count, [0.0] * count, [0.0] * count
        self.available_at: list[dict[int, float]] = [{} for _ in range(count)]
        """for each lane, a dict: value → time at which it is available there"""
        self.holders: dict[int, list[int]] = {}
        """value → lanes that have a copy of it; each of them can send it"""
        self.transfers: list[Transfer] = []

    def arrival(self, reads: Sequence[int], lane: int, transfers: list[Transfer] | None = None) -> float:
        """Return the time at which all values in ``reads`` are available on ``lane``.

        If ``transfers`` is given, the necessary transfers are appended to it and recorded in the state of the lanes.
        """
        available, network = self.available_at[lane], self.network
        latest, receiving = 0.0, self.receiving[lane]
        missing: dict[int, list[int]] = {}
        for value in reads:
            if value in available:
                latest = max(latest, available[value])
            else:
                missing.setdefault(self._source(value), []).append(value)
        for source, values in missing.items():
            ready = max([self.available_at[source][value] for value in values])
            start = max(ready, self.sending[source], receiving)
            size = sum([self.sizes[value] for value in values])
            end = receiving = start + network.latency + size / network.bandwidth
            latest = max(latest, end)
            if transfers is not None:
                transfers.append(Transfer(source, lane, size, start, end))
                self.sending[source] = self.receiving[lane] = end
                self.give(lane, values, end)
        return latest

    def give(self, lane: int, values: Iterable[int], time: float) -> None:
        """Record that ``lane`` has ``values`` from ``time`` on."""
        available = self.available_at[lane]
        for value in values:
            available[value] = time
            self.holders.setdefault(value, []).append(lane)

    def _source(self, value: int) -> int:
        """Return the lane that can send ``value`` first."""
        return min(
            self.holders[value], key=lambda lane: (max(self.available_at[lane][value], self.sending[lane]), lane)
        )

    def micros(self, task: Task, lane: int) -> float:
        """Return the time in µs that ``task`` takes on ``lane``."""
        is_started = lane == HOME or (
            self.free[lane] > 0 and all(value in self.available_at[lane] for value in task.reads)
        )
        return task.micros + (0.0 if is_started else self.network.overhead)

    def choices(self, task: Task) -> list[int]:
        """Return the lanes that may run ``task``; of several identical idle lanes, only the first is included."""
        lanes = [HOME] if task.at_home or not task.away else []
        # Of several identical idle workers, only the first is tried, because the others would give the same times.
        seen_states: set[tuple[float, float]] = set()
        for lane in range(1, self.network.workers + 1) if task.away else ():
            if not any(value in self.available_at[lane] for value in task.reads):
                key = self.free[lane], self.receiving[lane]
                if key in seen_states:
                    continue
                seen_states.add(key)
            lanes.append(lane)
        return lanes


def assign(
    tasks: Sequence[Task], sizes: Mapping[int, int], inputs: Iterable[int], results: Iterable[int], network: Network
) -> Assignment:
    """Assign tasks, which are in topological order, to lanes.

    ``sizes`` maps values to bytes. The inputs are initially on `HOME`, and the results must arrive there.
    """
    state = _Lanes(sizes, network)
    state.give(HOME, inputs, 0.0)
    lanes, starts, ends = [HOME] * len(tasks), [0.0] * len(tasks), [0.0] * len(tasks)
    ranks = _ranks(tasks)
    for index in sorted(range(len(tasks)), key=lambda index: (-ranks[index], index)):
        task = tasks[index]
        best = (float("inf"), float("inf"), HOME)
        for lane in state.choices(task):
            start = max(state.free[lane], state.arrival(task.reads, lane))
            # If times are equal, choose the earlier start, then the smaller lane, so that the assignment is the same on
            # every machine.
            best = min(best, (start + state.micros(task, lane), start, lane))
        lane = lanes[index] = best[2]
        micros = state.micros(task, lane)
        starts[index] = max(state.free[lane], state.arrival(task.reads, lane, state.transfers))
        ends[index] = state.free[lane] = starts[index] + micros
        state.give(lane, task.outputs, ends[index])
    # Results are sent at the very end, in one message from each lane. Constant results are not on any lane and are not
    # sent.
    last = state.arrival([value for value in results if value in state.holders], HOME, state.transfers)
    order = sorted(range(len(tasks)), key=lambda index: (starts[index], index))
    return Assignment(lanes, starts, ends, order, state.transfers, max([last, *ends], default=0.0))


def _ranks(tasks: Sequence[Task]) -> list[float]:
    """Return the rank of each task: the µs of work on the longest path from its start to the end of the program."""
    ranks = [0.0] * len(tasks)
    rank_after: dict[int, float] = {}
    """value → highest rank of the tasks that read it"""
    # Tasks are in topological order, so in reverse order all readers of a value are visited before the task that
    # produces it.
    for index in range(len(tasks) - 1, -1, -1):
        task = tasks[index]
        ranks[index] = task.micros + max([rank_after.get(value, 0.0) for value in task.outputs], default=0.0)
        for value in task.reads:
            rank_after[value] = max(rank_after.get(value, 0.0), ranks[index])
    return ranks


def critical_path(tasks: Sequence[Task]) -> float:
    """Return the time in µs of the longest path through the tasks; no number of workers can finish sooner."""
    return max(_ranks(tasks), default=0.0)
