"""Order: Kahn's algorithm over kernels; of what is ready, constants come first, then the earliest recorded.

A kernel is ready when the values that it reads are there. Where several kernels may run at a time, the order is that
in which kernels begin in a run that takes the reference prices: a value is there when the kernel that gives it has
ended in that run. Kernels that read what still runs wait, and are noted beside those that are ready. The same run tells
memory which kernels overlap.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.kernels import kernels_of
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason, RuleInfo
from explorer.plan.schedule.depth_first import depth_first
from explorer.plan.schedule.schedule import Kernel, Pick, Schedule

HEURISTICS = ("earliest", "depth_first")
_SHOWN = 8


class _Queue:
    """Kernels that are ready: the values that they read are there; and, in parallel runs, those whose values are not
    there yet although every kernel that gives one has begun.
    """

    def __init__(self, picks: list[Pick], needs: list[int], users: list[list[int]], parallel: bool) -> None:
        self.picks, self.users = picks, users
        self.needs = needs
        """for each kernel how many of the kernels that it reads have not ended"""
        self.unbegun = needs.copy() if parallel else None
        """for each kernel how many of the kernels that it reads have not begun"""
        self.ready = [pick for pick, need in zip(picks, needs, strict=True) if need == 0]
        heapq.heapify(self.ready)
        self.constants = sum([not pick[0] for pick in self.ready])
        self.waiting: list[Pick] = []
        """a heap, in which kernels that became ready stay until they are at its top"""
        self.waiting_count = 0

    def begin(self, kernel: Kernel, rule: str) -> None:
        """Take the next kernel out; note on it which others are ready or wait, and why it comes before them."""
        ready = self.ready
        kernel.ready_candidates = tuple(ready[:_SHOWN])
        kernel.ready_count = count = len(ready)
        if self.waiting_count:
            while not self.needs[self.waiting[0][-1]]:
                heapq.heappop(self.waiting)
            waiting = [pick for pick in self.waiting[: 2 * _SHOWN] if self.needs[pick[-1]]]
            kernel.waiting, kernel.waiting_count = tuple(waiting[:_SHOWN]), self.waiting_count
        if count == 1:
            kernel.pick_reason = "ready_first" if self.waiting_count else "only"
        else:
            kernel.pick_reason = "constant" if kernel.constant and self.constants < count else rule
        self.constants -= kernel.constant
        index = heapq.heappop(ready)[-1]
        if self.unbegun is not None:
            for user in self.users[index]:
                self.unbegun[user] -= 1
                if self.unbegun[user] == 0:
                    heapq.heappush(self.waiting, self.picks[user])
                    self.waiting_count += 1

    def end(self, index: int) -> None:
        """Let a kernel end: kernels that waited for no other one are ready."""
        needs = self.needs
        for user in self.users[index]:
            needs[user] -= 1
            if needs[user] == 0:
                pick = self.picks[user]
                heapq.heappush(self.ready, pick)
                if not pick[0]:
                    self.constants += 1
                if self.unbegun is not None:
                    self.waiting_count -= 1


@dataclass(frozen=True)
class Order(Pass):
    """Put kernels in a topological order with levels and chains."""

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)
    lanes: int = 1
    """how many kernels may run at a time"""
    heuristic: str = "earliest"
    """one of RULES: of what is ready, pick what was recorded first, or what reverse depth-first search puts first,
    which runs the branch that comes last by name to its end before another one (plan/schedule/depth_first.py)"""
    name = "order"
    rule = RuleInfo("Lanes", "Independent kernels run at one time, on as many threads as there are lanes.")
    together = Reason(
        "together",
        "Up to {lanes} of the {count} kernels run at one time, because they form {chains:chain} and kernels of "
        "different chains need not wait for each other: an estimated {together_us} instead of {alone_us} one after "
        "another.",
        meaning="In a chain each kernel needs the result of the one before. Kernels that run at one time run on "
        "several threads.",
        change="lanes=1 runs one kernel at a time.",
    )
    nothing_independent = Reason(
        "nothing_independent",
        "One kernel runs at a time although {lanes} could, because each of the {count} kernels needs the result of the "
        "one before.",
        meaning="Only kernels that do not need each other's results can run at one time.",
        change="Nothing has to change.",
    )
    kind = "order"
    required = True

    def run(self, graph: PlanGraph) -> None:
        """Pick a ready kernel by the rule, constants before all, until none is left."""
        leaves, kernels, kernel_of = kernels_of(graph, self.cost_model)
        needs = [0] * len(kernels)
        users: list[list[int]] = [[] for _ in kernels]
        producers: list[list[int]] = [[] for _ in kernels]
        for index, kernel in enumerate(kernels):
            for read in kernel.reads:
                if read.uid in kernel_of:
                    producer = kernel_of[read.uid]
                    users[producer].append(index)
                    producers[index].append(producer)
                    needs[index] += 1
        ranks = graph.position_of
        picks: list[Pick] = []
        places = depth_first(leaves, kernels, users) if self.heuristic == "depth_first" else None
        for index, kernel in enumerate(kernels):
            uid = kernel.nodes[-1].uid
            rank = ranks.get(uid, uid) if places is None else places[index]
            picks.append((not kernel.constant, rank, uid, index))
        queue = _Queue(picks, needs, users, parallel=self.lanes > 1)
        ordered: list[Kernel] = []
        running: list[tuple[float, int, int]] = []  # when each ends, its place in the order, its number
        now = 0.0
        chains = 0
        while queue.ready:
            index = queue.ready[0][-1]
            kernel = kernels[index]
            queue.begin(kernel, self.heuristic)
            before = producers[index]
            if len(before) == 1:
                (producer,) = before
                kernel.level = kernels[producer].level + 1
            else:
                kernel.level = 1 + max([kernels[p].level for p in before], default=0)
            if len(before) == 1 and len(users[before[0]]) == 1:
                kernel.chain = kernels[before[0]].chain
            else:
                chains += 1
                kernel.chain = chains
            kernel.runs_until = len(ordered)
            ordered.append(kernel)
            if self.lanes == 1:
                queue.end(index)
                continue
            heapq.heappush(running, (now + kernel.estimate, kernel.runs_until, index))
            while running and (not queue.ready or len(running) == self.lanes or running[0][0] <= now):
                now, place, ended = heapq.heappop(running)
                ordered[place].runs_until = len(ordered) - 1
                queue.end(ended)
        if self.lanes > 1:
            self._record(graph, ordered, chains, now)
        graph.schedule = Schedule(graph.roots, tuple(leaves), tuple(ordered))

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """The kernels, and the length of the longest way through them."""
        kernels = graph.scheduled.kernels
        return {"kernels": len(kernels), "levels": max([kernel.level for kernel in kernels], default=0)}

    def _record(self, graph: PlanGraph, ordered: list[Kernel], chains: int, together: float) -> None:
        facts = {
            "count": len(ordered),
            "chains": chains,
            "lanes": self.lanes,
            "together_us": round(together, 3),
            "alone_us": round(sum([kernel.estimate for kernel in ordered]), 3),
        }
        beside = [kernel.result for index, kernel in enumerate(ordered) if kernel.runs_until > index]
        if beside:
            graph.decide(
                self.rule,
                self.together,
                facts,
                beside,
            )
        elif ordered:
            graph.decline(
                self.rule,
                self.nothing_independent,
                facts,
                ordered[-1].result,
                estimated_cost_us=0.0,
            )
