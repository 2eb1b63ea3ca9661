"""Assignment of tasks to workers that share no memory: which worker runs what, when, and which values are sent.

The algorithm is HEFT (Topcuoglu, Hariri, Wu 2002), list scheduling by earliest finish: tasks are taken by the length of
the longest way from their beginning to the end of the program, and each goes to the worker that would end it first.
Links follow the one-port model: a worker sends one message at a time, and receives one at a time. A value that has been
sent stays where it went.

``plan.estimate`` shows such an assignment on paper; the executors "async" and "dask" run one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HOME = 0
"""the lane of the process that asks: it holds the inputs, and the results are sent there"""

BANDWIDTH, LATENCY, OVERHEAD = 500.0, 2000.0, 3000.0
"""MB/s, and µs of a message and of starting a task, where nobody says others: about Dask's between processes of one
machine (tests/bench/README.md)"""


class Task(NamedTuple):
    """Piece of work that is not divided: kernels that run one after the other."""

    micros: float
    reads: tuple[int, ...] = ()
    """values that it needs, by number: results of other tasks, and inputs"""
    gives: tuple[int, ...] = ()
    """values that others need of it"""
    at_home: bool = False
    """whether the process that asks may run it"""
    away: bool = True
    """whether a worker may run it"""


@dataclass(frozen=True, slots=True)
class Network:
    """Workers and the links between them; times are in µs."""

    workers: int
    bandwidth: float = float("inf")
    """bytes per µs, which are MB/s, of each worker's link"""
    latency: float = 0.0
    """µs of a message without its bytes"""
    overhead: float = 0.0
    """µs that it takes to start work on a worker: its first task, and each that waits for a message"""


class Transfer(NamedTuple):
    """Message from one lane to another."""

    source: int
    target: int
    bytes: int
    start: float
    end: float


class Assignment(NamedTuple):
    """Tasks on lanes: lane 0 is the process that asks, the others are workers; columns are by the task's number."""

    lanes: list[int]
    starts: list[float]
    ends: list[float]
    order: list[int]
    """tasks in the order in which they begin"""
    transfers: list[Transfer]
    micros: float
    """when the last result is where it is wanted"""


class _Lanes:
    """State of the lanes while tasks are assigned."""

    def __init__(self, sizes: Mapping[int, int], network: Network) -> None:
        count = network.workers + 1
        self.sizes, self.network = sizes, network
        self.free, self.sending, self.receiving = [0.0] * count, [0.0] * count, [0.0] * count
        self.there: list[dict[int, float]] = [{} for _ in range(count)]
        """by lane: value → when it is there"""
        self.holders: dict[int, list[int]] = {}
        """value → lanes that have it: each can send it on"""
        self.transfers: list[Transfer] = []

    def arrival(self, reads: Sequence[int], lane: int, transfers: list[Transfer] | None = None) -> float:
        """Return when values are on a lane; with ``transfers`` what that takes is entered, there and in the lanes."""
        there, network = self.there[lane], self.network
        latest, receiving = 0.0, self.receiving[lane]
        missing: dict[int, list[int]] = {}
        for value in reads:
            if value in there:
                latest = max(latest, there[value])
            else:
                missing.setdefault(self._source(value), []).append(value)
        for source, values in missing.items():
            ready = max([self.there[source][value] for value in values])
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
        """Enter values that a lane has from a time on."""
        there = self.there[lane]
        for value in values:
            there[value] = time
            self.holders.setdefault(value, []).append(lane)

    def _source(self, value: int) -> int:
        """Return the lane that can send a value first."""
        return min(self.holders[value], key=lambda lane: (max(self.there[lane][value], self.sending[lane]), lane))

    def micros(self, task: Task, lane: int) -> float:
        """Return the µs of a task on a lane."""
        is_started = lane == HOME or (self.free[lane] > 0 and all(value in self.there[lane] for value in task.reads))
        return task.micros + (0.0 if is_started else self.network.overhead)

    def choices(self, task: Task) -> list[int]:
        """Return the lanes that may run a task, of empty ones that cannot be told apart only the first."""
        lanes = [HOME] if task.at_home or not task.away else []
        # Of a hundred idle workers only the first is tried: the others would give the same times, one task after
        # another.
        alike: set[tuple[float, float]] = set()
        for lane in range(1, self.network.workers + 1) if task.away else ():
            if not any(value in self.there[lane] for value in task.reads):
                key = self.free[lane], self.receiving[lane]
                if key in alike:
                    continue
                alike.add(key)
            lanes.append(lane)
        return lanes


def assign(
    tasks: Sequence[Task], sizes: Mapping[int, int], inputs: Iterable[int], results: Iterable[int], network: Network
) -> Assignment:
    """Assign tasks, operands first, to lanes. ``sizes`` are bytes by value; inputs are at home, results end there."""
    state = _Lanes(sizes, network)
    state.give(HOME, inputs, 0.0)
    lanes, starts, ends = [HOME] * len(tasks), [0.0] * len(tasks), [0.0] * len(tasks)
    ranks = _ranks(tasks)
    for number in sorted(range(len(tasks)), key=lambda number: (-ranks[number], number)):
        task = tasks[number]
        best = (float("inf"), float("inf"), HOME)
        for lane in state.choices(task):
            start = max(state.free[lane], state.arrival(task.reads, lane))
            # Of equal ends the earlier start, then the smaller lane: the assignment must be the same on every machine.
            best = min(best, (start + state.micros(task, lane), start, lane))
        lane = lanes[number] = best[2]
        micros = state.micros(task, lane)
        starts[number] = max(state.free[lane], state.arrival(task.reads, lane, state.transfers))
        ends[number] = state.free[lane] = starts[number] + micros
        state.give(lane, task.gives, ends[number])
    # Results are fetched at the very end, in one message a lane. Those that are constants have no holder, nor any need.
    last = state.arrival([value for value in results if value in state.holders], HOME, state.transfers)
    order = sorted(range(len(tasks)), key=lambda number: (starts[number], number))
    return Assignment(lanes, starts, ends, order, state.transfers, max([last, *ends], default=0.0))


def _ranks(tasks: Sequence[Task]) -> list[float]:
    """Return for each task the µs of work on the longest way from its beginning to the end, which is at most that of
    the tasks that it reads."""
    ranks = [0.0] * len(tasks)
    below: dict[int, float] = {}
    """value → the highest rank among the tasks that read it"""
    # Operands come first among tasks, so that backwards all readers of a value have their ranks.
    for number in range(len(tasks) - 1, -1, -1):
        task = tasks[number]
        ranks[number] = task.micros + max([below.get(value, 0.0) for value in task.gives], default=0.0)
        for value in task.reads:
            below[value] = max(below.get(value, 0.0), ranks[number])
    return ranks


def critical_path(tasks: Sequence[Task]) -> float:
    """Return the µs of work on the longest way through the tasks: no number of workers takes less."""
    return max(_ranks(tasks), default=0.0)
