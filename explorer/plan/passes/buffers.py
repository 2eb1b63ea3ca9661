"""Buffers: results live in blocks that are used again as soon as nobody reads them."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.core.types import TensorType
from explorer.plan.graph import Graph
from explorer.plan.schedule import Kernel, Schedule

_BLOCK = 64


class Reuse:
    """A block whose value is dead takes the next result that fits."""


class InPlace:
    """An elementwise result is written over an operand of the same type that dies with it."""


@dataclass(frozen=True)
class Buffers:
    """Assign results to blocks by their live ranges; roots get memory of their own, views none."""

    name = "buffers"

    def run(self, schedule: Schedule, graph: Graph) -> None:
        """One walk in order: the smallest free block that fits, else a new one."""
        roots = {root.uid for root in schedule.roots}
        base: dict[int, Expr] = {}
        last: dict[int, int] = {}
        for index, kernel in enumerate(schedule.kernels):
            result = kernel.result
            base[result.uid] = base.get(kernel.reads[0].uid, kernel.reads[0]) if result.operation.view and kernel.reads else result
            for read in kernel.reads:
                last[base.get(read.uid, read).uid] = index
        kept = {base[uid].uid for uid in roots if uid in base}
        owner = {kernel.result.uid: kernel for kernel in schedule.kernels if kernel.bytes}
        ending: dict[int, list[Expr]] = {}
        for uid, index in last.items():
            if uid in owner and uid not in kept:
                ending.setdefault(index, []).append(owner[uid].result)
        sizes: list[int] = []
        free: list[tuple[int, int]] = []
        story: list[list[Expr]] = []
        in_place: list[Expr] = []
        live = total = peak = 0
        for index, kernel in enumerate(schedule.kernels):
            dying = ending.get(index, ())
            kernel.frees = [*dying]
            result = kernel.result
            if kernel.bytes:
                total += kernel.bytes + kernel.workspace
                if result.uid not in kept:
                    operand = self._in_place(kernel, dying, base)
                    if operand is not None:
                        kernel.reuses = operand
                        kernel.buffer = owner[operand.uid].buffer
                        in_place.append(result)
                    else:
                        kernel.buffer = self._take(_rounded(kernel.bytes), sizes, free, story)
                        live += kernel.bytes
                    story[kernel.buffer].append(result)
                    if result.uid not in last:
                        kernel.frees.append(result)
                else:
                    live += kernel.bytes
            kernel.live = live + kernel.workspace
            peak = max(peak, kernel.live)
            for node in kernel.frees:
                if node is not kernel.reuses:
                    block = owner[node.uid].buffer
                    bisect.insort(free, (sizes[block], block))
                    live -= owner[node.uid].bytes
        schedule.buffers, schedule.peak, schedule.peak_without_reuse = tuple(sizes), peak, total
        self._tell(graph, sizes, story, in_place, owner)

    def _in_place(self, kernel: Kernel, dying: list[Expr] | tuple[Expr, ...], base: dict[int, Expr]) -> Expr | None:
        result = kernel.result
        if not dying or not all([node.operation.elementwise for node in kernel.nodes]) or not result.operation.reuses_operand:
            return None
        for read in kernel.reads:
            if read.type is result.type and type(read.type) is TensorType and any(read is node for node in dying):
                if sum([base.get(other.uid, other) is read for other in kernel.reads]) == 1:
                    return read
        return None

    def _take(self, size: int, sizes: list[int], free: list[tuple[int, int]], story: list[list[Expr]]) -> int:
        at = bisect.bisect_left(free, (size, -1))
        if at < len(free):
            return free.pop(at)[1]
        sizes.append(size)
        story.append([])
        return len(sizes) - 1

    def _tell(
        self, graph: Graph, sizes: list[int], story: list[list[Expr]], in_place: list[Expr], owner: dict[int, Kernel]
    ) -> None:
        link, over = Reuse(), InPlace()
        for block, (size, nodes) in enumerate(zip(sizes, story, strict=True)):
            if len(nodes) > 1:
                graph.decide(
                    link,
                    "reused",
                    "buffer {buffer} of {size_bytes} serves {count} results in turn",
                    {"buffer": block, "size_bytes": size, "count": len(nodes)},
                    nodes,
                )
        if in_place:
            graph.decide(
                over,
                "in_place",
                "{count} results are written over an operand that dies with them",
                {"count": len(in_place), "saved_bytes": sum([owner[node.uid].bytes for node in in_place])},
                in_place,
            )


def _rounded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
