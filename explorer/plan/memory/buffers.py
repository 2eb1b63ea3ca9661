"""Buffers: results and scratch memory share one arena, whose bytes are used again as soon as nobody reads them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.types.device import cpu
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.memory.arena import Span, pack
from explorer.plan.memory.block_memory import record_blocks
from explorer.plan.memory.reasons import BuffersReasons
from explorer.plan.schedule.schedule import Kernel, Schedule, align_up, aligned_size

_MEETINGS = 200_000
"""pairs of results alive at one moment, beside eight a kernel, up to which results are packed"""


@dataclass(frozen=True)
class Buffers(BuffersReasons, Pass):
    """Place results in an arena by their live ranges; roots and closed calls have memory of their own, views none.

    The arena is cpu's: a result on another device has memory of its own, which is given back when it is read last.
    """

    name = "buffers"
    reuse = RuleInfo("Reuse", "A buffer whose value is read for the last time takes the next result that fits.")
    over = RuleInfo("InPlace", "An elementwise result is written over an operand of its type that nothing else reads.")
    pack = RuleInfo("Pack", "Results are placed in one piece of memory, where separate buffers would take more.")
    blocks = RuleInfo("BlockMemory", "Fused operations may need more working memory than the same operations apart.")
    kind = "memory"
    required = True

    def run(self, graph: PlanGraph) -> None:
        """In order, the smallest free buffer that fits, else a new one; packed by offsets where that takes less."""
        schedule = graph.scheduled
        owner = {kernel.result.uid: kernel for kernel in schedule.kernels if kernel.bytes and not kernel.constant}
        sizes, needs = _assign(schedule, owner)
        scratches = _assign_scratch(schedule)
        most = _measure(schedule, owner, needs)
        scratch = sum(scratches)
        beside = sum(sizes) + scratch
        if beside == most.held or not _pack(schedule, needs, beside):
            _lay_side_by_side(schedule, sizes, scratches)
        schedule.results, schedule.working = most.results, most.working
        schedule.peak_without_reuse = sum(needs.values()) + scratch + most.handed + most.working
        self._record(graph, schedule, beside, most.held, owner)
        record_blocks(self.blocks, graph, schedule, owner)

    def _record(
        self, graph: PlanGraph, schedule: Schedule, beside: int, held: int, owner: Mapping[int, Kernel]
    ) -> None:
        stories: list[list[Expr]] = [[] for _ in schedule.buffers]
        for kernel in schedule.kernels:
            if kernel.buffer >= 0:
                stories[kernel.buffer].append(kernel.result)
        if schedule.arena < beside:
            results = [node for nodes in stories for node in nodes]
            facts = {"count": len(results), "arena_bytes": schedule.arena, "alive_bytes": held, "beside_bytes": beside}
            has_scratch = any(kernel.scratch for kernel in schedule.kernels)
            graph.decide(self.pack, self.packed_with_scratch if has_scratch else self.packed, facts, results)
        for buffer, (size, nodes) in enumerate(zip(schedule.buffers, stories, strict=True)):
            if len(nodes) > 1:
                facts = {"buffer": buffer, "size_bytes": size, "count": len(nodes)}
                graph.decide(self.reuse, self.reused, facts, nodes)
        in_place = [kernel.result for kernel in schedule.kernels if kernel.reuses is not None]
        if in_place:
            facts = {"count": len(in_place), "saved_bytes": sum([owner[node.uid].bytes for node in in_place])}
            graph.decide(self.over, self.in_place, facts, in_place)

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Figures of memory, in bytes but for the number of buffers."""
        schedule = graph.scheduled
        return {
            "buffers": len(schedule.buffers),
            "peak": schedule.peak,
            "peak_arena": schedule.arena,
            "peak_results": schedule.results,
            "peak_working": schedule.working,
            "peak_lower_bound": schedule.peak_lower_bound,
            "peak_without_reuse": schedule.peak_without_reuse,
        }


def _assign(schedule: Schedule, owner: Mapping[int, Kernel]) -> tuple[list[int], dict[int, int]]:
    """Note what each kernel frees, the operand it overwrites, and its buffer.

    Returns the size of each buffer, and by uid what a result needs of its own.
    """
    base, ends, kept = _live_ranges(schedule)
    ending: dict[int, list[tuple[Expr, _End]]] = {}
    for uid, end in ends.items():
        if uid in owner and uid not in kept:
            ending.setdefault(end.reader, []).append((owner[uid].result, end))
    dying: dict[int, list[Expr]] = {}
    sizes: list[int] = []
    needs: dict[int, int] = {}
    free: list[tuple[int, int]] = []
    freed: dict[int, int] = {}
    """chain → the buffer that it freed last: where several chains run at a time, taking it waits for no other"""
    lanes = any(kernel.runs_until > index for index, kernel in enumerate(schedule.kernels))
    for index, kernel in enumerate(schedule.kernels):
        result, last = kernel.result, ending.get(index, ())
        operand = None
        if result.uid in owner and result.uid not in kept:
            operand = _in_place(kernel, [read for read, end in last if end.before < index], base, owner)
            if operand is not None:
                kernel.reuses = operand
                kernel.buffer = owner[operand.uid].buffer
                needs[result.uid] = needs[operand.uid]
            elif not isinstance(result.operation, Call) and result.type.device is cpu:
                size = needs[result.uid] = aligned_size(result.type)
                kernel.buffer = _take(size, sizes, free, freed.get(kernel.chain, -1))
        for read, end in last:
            dying.setdefault(index if read is operand else end.dead, []).append(read)
        if result.uid in owner and result.uid not in kept and result.uid not in ends:
            dying.setdefault(kernel.runs_until, []).append(result)
        kernel.frees = dying.pop(index, [])
        for node in kernel.frees:
            buffer = owner[node.uid].buffer
            if node is not kernel.reuses and buffer >= 0:
                bisect.insort(free, (sizes[buffer], buffer))
                if lanes and node.uid in ends:
                    freed[schedule.kernels[ends[node.uid].reader].chain] = buffer
    return sizes, needs


def _assign_scratch(schedule: Schedule) -> list[int]:
    """Give kernels that run at one time different places for scratch memory, by number; returns their sizes."""
    sizes: list[int] = []
    until: list[int] = []
    for index, kernel in enumerate(schedule.kernels):
        if kernel.scratch:
            place = next((place for place, end in enumerate(until) if end < index), len(sizes))
            if place == len(sizes):
                sizes.append(0)
                until.append(0)
            sizes[place], until[place] = max(sizes[place], align_up(kernel.scratch)), kernel.runs_until
            kernel.scratch_place = place
    return sizes


class _Most(NamedTuple):
    """The most bytes that are alive at one moment, by where they lie."""

    held: int
    """results and scratch memory in the arena"""
    results: int
    """results with memory of their own"""
    working: int
    """working memory, scratch memory excluded"""
    handed: int
    """results with memory of their own, if none of them were freed"""


def _measure(schedule: Schedule, owner: Mapping[int, Kernel], needs: Mapping[int, int]) -> _Most:
    """Note the bytes alive at each kernel and their bound."""
    live = held = own = handed = working = 0
    most = most_held = most_own = most_working = 0
    ending: dict[int, list[Kernel]] = {}
    """kernels with working memory, by the last kernel that begins before they end"""
    for index, kernel in enumerate(schedule.kernels):
        uid = kernel.result.uid
        if kernel.reuses is None and uid in owner:
            live += kernel.bytes
            if kernel.buffer >= 0:
                held += needs[uid]
            else:
                own += kernel.bytes
                handed += kernel.bytes
        if kernel.workspace or kernel.scratch:
            ending.setdefault(kernel.runs_until, []).append(kernel)
            live += kernel.workspace
            held += align_up(kernel.scratch)
            working += kernel.workspace - kernel.scratch
        kernel.live = live
        most, most_held = max(most, live), max(most_held, held)
        most_own, most_working = max(most_own, own), max(most_working, working)
        for ended in ending.pop(index, ()):
            live -= ended.workspace
            held -= align_up(ended.scratch)
            working -= ended.workspace - ended.scratch
        for node in kernel.frees:
            if node is not kernel.reuses:
                freed = owner[node.uid]
                live -= freed.bytes
                if freed.buffer >= 0:
                    held -= needs[node.uid]
                else:
                    own -= freed.bytes
    schedule.peak_lower_bound = most
    return _Most(most_held, most_own, most_working, handed)


class _End(NamedTuple):
    """How memory dies, as numbers of kernels."""

    reader: int
    """the last that reads it"""
    dead: int
    """the last that begins before all that read it have ended"""
    before: int
    """the last that begins before all that read it, but for ``reader``, have ended; −1 where nobody else reads it"""


def _live_ranges(schedule: Schedule) -> tuple[dict[int, Expr], dict[int, _End], set[int]]:
    """By uid: whose memory a value lies in, and how that dies; the memory that is handed to the user."""
    base: dict[int, Expr] = {}
    ends: dict[int, _End] = {}
    for index, kernel in enumerate(schedule.kernels):
        result = kernel.result
        base[result.uid] = (
            base.get(kernel.reads[0].uid, kernel.reads[0]) if result.operation.view and kernel.reads else result
        )
        for read in kernel.reads:
            uid = base.get(read.uid, read).uid
            end = ends.get(uid)
            if end is None:
                ends[uid] = _End(index, kernel.runs_until, -1)
            else:
                before = end.before if end.reader == index else end.dead
                ends[uid] = _End(index, max(end.dead, kernel.runs_until), before)
    return base, ends, {base[root.uid].uid for root in schedule.roots if root.uid in base}


def _in_place(
    kernel: Kernel, dying: Sequence[Expr], base: Mapping[int, Expr], owner: Mapping[int, Kernel]
) -> Expr | None:
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


def _take(size: int, sizes: list[int], free: list[tuple[int, int]], preferred: int) -> int:
    """The smallest free buffer that fits, of equal ones the ``preferred``; or a new one."""
    at = bisect.bisect_left(free, (size, -1))
    if at < len(free):
        if preferred >= 0 and sizes[preferred] == free[at][0]:
            place = bisect.bisect_left(free, (sizes[preferred], preferred))
            if place < len(free) and free[place][1] == preferred:
                at = place
        return free.pop(at)[1]
    sizes.append(size)
    return len(sizes) - 1


def _lay_side_by_side(schedule: Schedule, sizes: Sequence[int], scratches: Sequence[int]) -> None:
    """Buffers one after the other, the scratch memory behind them."""
    starts = [0, *itertools.accumulate([*sizes, *scratches])]
    for kernel in schedule.kernels:
        if kernel.buffer >= 0:
            kernel.offset = starts[kernel.buffer]
        if kernel.scratch:
            kernel.scratch_offset = starts[len(sizes) + kernel.scratch_place]
    schedule.buffers, schedule.arena = tuple(sizes), starts[-1]


def _pack(schedule: Schedule, needs: Mapping[int, int], below: int) -> bool:
    """Lay results and scratch memory where they fit; False where that takes ``below`` bytes or more, or too long."""
    spans: list[list[int]] = []
    users: list[tuple[Kernel, int]] = []  # a kernel and the span of its result
    scratches: list[tuple[Kernel, int]] = []
    span_of: dict[int, int] = {}
    for index, kernel in enumerate(schedule.kernels):
        if kernel.buffer >= 0:
            if kernel.reuses is None:
                place = len(spans)
                spans.append([needs[kernel.result.uid], index, index])
            else:
                place = span_of[kernel.reuses.uid]
            span_of[kernel.result.uid] = place
            users.append((kernel, place))
        if kernel.scratch:
            scratches.append((kernel, len(spans)))
            spans.append([align_up(kernel.scratch), index, kernel.runs_until])
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
