"""Buffers: results live in blocks that are used again as soon as nobody reads them."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.core.function import Call
from explorer.core.types import TupleType
from explorer.plan.graph import Graph
from explorer.plan.schedule import Kernel, Schedule, rounded


class Reuse:
    """A block whose value is dead takes the next result that fits."""


class InPlace:
    """An elementwise result is written over an operand of the same type that dies with it."""


@dataclass(frozen=True)
class Buffers:
    """Assign results to blocks by their live ranges; roots and closed calls have memory of their own, views none."""

    name = "buffers"

    def run(self, schedule: Schedule, graph: Graph) -> None:
        """One walk in order: the smallest free block that fits, else a new one."""
        roots = {root.uid for root in schedule.roots}
        base: dict[int, Expr] = {}
        last: dict[int, int] = {}
        for index, kernel in enumerate(schedule.kernels):
            result = kernel.result
            base[result.uid] = (
                base.get(kernel.reads[0].uid, kernel.reads[0]) if result.operation.view and kernel.reads else result
            )
            for read in kernel.reads:
                last[base.get(read.uid, read).uid] = index
        kept = {base[uid].uid for uid in roots if uid in base}
        owner = {kernel.result.uid: kernel for kernel in schedule.kernels if kernel.bytes and not kernel.constant}
        ending: dict[int, list[Expr]] = {}
        for uid, index in last.items():
            if uid in owner and uid not in kept:
                ending.setdefault(index, []).append(owner[uid].result)
        sizes: list[int] = []
        free: list[tuple[int, int]] = []
        story: list[list[Expr]] = []
        in_place: list[Expr] = []
        live = total = peak = without = 0
        for index, kernel in enumerate(schedule.kernels):
            dying = ending.get(index, ())
            kernel.frees = [*dying]
            result = kernel.result
            if kernel.bytes and not kernel.constant:
                total += kernel.bytes
                operand = self._in_place(kernel, dying, base, owner) if result.uid not in kept else None
                if operand is not None:
                    kernel.reuses = operand
                    kernel.buffer = owner[operand.uid].buffer
                    in_place.append(result)
                else:
                    live += kernel.bytes
                    if result.uid not in kept and not isinstance(result.operation, Call):
                        kernel.buffer = self._take(_size(result), sizes, free, story)
                if kernel.buffer >= 0:
                    story[kernel.buffer].append(result)
                if result.uid not in last and result.uid not in kept:
                    kernel.frees.append(result)
            kernel.live = live + kernel.workspace
            peak = max(peak, kernel.live)
            without = max(without, total + kernel.workspace)
            for node in kernel.frees:
                if node is not kernel.reuses:
                    block = owner[node.uid].buffer
                    if block >= 0:
                        bisect.insort(free, (sizes[block], block))
                    live -= owner[node.uid].bytes
        schedule.buffers, schedule.peak, schedule.peak_without_reuse = tuple(sizes), peak, without
        self._tell(graph, sizes, story, in_place, owner)

    def _in_place(
        self, kernel: Kernel, dying: Sequence[Expr], base: dict[int, Expr], owner: dict[int, Kernel]
    ) -> Expr | None:
        """The dying operand in whose place the result can be written: no other operand is a view of it."""
        result = kernel.result
        if not dying or not result.operation.reuses_operand or not kernel.nodes[0].operation.elementwise:
            return None
        for read in dying:
            if read.type is result.type and owner[read.uid].buffer >= 0:
                readers = [other for other in kernel.reads if base.get(other.uid, other) is read]
                if len(readers) == 1 and readers[0] is read:
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
                    "buffer {buffer} of {size_bytes} serves {count:result} in turn",
                    {"buffer": block, "size_bytes": size, "count": len(nodes)},
                    nodes,
                )
        if in_place:
            graph.decide(
                over,
                "in_place",
                "{count:result} written over an operand that dies at that moment",
                {"count": len(in_place), "saved_bytes": sum([owner[node.uid].bytes for node in in_place])},
                in_place,
            )


def _size(node: Expr) -> int:
    """Bytes of the block that a result needs."""
    kind = node.type
    return sum([rounded(part.nbytes) for part in kind.parts]) if isinstance(kind, TupleType) else rounded(kind.nbytes)
