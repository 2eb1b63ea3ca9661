"""Buffers: results and scratch memory share one arena, whose bytes are used again as soon as nobody reads them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.core.function import Call
from explorer.core.types import TupleType
from explorer.plan.arena import Span, pack
from explorer.plan.graph import Graph
from explorer.plan.schedule import Kernel, Schedule, rounded

_MEETINGS = 200_000
"""pairs of results alive at one moment, beside eight a kernel, up to which results are packed"""


class Reuse:
    """A buffer whose value is dead takes the next result that fits."""


class InPlace:
    """An elementwise result is written over an operand of the same type that dies with it."""


class Pack:
    """Results are laid at offsets of one arena, where buffers side by side would take more."""


@dataclass(frozen=True)
class Buffers:
    """Place results in an arena by their live ranges; roots and closed calls have memory of their own, views none."""

    name = "buffers"

    def run(self, schedule: Schedule, graph: Graph) -> None:
        """One walk in order: the smallest free buffer that fits, else a new one; packed where that takes less."""
        base, last, kept = _live_ranges(schedule)
        owner = {kernel.result.uid: kernel for kernel in schedule.kernels if kernel.bytes and not kernel.constant}
        ending: dict[int, list[Expr]] = {}
        for uid, index in last.items():
            if uid in owner and uid not in kept:
                ending.setdefault(index, []).append(owner[uid].result)
        sizes: list[int] = []
        free: list[tuple[int, int]] = []
        in_place: list[Expr] = []
        live = own = held = total = 0  # bytes alive: all, those with memory of their own, those in the arena; all ever
        most = most_own = most_held = scratch = without = 0
        for index, kernel in enumerate(schedule.kernels):
            dying = ending.get(index, ())
            kernel.frees = [*dying]
            result = kernel.result
            if kernel.bytes and not kernel.constant:
                total += kernel.bytes
                operand = _in_place(kernel, dying, base, owner) if result.uid not in kept else None
                if operand is not None:
                    kernel.reuses = operand
                    kernel.buffer = owner[operand.uid].buffer
                    in_place.append(result)
                else:
                    live += kernel.bytes
                    if result.uid in kept or isinstance(result.operation, Call):
                        own += kernel.bytes
                    else:
                        size = _size(result)
                        kernel.buffer = _take(size, sizes, free)
                        held += size
                if result.uid not in last and result.uid not in kept:
                    kernel.frees.append(result)
            kernel.live = live + kernel.workspace
            most = max(most, kernel.live)
            most_own = max(most_own, own + kernel.workspace - kernel.scratch)
            without = max(without, total + kernel.workspace)
            needed = rounded(kernel.scratch)
            scratch, most_held = max(scratch, needed), max(most_held, held + needed)
            for node in kernel.frees:
                if node is not kernel.reuses:
                    block = owner[node.uid].buffer
                    if block < 0:
                        own -= owner[node.uid].bytes
                    else:
                        bisect.insort(free, (sizes[block], block))
                        held -= _size(node)
                    live -= owner[node.uid].bytes
        beside = sum(sizes) + scratch
        if beside == most_held or not _pack(schedule, beside):
            _lay_side_by_side(schedule, sizes, beside - scratch)
            schedule.arena = beside
        schedule.bound, schedule.peak, schedule.peak_without_reuse = most, schedule.arena + most_own, without
        _tell(graph, schedule, beside, in_place, owner)


def _live_ranges(schedule: Schedule) -> tuple[dict[int, Expr], dict[int, int], set[int]]:
    """By uid: whose memory a value lies in, and when that is read last; the memory that is handed to the user."""
    base: dict[int, Expr] = {}
    last: dict[int, int] = {}
    for index, kernel in enumerate(schedule.kernels):
        result = kernel.result
        base[result.uid] = (
            base.get(kernel.reads[0].uid, kernel.reads[0]) if result.operation.view and kernel.reads else result
        )
        for read in kernel.reads:
            last[base.get(read.uid, read).uid] = index
    return base, last, {base[root.uid].uid for root in schedule.roots if root.uid in base}


def _in_place(kernel: Kernel, dying: Sequence[Expr], base: dict[int, Expr], owner: dict[int, Kernel]) -> Expr | None:
    """The dying operand in whose place the result can be written: no other operand is a view of it."""
    result = kernel.result
    if not dying or not result.operation.reuses_operand or not kernel.nodes[0].operation.elementwise:
        return None
    for read in dying:
        found = owner[read.uid]
        if read.type is result.type and found.buffer >= 0 and found.channels_last == kernel.channels_last:
            readers = [other for other in kernel.reads if base.get(other.uid, other) is read]
            if len(readers) == 1 and readers[0] is read:
                return read
    return None


def _take(size: int, sizes: list[int], free: list[tuple[int, int]]) -> int:
    """The smallest free buffer that fits, or a new one."""
    at = bisect.bisect_left(free, (size, -1))
    if at < len(free):
        return free.pop(at)[1]
    sizes.append(size)
    return len(sizes) - 1


def _lay_side_by_side(schedule: Schedule, sizes: Sequence[int], scratch_offset: int) -> None:
    """Buffers one after the other, the scratch memory behind them."""
    starts = [0, *itertools.accumulate(sizes)]
    for kernel in schedule.kernels:
        if kernel.buffer >= 0:
            kernel.offset = starts[kernel.buffer]
        if kernel.scratch:
            kernel.scratch_offset = scratch_offset
    schedule.buffers = tuple(sizes)


def _pack(schedule: Schedule, below: int) -> bool:
    """Lay results and scratch memory where they fit; False where that takes ``below`` bytes or more, or too long."""
    spans: list[list[int]] = []
    users: list[tuple[Kernel, int]] = []  # a kernel and the span of its result
    scratches: list[tuple[Kernel, int]] = []
    span_of: dict[int, int] = {}
    for index, kernel in enumerate(schedule.kernels):
        if kernel.buffer >= 0:
            if kernel.reuses is None:
                place = len(spans)
                spans.append([_size(kernel.result), index, index])
            else:
                place = span_of[kernel.reuses.uid]
            span_of[kernel.result.uid] = place
            users.append((kernel, place))
        if kernel.scratch:
            scratches.append((kernel, len(spans)))
            spans.append([rounded(kernel.scratch), index, index])
        for node in kernel.frees:
            if node.uid in span_of:
                spans[span_of[node.uid]][2] = index
    packed = pack([Span(*span) for span in spans], _MEETINGS + 8 * len(schedule.kernels))
    if packed is None or packed[1] >= below:
        return False
    offsets, schedule.arena = packed
    numbers: dict[int, int] = {}
    sizes: list[int] = []
    for kernel, place in users:
        kernel.offset = offsets[place]
        kernel.buffer = numbers.setdefault(kernel.offset, len(numbers))
        if kernel.buffer == len(sizes):
            sizes.append(0)
        sizes[kernel.buffer] = max(sizes[kernel.buffer], spans[place][0])
    for kernel, place in scratches:
        kernel.scratch_offset = offsets[place]
    schedule.buffers = tuple(sizes)
    return True


def _tell(graph: Graph, schedule: Schedule, beside: int, in_place: list[Expr], owner: dict[int, Kernel]) -> None:
    stories: list[list[Expr]] = [[] for _ in schedule.buffers]
    for kernel in schedule.kernels:
        if kernel.buffer >= 0:
            stories[kernel.buffer].append(kernel.result)
    if schedule.arena < beside:
        graph.decide(
            Pack(),
            "packed",
            "{count:result} and scratch memory packed into {arena_bytes}; side by side they take {beside_bytes}, "
            "and {bound_bytes} are alive at the worst moment",
            {
                "count": sum([len(nodes) for nodes in stories]),
                "arena_bytes": schedule.arena,
                "beside_bytes": beside,
                "bound_bytes": schedule.bound,
            },
            [node for nodes in stories for node in nodes],
        )
    link, over = Reuse(), InPlace()
    for block, (size, nodes) in enumerate(zip(schedule.buffers, stories, strict=True)):
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
    """Bytes of the buffer that a result needs."""
    kind = node.type
    return sum([rounded(part.nbytes) for part in kind.parts]) if isinstance(kind, TupleType) else rounded(kind.nbytes)
