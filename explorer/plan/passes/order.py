"""Order: Kahn's algorithm over kernels; of what is ready, constants come first, then the earliest recorded.

Where several kernels may run at a time, what a kernel makes ready is ready when it ends, by the reference prices: the
order is that in which kernels begin, and tells memory which of them run together.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from explorer.plan.cost import REFERENCE, Prices
from explorer.plan.graph import Graph
from explorer.plan.kernels import kernels_of
from explorer.plan.schedule import Kernel, Pick, Schedule

RULES = ("earliest", "depth_first")
_SHOWN = 8


class Lanes:
    """Independent kernels run at one time, on as many threads as there are lanes."""


@dataclass(frozen=True)
class Order:
    """Put kernels in a topological order with levels and chains."""

    prices: Prices = field(default=REFERENCE)
    lanes: int = 1
    """how many kernels may run at a time"""
    rule: str = "earliest"
    """one of RULES: of what is ready, pick what was recorded first, or what reverse depth-first search puts first"""
    name = "order"

    def run(self, graph: Graph) -> Schedule:
        """Pick a ready kernel by the rule, constants before all, until none is left."""
        leaves, kernels, kernel_of = kernels_of(graph, self.prices)
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
        ranks = graph.ranks
        picks: list[Pick] = []
        places = _depth_first(users, producers) if self.rule == "depth_first" else None
        for index, kernel in enumerate(kernels):
            uid = kernel.nodes[-1].uid
            rank = ranks.get(uid, uid) if places is None else places[index]
            picks.append((not kernel.constant, rank, uid, index))
        ready = [pick for pick, need in zip(picks, needs, strict=True) if need == 0]
        heapq.heapify(ready)

        def release(ended: int) -> None:
            for user in users[ended]:
                needs[user] -= 1
                if needs[user] == 0:
                    heapq.heappush(ready, picks[user])

        ordered: list[Kernel] = []
        running: list[tuple[float, int, int]] = []  # when each ends, its place in the order, its number
        now = 0.0
        chains = 0
        while ready:
            index = ready[0][-1]
            kernel = kernels[index]
            kernel.ready = tuple(ready[:_SHOWN])
            kernel.ready_count = len(ready)
            kernel.why = "only" if len(ready) == 1 else "constant" if kernel.constant else self.rule
            heapq.heappop(ready)
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
            kernel.until = len(ordered)
            ordered.append(kernel)
            if self.lanes == 1:
                release(index)
                continue
            heapq.heappush(running, (now + kernel.estimate, kernel.until, index))
            while running and (not ready or len(running) == self.lanes):
                now, place, ended = heapq.heappop(running)
                ordered[place].until = len(ordered) - 1
                release(ended)
        if self.lanes > 1:
            self._tell(graph, ordered, chains, now)
        return Schedule(graph.roots, tuple(leaves), tuple(ordered))

    def _tell(self, graph: Graph, ordered: list[Kernel], chains: int, together: float) -> None:
        facts = {
            "count": len(ordered),
            "chains": chains,
            "lanes": self.lanes,
            "together_us": round(together, 3),
            "alone_us": round(sum([kernel.estimate for kernel in ordered]), 3),
        }
        beside = [kernel.result for index, kernel in enumerate(ordered) if kernel.until > index]
        if beside:
            graph.decide(
                Lanes(),
                "together",
                "{count:kernel} in {chains:execution chain}, up to {lanes} at a time: "
                "estimated {together_us}, one after another {alone_us}",
                facts,
                beside,
            )
        elif ordered:
            graph.refuse(
                Lanes(),
                "nothing_independent",
                "{count:kernel} in {chains:execution chain}, of which each waits for the one before",
                facts,
                ordered[-1].result,
                lost=0.0,
            )


def _depth_first(users: list[list[int]], producers: list[list[int]]) -> list[int]:
    """For each kernel its place in the reverse of the order in which a search along the edges leaves it behind.

    InferFramework's order: a kernel's first reader is followed to the end before its second one.
    """
    left: list[int] = []
    seen = [False] * len(users)
    for start in range(len(users)):
        if producers[start] or seen[start]:
            continue
        seen[start] = True
        stack = [(start, iter(users[start]))]
        while stack:
            index, following = stack[-1]
            further = next((user for user in following if not seen[user]), None)
            if further is None:
                left.append(index)
                stack.pop()
            else:
                seen[further] = True
                stack.append((further, iter(users[further])))
    places = [0] * len(users)
    for place, index in enumerate(reversed(left)):
        places[index] = place
    return places
