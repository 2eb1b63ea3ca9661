"""Buffers: results and scratch memory are placed in one arena, and memory is reused when its value is not read
again.

The pass finds the reshapes that copy (copied_reshapes.py), assigns buffers according to live ranges
(buffer_assignment.py), counts the live bytes at each kernel, and chooses offsets (arena.py). It also reports fused
kernels whose blocks need more memory than separate operations would. The runtime then allocates the arena at once
(run/runtime/memory.py). If each result were allocated separately, each allocation would take as long as a small kernel,
and the peak would not be known before the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from explorer.core.ir.accumulation import workspace_of
from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo, shortened
from explorer.plan.memory.arena import packed, side_by_side
from explorer.plan.memory.buffer_assignment import BufferAssignment, assign_buffers
from explorer.plan.memory.copied_reshapes import with_copies
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.schedule.schedule import Kernel, OrderedKernels, Placement, Schedule, align_up

_ARENA = "All results that are not requested share one block of memory, the arena, which is allocated before the run."


@dataclass(frozen=True)
class Buffers(Pass):
    """Assign memory: results that are not needed at the same time share memory; outputs have their own memory.

    The arena is in cpu memory. A result on another device has its own memory, which is freed after it is read for the
    last time.
    """

    packed = Reason(
        "packed",
        "{count:result is|results are} packed into {arena_bytes}, instead of the {beside_bytes} that separate buffers "
        "would take, because two results can use the same memory if they are not needed at the same time. The least "
        "possible is {live_bytes}.",
        meaning="All results that are not requested share one block of memory, the arena, which is allocated before "
        "the run. The least possible is the amount in use (live) at the moment when most is in use.",
    )
    packed_with_scratch = Reason(
        "packed",
        "{count:result|results} and the working memory of the kernels are packed into {arena_bytes}, instead of the "
        "{beside_bytes} that separate buffers would take, because buffers that are not needed at the same time can use "
        "the same memory. The least possible is {live_bytes}.",
        meaning="All results that are not requested share one block of memory, the arena, which is allocated before "
        "the run. A kernel is one operation, or several fused ones; it uses working memory while it runs. The least "
        "possible is the amount in use (live) at the moment when most is in use.",
    )
    reused = Reason(
        "reused",
        "Buffer {buffer} ({size_bytes}) holds {count:result} in turn, because each is read for the last time before "
        "the next is written.",
        meaning=f"{_ARENA} A buffer is a part of the arena.",
        change="Run more kernels at a time, ex.EvalPlan(lanes=…): results are then kept longer, and fewer buffers are "
        "reused.",
    )
    in_place = Reason(
        "in_place",
        "{count:result is written over its operand|results are written over their operands} ({written} over "
        "{operands}), instead of into new memory, because nothing reads the operand afterwards. This saves "
        "{saved_bytes}.",
        meaning="NumPy's out= does the same: np.add(x, y, out=x).",
        change="Read or request the operand later: it is then not overwritten.",
    )
    copied = Reason(
        "copied",
        "The result of `{operand}` ({size_bytes}) is copied for a reshape, because its elements are not stored in the "
        "order in which reshape reads them, so the new shape cannot be a view of them.",
        meaning="NumPy does the same: np.arange(6).reshape(2, 3).T.reshape(6) copies, because no single stride leads "
        "from each element to the next. Without the transpose, nothing is copied: a view is the same memory with "
        "another shape.",
        change="Reshape before moving axes or slicing, if the program allows it.",
    )
    block_memory = Reason(
        "block_memory",
        "Memory use is highest, {live_bytes}, while the fused operations that end with `{result}` run, because their "
        "blocks take {working_bytes}. As separate operations, they would need at most {apart_bytes}.",
        meaning="Fused operations run as one loop over small blocks of arrays, and keep a block of each intermediate "
        "result for every thread. For small arrays, these blocks may take more memory than the arrays themselves.",
        change='ex.EvalPlan(without=["fuse"]) runs the operations separately, which takes longer.',
    )

    name = "buffers"
    reuse = RuleInfo(
        "Reuse", "A buffer is reused for the next result that fits after its value has been read for the last time."
    )
    over = RuleInfo("InPlace", "An elementwise result overwrites an operand of the same type that nothing else reads.")
    pack = RuleInfo("Pack", "Results are packed into one allocation if separate buffers would take more memory.")
    view = RuleInfo("View", "A reshape is a view of its operand, without a copy, if strides allow it.")
    blocks = RuleInfo(
        "BlockMemory", "Fused operations may need more working memory than the same operations run separately."
    )
    kind = "memory"
    required = True

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)

    def run(self, graph: PlanGraph) -> None:
        """Assign buffers, choose the smaller layout, and complete the schedule."""
        ordered, updates = graph.ordered, graph.notes(Updates).parameters
        kernels = with_copies(ordered.kernels, self.cost_model)
        if kernels != ordered.kernels:
            ordered = replace(ordered, kernels=kernels)
        # Views own no memory, constants are kept after the run, and updates overwrite parameters, so none of these is
        # in the arena.
        kernel_of = {
            kernel.nodes[-1].uid: index
            for index, kernel in enumerate(kernels)
            if kernel.cost.bytes and not kernel.constant and kernel.nodes[-1].uid not in updates
        }
        assignment = assign_buffers(ordered, kernel_of, updates)
        usage = live_bytes(ordered, kernel_of, assignment)
        scratch_bytes = sum(assignment.scratch_sizes)
        # Size of the arena without packing. Packing is used only if it needs less.
        separate = sum(assignment.sizes) + scratch_bytes
        # If all buffers are in use at the peak, packing cannot help.
        layout = None if separate == usage.peak_in_arena else packed(ordered, assignment, separate)
        layout = layout or side_by_side(assignment)
        columns = layout.buffers, layout.results, layout.scratch, assignment.reuses, assignment.frees, usage.alive
        schedule = graph.schedule = Schedule(
            ordered.roots,
            ordered.leaves,
            kernels,
            ordered.picks,
            ordered.levels,
            ordered.chains,
            ordered.runs_until,
            placements=tuple(map(Placement, *columns)),
            buffers=layout.sizes,
            arena=layout.arena,
            results=usage.peak_results,
            working=usage.peak_working,
            peak_lower_bound=usage.most,
            peak_without_reuse=sum(assignment.needs.values()) + scratch_bytes + usage.all_results + usage.peak_working,
        )
        self._record_copies(graph, kernels)
        self._record(graph, schedule, separate, usage.peak_in_arena)
        record_blocks(self.blocks, graph, schedule, kernel_of)

    def _record_copies(self, graph: PlanGraph, kernels: Sequence[Kernel]) -> None:
        for kernel in kernels:
            if kernel.copies:
                facts = {"operand": kernel.reads[0], "size_bytes": kernel.cost.bytes}
                cost = kernel.cost.estimate - self.cost_model.view
                graph.decline(self.view, self.copied, facts, kernel.result, estimated_cost_us=cost)

    def _record(self, graph: PlanGraph, schedule: Schedule, separate: int, peak_in_arena: int) -> None:
        """Record the decisions: packed results, reused buffers, overwritten operands.

        ``separate`` is the size in bytes of buffers side by side. ``peak_in_arena`` is the maximum number of live bytes
        in the arena.
        """
        results_of: list[list[Expr]] = [[] for _ in schedule.buffers]
        overwriting: list[Expr] = []
        overwritten: list[Expr] = []
        saved_bytes = 0
        for kernel, placement in zip(schedule.kernels, schedule.placements, strict=True):
            if placement.buffer >= 0:
                results_of[placement.buffer].append(kernel.result)
            if placement.reuses is not None and placement.buffer >= 0:
                overwriting.append(kernel.result)
                overwritten.append(placement.reuses)
                saved_bytes += kernel.cost.bytes
        if schedule.arena < separate:
            results = [node for nodes in results_of for node in nodes]
            facts = {
                "count": len(results),
                "arena_bytes": schedule.arena,
                "live_bytes": peak_in_arena,
                "beside_bytes": separate,
            }
            has_scratch = any(kernel.cost.scratch for kernel in schedule.kernels)
            graph.decide(self.pack, self.packed_with_scratch if has_scratch else self.packed, facts, results)
        for buffer, (size, nodes) in enumerate(zip(schedule.buffers, results_of, strict=True)):
            if len(nodes) > 1:
                facts = {"buffer": buffer, "size_bytes": size, "count": len(nodes)}
                graph.decide(self.reuse, self.reused, facts, nodes)
        if overwriting:
            overwrite_facts: Facts = {
                "count": len(overwriting),
                "written": shortened(overwriting),
                "operands": shortened(overwritten),
                "saved_bytes": saved_bytes,
            }
            graph.decide(self.over, self.in_place, overwrite_facts, overwriting)

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Return memory statistics; all are in bytes except the number of buffers."""
        schedule = graph.scheduled
        return {
            # Bytes of all results, including the results of reshapes that copy.
            "bytes": sum([kernel.cost.bytes for kernel in schedule.kernels]),
            "buffers": len(schedule.buffers),
            "peak": schedule.peak,
            "peak_arena": schedule.arena,
            "peak_results": schedule.results,
            "peak_working": schedule.working,
            "peak_lower_bound": schedule.peak_lower_bound,
            "peak_without_reuse": schedule.peak_without_reuse,
        }


class LiveBytes(NamedTuple):
    """Live bytes at each kernel of a run, and the peak for each kind of memory."""

    alive: list[int]
    """live bytes at each kernel: results and working memory, in any location"""
    most: int
    """maximum of ``alive``"""
    peak_in_arena: int
    """peak of results and scratch memory in the arena, with aligned sizes"""
    peak_results: int
    """peak of results that have their own memory"""
    peak_working: int
    """peak of working memory without scratch memory"""
    all_results: int
    """sum of the results that have their own memory, as if none of them were freed"""


def live_bytes(ordered: OrderedKernels, kernel_of: Mapping[int, int], assignment: BufferAssignment) -> LiveBytes:
    """Return the live bytes at each kernel.

    ``kernel_of`` contains the results that own memory, as in `assign_buffers`.
    """
    kernels, buffers, needs = ordered.kernels, assignment.buffers, assignment.needs
    live_at: list[int] = []
    live = in_arena = own_results = all_results = working = 0
    peak = peak_in_arena = peak_results = peak_working = 0
    ending: dict[int, list[Kernel]] = {}
    """kernel index → kernels with working memory that end before the next kernel begins"""
    for index, kernel in enumerate(kernels):
        uid, cost, reuses = kernel.nodes[-1].uid, kernel.cost, assignment.reuses[index]
        # A result that overwrites an operand needs no additional memory.
        if reuses is None and uid in kernel_of:
            live += cost.bytes
            if buffers[index] >= 0:
                in_arena += needs[uid]
            else:
                own_results += cost.bytes
                all_results += cost.bytes
        if cost.workspace or cost.scratch:
            # If kernels run concurrently, the working memory of this kernel counts for all kernels that begin before it
            # ends.
            ending.setdefault(ordered.runs_until[index], []).append(kernel)
            live += cost.workspace
            in_arena += align_up(cost.scratch)
            working += cost.workspace - cost.scratch
        # Count before anything is freed, because operands are live while the kernel reads them.
        live_at.append(live)
        peak, peak_in_arena = max(peak, live), max(peak_in_arena, in_arena)
        peak_results, peak_working = max(peak_results, own_results), max(peak_working, working)
        for ended_kernel in ending.pop(index, ()):
            live -= ended_kernel.cost.workspace
            in_arena -= align_up(ended_kernel.cost.scratch)
            working -= ended_kernel.cost.workspace - ended_kernel.cost.scratch
        for node in assignment.frees[index]:
            if node is not reuses:
                kernel_index = kernel_of[node.uid]
                live -= kernels[kernel_index].cost.bytes
                if buffers[kernel_index] >= 0:
                    in_arena -= needs[node.uid]
                else:
                    own_results -= kernels[kernel_index].cost.bytes
    return LiveBytes(live_at, peak, peak_in_arena, peak_results, peak_working, all_results)


_WORTH = 0.9
"""maximum ratio of the peak with separate operations to the peak with fused kernels for which a decision is recorded; a
smaller saving could be an effect of different block shapes"""


def record_blocks(rule: RuleInfo, graph: PlanGraph, schedule: Schedule, kernel_of: Mapping[int, int]) -> None:
    """Record a decision if separate operations would lower the peak of fused kernels.

    ``kernel_of`` maps the uids of results that own memory to the indices of their kernels.
    """
    bound = schedule.peak_lower_bound
    peak_kernels = [index for index, placement in enumerate(schedule.placements) if placement.live == bound]
    kernels = [schedule.kernels[index] for index in peak_kernels]
    # If one of the kernels at the peak is not fused, running operations separately would not lower the peak.
    if not peak_kernels or any(len(kernel.nodes) < 2 or not kernel.cost.workspace for kernel in kernels):
        return
    separate_peaks: dict[tuple[Any, ...], int] = {}
    for index in peak_kernels:
        key = _peak_key(schedule.kernels[index], schedule.placements[index])
        if key not in separate_peaks:
            separate_peaks[key] = _separate_peak(index, graph, schedule, kernel_of)
            if separate_peaks[key] > _WORTH * bound:
                return
    graph.decide(
        rule,
        Buffers.block_memory,
        {
            "live_bytes": bound,
            "result": kernels[0].result,
            "working_bytes": kernels[0].cost.workspace,
            "apart_bytes": max(separate_peaks.values()),
        },
        [node for kernel in kernels for node in kernel.nodes],
    )


def _peak_key(kernel: Kernel, placement: Placement) -> tuple[Any, ...]:
    """Return a key that determines the result of ``_separate_peak`` for kernels with equally many live bytes.

    Kernels with the same pattern have the same cost object.
    """
    freed = {node.uid for node in placement.frees}
    dying = tuple([read.uid in freed for read in kernel.reads])
    tiling = kernel.blocks.tiling if kernel.blocks is not None else None
    return id(kernel.cost), tiling, placement.buffer < 0, placement.reuses is None, dying


def _separate_peak(index: int, graph: PlanGraph, schedule: Schedule, kernel_of: Mapping[int, int]) -> int:
    """Return the maximum of live bytes if each operation of a kernel were a separate kernel.

    Separate kernels work in place if possible. Operations are visited from last to first, so an operand is first
    encountered where it is read for the last time. ``live`` is counted backwards from the live bytes at the end.
    """
    kernel, placement = schedule.kernels[index], schedule.placements[index]
    inputs, result, cost = graph.inputs, kernel.result, kernel.cost
    has_temporaries = kernel.blocks is None or cost.workspace > kernel.blocks.workspace
    # Operands from outside count only if their memory is freed here. The others stay live, and `placement.live`
    # includes them.
    unread_bytes = {node.uid: node.type.nbytes for node in kernel.nodes}
    for node in placement.frees:
        unread_bytes[node.uid] = schedule.kernels[kernel_of[node.uid]].cost.bytes
    live = peak = 0
    # In reverse order, the last reader of an operand is encountered first, so no table of last uses is needed.
    for node in reversed(kernel.nodes):
        type_, operands = node.type, inputs[node.uid]
        required = size = type_.nbytes
        live -= size
        for operand in operands:
            dying = unread_bytes.pop(operand.uid, 0)
            if dying:
                live += dying
                # Equal types are the same object. A result that is returned has its own memory and overwrites no
                # operand.
                if operand.type is type_ and (node is not result or placement.buffer >= 0) and _writes_over(node):
                    required = 0
        if has_temporaries:
            required += workspace_of(node.operation, *[operand.type for operand in operands])
        if live + required > peak:
            peak = live + required
    # `placement.live` already includes the result and the working memory of the fused kernel, so subtract them, and
    # also subtract ``live``.
    result_bytes = cost.bytes if placement.reuses is None and result.uid in kernel_of else 0
    return peak + placement.live - cost.workspace - result_bytes - live


def _writes_over(node: Expr) -> bool:
    """Return whether the result of ``node`` can overwrite an operand of its type."""
    return node.operation.elementwise and node.operation.reuses_operand
