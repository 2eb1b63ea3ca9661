"""Order: list scheduling of kernels.

Among the kernels that are ready, constants come first, then the earliest recorded. This is Kahn's algorithm: a kernel
is ready when the values that it reads exist. If several kernels may run at a time, a run is simulated with the
estimates of the cost model, and the order is the order in which kernels begin in the simulation. A value exists when
its kernel has ended in the simulation. Each pick records the kernels that were ready, and the kernels that waited for a
running kernel. The pass `Buffers` uses the same simulation to find which kernels run concurrently.

By default the simulation uses the reference costs, so the order is the same on every machine. With measured costs, the
order and the memory offsets would differ between machines. Executors (run/execution/executors) may begin kernels in any
order that run/execution/kernel_dependencies.py allows.

The heuristic "depth_first" follows one branch to its end before it begins the next one, as InferFramework does, so nets
that were tuned for InferFramework run their operators and use memory in the same order.

Updates in place (plan/passes/update_in_place.py) begin after all other kernels have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from explorer.core.argument_checks import check_name
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.kernels import kernels_of
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason, RuleInfo
from explorer.plan.memory.copied_reshapes import with_copies
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.schedule.schedule import Kernel, OrderedKernels, Pick, Priority

Heuristic: TypeAlias = Literal["earliest", "depth_first"]
HEURISTICS: tuple[Heuristic, ...] = get_args(Heuristic)
_SHOWN = 8
"""maximum number of kernels listed in a pick; this is enough for the panel, but in a wide graph thousands can be ready
at a time"""


class _Queue:
    """Kernels that are ready and, if several kernels may run at a time, kernels that wait for a running kernel."""

    def __init__(
        self, priorities: list[Priority], producers: Sequence[Sequence[int]], users: list[list[int]], parallel: bool
    ) -> None:
        self.priorities, self.users = priorities, users
        self.needs = [len(producers_of_kernel) for producers_of_kernel in producers]
        """for each kernel, the number of its producers that have not ended"""
        self.unbegun = self.needs.copy() if parallel else None
        """for each kernel, the number of its producers that have not begun"""
        self.ready = [priority for priority, count in zip(priorities, self.needs, strict=True) if count == 0]
        heapq.heapify(self.ready)
        self.constants = sum([not priority[0] for priority in self.ready])
        self.waiting: list[Priority] = []
        """heap of waiting kernels; a kernel that has become ready is removed only when it reaches the top"""
        self.waiting_count = 0

    def begin(self, constant: bool, heuristic: str) -> Pick:
        """Remove the next kernel from the queue; return a Pick, which states why the kernel was chosen.

        ``constant`` states whether it is a constant.
        """
        ready = self.ready
        count, waiting_count = len(ready), self.waiting_count
        candidates = tuple(ready) if count <= _SHOWN else tuple(ready[:_SHOWN])
        waiting: tuple[Priority, ...] = ()
        if waiting_count:
            # Kernels that have become ready are removed only at the top of the heap, because removal from the middle is
            # slow.
            while not self.needs[self.waiting[0][-1]]:
                heapq.heappop(self.waiting)
            unready = [priority for priority in self.waiting[: 2 * _SHOWN] if self.needs[priority[-1]]]
            waiting = tuple(unready[:_SHOWN])
        if count == 1:
            reason = "ready_first" if waiting_count else "only"
        else:
            reason = "constant" if constant and self.constants < count else heuristic
        self.constants -= constant
        index = heapq.heappop(ready)[-1]
        if self.unbegun is not None:
            for user in self.users[index]:
                self.unbegun[user] -= 1
                if self.unbegun[user] == 0:
                    heapq.heappush(self.waiting, self.priorities[user])
                    self.waiting_count += 1
        return Pick(reason, candidates, count, waiting, waiting_count)

    def end(self, index: int) -> None:
        """Mark the kernel ``index`` as ended; kernels that waited only for it become ready."""
        needs = self.needs
        for user in self.users[index]:
            needs[user] -= 1
            if needs[user] == 0:
                priority = self.priorities[user]
                heapq.heappush(self.ready, priority)
                if not priority[0]:
                    self.constants += 1
                if self.unbegun is not None:
                    self.waiting_count -= 1


@dataclass(frozen=True)
class Order(Pass):
    """Choose the order of the kernels; each kernel comes after the kernels whose results it reads.

    A subclass may define ``sequence`` to determine another order.
    """

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)
    lanes: int = 1
    """maximum number of kernels that run at the same time"""
    heuristic: Heuristic = "earliest"
    """one of HEURISTICS: among the ready kernels, "earliest" picks the kernel that was recorded first; "depth_first"
    starts with the branch whose name sorts last and follows it to its end"""
    name = "order"
    rule = RuleInfo("Lanes", "Independent kernels run concurrently, on as many threads as there are lanes.")
    together = Reason(
        "together",
        "The {count} kernels run on {lanes} threads, because the kernels form {chains:chain}, and independent chains "
        "can run at the same time. This takes an estimated {together_us}; one kernel after another would take "
        "{alone_us}.",
        meaning="A kernel is one operation, or several fused ones. In a chain, each kernel needs the result of the "
        "previous one. Chains are independent if neither reads a result of the other.",
        change="ex.EvalPlan(lanes=1) runs one kernel at a time.",
    )
    nothing_independent = Reason(
        "nothing_independent",
        "One kernel runs at a time, even though {lanes} threads are available, because each kernel needs the "
        "result of the previous one. The plan has {count:kernel}.",
        meaning="A kernel is one operation, or several fused ones. Only kernels that do not need each other's results "
        "can run at the same time.",
    )
    kind = "order"
    required = True

    def __post_init__(self) -> None:
        check_name(self.heuristic, "order", HEURISTICS)
        if type(self.lanes) is not int or self.lanes < 1:
            raise OperandError(f"lanes={self.lanes!r}", rule="lanes must be an integer of 1 or more", fix="lanes=1")

    def run(self, graph: PlanGraph) -> None:
        """Create the kernels, and simulate a run that picks them by priority; set ``graph.schedule``."""
        leaves, kernels, kernel_of = kernels_of(graph, self.cost_model)
        producers, users = _producers_and_users(kernels, kernel_of)
        heuristic: str = self.heuristic
        positions = None
        if type(self).sequence is not Order.sequence:
            heuristic, positions = "own_order", self._positions(kernels, producers)
        elif heuristic == "depth_first":
            positions = _depth_first(leaves, kernels, users)
        ranks = graph.position_of
        priorities: list[Priority] = []
        for index, kernel in enumerate(kernels):
            uid = kernel.nodes[-1].uid
            # uids increase in the order of recording, so the uid of a recorded node is its rank.
            rank = ranks.get(uid, uid) if positions is None else positions[index]
            # False sorts first, so constants, which are computed once for all runs, begin before all other kernels.
            priorities.append((not kernel.constant, rank, uid, index))
        waits, releases = _with_update_order(graph, kernels, kernel_of, producers, users)
        queue = _Queue(priorities, waits, releases, parallel=self.lanes > 1)
        # The simulation needs the time of copies. With one lane, the order depends only on priorities, not on costs.
        priced = with_copies(kernels, self.cost_model) if self.lanes > 1 else kernels
        begin_order, picks, runs_until, concurrent_us = self._simulate(priced, queue, heuristic)
        levels, chains, chain_count = _levels_and_chains(begin_order, producers, users)
        ordered = OrderedKernels(
            graph.roots,
            tuple(leaves),
            kernels=tuple([kernels[index] for index in begin_order]),
            picks=tuple(picks),
            levels=tuple(levels),
            chains=tuple(chains),
            runs_until=tuple(runs_until),
        )
        if self.lanes > 1:
            sequential_us = sum([_micros(kernel) for kernel in priced])
            self._record(graph, ordered, chain_count, concurrent_us, sequential_us)
        graph.schedule = ordered

    def _simulate(
        self, kernels: Sequence[Kernel], queue: _Queue, heuristic: str
    ) -> tuple[list[int], list[Pick], list[int], float]:
        """Simulate a run; return the order in which kernels begin, the picks, the ends and the total time in µs.

        The end of a kernel is given as the index of the last kernel that begins before it ends.
        """
        begin_order: list[int] = []
        picks: list[Pick] = []
        runs_until: list[int] = []
        running: list[tuple[float, int, int]] = []  # end time, position in the order, kernel index
        now = 0.0
        while queue.ready:
            index = queue.ready[0][-1]
            picks.append(queue.begin(kernels[index].constant, heuristic))
            position = len(begin_order)
            runs_until.append(position)
            begin_order.append(index)
            if self.lanes == 1:
                queue.end(index)
                continue
            heapq.heappush(running, (now + _micros(kernels[index]), position, index))
            # If no kernel is ready, or if all lanes are busy, advance the time to the next end of a kernel. All kernels
            # that have ended by then are processed.
            while running and (not queue.ready or len(running) == self.lanes or running[0][0] <= now):
                now, position, ended = heapq.heappop(running)
                runs_until[position] = len(begin_order) - 1
                queue.end(ended)
        return begin_order, picks, runs_until, now

    def sequence(self, kernels: Sequence[Kernel], producers: Sequence[Sequence[int]]) -> Sequence[int]:
        """Return the kernel indices in execution order, each after its producers.

        Subclasses may define this method. ``producers[index]`` are the kernels whose results the kernel reads. If
        several kernels run at a time, kernels that are earlier in this order are preferred.
        """
        raise NotImplementedError

    def _positions(self, kernels: Sequence[Kernel], producers: Sequence[Sequence[int]]) -> list[int]:
        """Return each kernel's position in the subclass's order; raise DeclarationError if the order is invalid."""
        sequence = [*self.sequence(kernels, producers)]
        position_of = {index: position for position, index in enumerate(sequence)}
        fault, too_early = "", []
        if sorted(position_of) != [*range(len(kernels))] or len(sequence) > len(position_of):
            fault = f"{sequence!r}"
        else:
            too_early = [
                index
                for index, required in enumerate(producers)
                if any(position_of[producer] >= position_of[index] for producer in required)
            ]
        if too_early:
            fault = f"{kernels[too_early[0]].result.label} before a kernel that it reads"
        if fault:
            raise DeclarationError(
                f"{type(self).__name__}.sequence with {fault}",
                rule=f"it must contain each number below {len(kernels)} once, and each kernel after its producers",
                fix="return the numbers in topological order",
            )
        return [position_of[index] for index in range(len(kernels))]

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Return the number of kernels, and the number of kernels on the longest path."""
        levels = graph.ordered.levels
        return {"kernels": len(levels), "levels": max(levels, default=0)}

    def _record(
        self, graph: PlanGraph, ordered: OrderedKernels, chains: int, concurrent_us: float, sequential_us: float
    ) -> None:
        """Record whether kernels run concurrently.

        ``concurrent_us`` and ``sequential_us`` are the estimated times with and without concurrency.
        """
        kernels = ordered.kernels
        facts = {
            "count": len(kernels),
            "chains": chains,
            "lanes": self.lanes,
            "together_us": round(concurrent_us, 3),
            "alone_us": round(sequential_us, 3),
        }
        overlapping = [kernels[index].result for index, last in enumerate(ordered.runs_until) if last > index]
        if overlapping:
            graph.decide(self.rule, self.together, facts, overlapping)
        elif kernels:
            graph.decline(self.rule, self.nothing_independent, facts, kernels[-1].result, estimated_cost_us=0.0)


def _micros(kernel: Kernel) -> float:
    """Return the estimated time of a kernel in every run; constants are computed before the first run."""
    return 0.0 if kernel.constant else kernel.cost.estimate


def _producers_and_users(
    kernels: Sequence[Kernel], kernel_of: Mapping[int, int]
) -> tuple[list[list[int]], list[list[int]]]:
    producers: list[list[int]] = [[] for _ in kernels]
    users: list[list[int]] = [[] for _ in kernels]
    for index, kernel in enumerate(kernels):
        for read in kernel.reads:
            producer = kernel_of.get(read.uid)
            if producer is not None:
                users[producer].append(index)
                producers[index].append(producer)
    return producers, users


def _depth_first(leaves: Sequence[Expr], kernels: Sequence[Kernel], users: Sequence[Sequence[int]]) -> list[int]:
    """Return the position of each kernel in reversed depth-first post-order, as in InferFramework.

    ``users`` lists, for each kernel, the indices of the kernels that read its result.

    The search visits the inputs, and the readers of each result, in the order of their names. A kernel is finished when
    all its readers are finished. The kernel that is finished last comes first in the order. Of two branches, the branch
    whose name sorts *last* therefore runs first, to its end. Values inside a layer or a file's operator are weights,
    not inputs. Kernels that no input reaches are searched last. Kernels with equal names keep the order of recording.
    """
    names = [_path(kernel.result) for kernel in kernels]
    readers: dict[int, list[int]] = {leaf.uid: [] for leaf in leaves if _is_input(leaf)}
    for index, kernel in enumerate(kernels):
        for read in kernel.reads:
            if read.uid in readers:
                readers[read.uid].append(index)
    inputs = sorted([leaf for leaf in leaves if leaf.uid in readers], key=_path)
    starts: list[Iterable[int]] = [sorted(readers[leaf.uid], key=names.__getitem__) for leaf in inputs]
    has_producers = {user for readers_left in users for user in readers_left}
    # Kernels that no input reaches are searched last, starting with those that read no other kernel.
    starts.append(sorted(range(len(kernels)), key=lambda index: (index in has_producers, names[index])))
    finished: list[int] = []
    visited = [False] * len(kernels)
    for start in starts:
        # −1 represents the inputs, which are not kernels. The stack is explicit, because a deep net would exceed
        # Python's stack.
        stack = [(-1, iter(start))]
        while stack:
            index, readers_left = stack[-1]
            next_reader = next((user for user in readers_left if not visited[user]), None)
            if next_reader is not None:
                # Mark a kernel when it is entered, not when it is finished, so that shared readers are visited only
                # once.
                visited[next_reader] = True
                stack.append((next_reader, iter(sorted(users[next_reader], key=names.__getitem__))))
                continue
            stack.pop()
            if index >= 0:
                finished.append(index)
    positions = [0] * len(kernels)
    for position, index in enumerate(reversed(finished)):
        positions[index] = position
    return positions


def _path(node: Expr) -> tuple[str, str]:
    """Return the sort key of ``node``: the names of its scopes as one path, and its label."""
    path = []
    scope = node.scope
    while scope is not None:
        path.append(scope.name)
        scope = scope.parent
    return "/".join(reversed(path)), node.label


def _is_input(leaf: Expr) -> bool:
    """Return whether ``leaf`` is an input of the program; leaves inside layers or a file's operators are not."""
    scope = leaf.scope
    while scope is not None:
        if scope.kind in ("layer", "file"):
            return False
        scope = scope.parent
    return True


def _levels_and_chains(
    begin_order: Sequence[int], producers: Sequence[Sequence[int]], users: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], int]:
    """Return the level and the chain of each kernel, in the order in which kernels begin, and the number of chains.

    The level of a kernel is the length of the longest path to it. If a kernel has only one producer, and is its only
    reader, it belongs to the producer's chain.
    """
    levels, chains = [0] * len(begin_order), [0] * len(begin_order)
    chain_count = 0
    for index in begin_order:
        required = producers[index]
        # Most kernels have one producer; no list is needed for it.
        if len(required) == 1:
            levels[index] = levels[required[0]] + 1
        else:
            levels[index] = 1 + max([levels[producer] for producer in required], default=0)
        if len(required) == 1 and len(users[required[0]]) == 1:
            chains[index] = chains[required[0]]
        else:
            chain_count += 1
            chains[index] = chain_count
    return [levels[index] for index in begin_order], [chains[index] for index in begin_order], chain_count


def _with_update_order(
    graph: PlanGraph,
    kernels: Sequence[Kernel],
    kernel_of: Mapping[int, int],
    producers: list[list[int]],
    users: list[list[int]],
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the kernels that must run before, and those that must run after, each kernel.

    The order depends on values and on updates in place.
    """
    updates_in_place = graph.notes(Updates)
    if not updates_in_place.parameters:
        return producers, users
    updates = {kernel_of[uid] for uid in updates_in_place.parameters}
    waits, releases = [[*earlier] for earlier in producers], [[*later] for later in users]
    edges = [
        (kernel_of[earlier], kernel_of[uid])
        for uid, earlier_uids in updates_in_place.after.items()
        for earlier in earlier_uids
    ]
    # Kernels whose results are read by no kernel, or only by updates, must also end before all updates.
    last = [index for index in range(len(kernels)) if index not in updates and updates.issuperset(users[index])]
    edges += [(earlier, update) for earlier in last for update in updates]
    for earlier, later in dict.fromkeys(edges):
        if earlier not in producers[later]:
            waits[later].append(earlier)
            releases[earlier].append(later)
    return waits, releases
