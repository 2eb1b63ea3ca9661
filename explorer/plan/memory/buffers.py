"""Buffers: results and scratch memory share one arena, whose bytes are used again once nothing reads them.

The pass joins five steps of its room: reshapes that copy (copied_reshapes.py), live ranges and buffers by number
(buffer_assignment.py), the bytes alive at each kernel (live_bytes.py), offsets (offsets.py), and where blocks cost more
than they save (block_memory.py). The runtime
then allocates the arena in one piece (run/runtime/memory.py): allocating each result would cost a run as much as a
small kernel, and its peak would be known only afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, RuleInfo, shortened
from explorer.plan.memory.block_memory import record_blocks
from explorer.plan.memory.buffer_assignment import assign_buffers
from explorer.plan.memory.buffers_reasons import BuffersReasons
from explorer.plan.memory.copied_reshapes import with_copies
from explorer.plan.memory.live_bytes import live_bytes
from explorer.plan.memory.offsets import packed, side_by_side
from explorer.plan.schedule.schedule import Kernel, Placement, Schedule


@dataclass(frozen=True)
class Buffers(BuffersReasons, Pass):
    """Assign memory: results share space unless both are needed at one time; outputs have memory of their own.

    The arena is cpu's: a result on another device has memory of its own, which is freed when it is read last.
    """

    name = "buffers"
    reuse = RuleInfo("Reuse", "A buffer whose value is read for the last time takes the next result that fits.")
    over = RuleInfo("InPlace", "An elementwise result is written over an operand of its type that nothing else reads.")
    pack = RuleInfo("Pack", "Results are placed in one piece of memory, where separate buffers would take more.")
    view = RuleInfo("View", "A reshape shows its operand in another shape, without a copy, where strides allow one.")
    blocks = RuleInfo("BlockMemory", "Fused operations may need more working memory than the same operations apart.")
    kind = "memory"
    required = True

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)

    def run(self, graph: PlanGraph) -> None:
        """Assign buffers, lay them out where that takes least, and complete the schedule."""
        kernels = with_copies(graph.ordered.kernels, self.cost_model)
        ordered = replace(graph.ordered, kernels=kernels)
        # Views own nothing. Constants outlive the run, and updates are written over parameters: neither is in the
        # arena.
        number_of = {
            kernel.nodes[-1].uid: number
            for number, kernel in enumerate(kernels)
            if kernel.cost.bytes and not kernel.constant and kernel.nodes[-1].uid not in graph.updates
        }
        assignment = assign_buffers(ordered, number_of, graph.updates)
        most = live_bytes(ordered, number_of, assignment)
        scratch_bytes = sum(assignment.scratch_sizes)
        # What the arena takes if nothing is packed: the figure that packing has to beat.
        separate = sum(assignment.sizes) + scratch_bytes
        # Buffers that are all in use at the worst moment leave nothing to pack.
        layout = None if separate == most.most_in_arena else packed(ordered, assignment, separate)
        layout = layout or side_by_side(assignment)
        places = layout.buffers, layout.results, layout.scratch, assignment.reuses, assignment.frees, most.alive
        schedule = graph.schedule = Schedule(
            ordered.roots,
            ordered.leaves,
            kernels,
            ordered.picks,
            ordered.levels,
            ordered.chains,
            ordered.runs_until,
            placements=tuple(map(Placement, *places)),
            buffers=layout.sizes,
            arena=layout.arena,
            results=most.most_results,
            working=most.most_working,
            peak_lower_bound=most.most,
            peak_without_reuse=sum(assignment.needs.values()) + scratch_bytes + most.all_results + most.most_working,
        )
        self._record_copies(graph, kernels)
        self._record(graph, schedule, separate, most.most_in_arena)
        record_blocks(self.blocks, graph, schedule, number_of)

    def _record_copies(self, graph: PlanGraph, kernels: Sequence[Kernel]) -> None:
        """Enter which reshapes copy."""
        for kernel in kernels:
            if kernel.copies:
                facts = {"operand": kernel.reads[0], "size_bytes": kernel.cost.bytes}
                cost = kernel.cost.estimate - self.cost_model.view
                graph.decline(self.view, self.copied, facts, kernel.result, estimated_cost_us=cost)

    def _record(self, graph: PlanGraph, schedule: Schedule, separate: int, most_in_arena: int) -> None:
        """Enter the decisions: results packed, buffers used again, operands written over.

        ``separate`` are the bytes of buffers side by side, ``most_in_arena`` those alive in the arena at one moment.
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
                "live_bytes": most_in_arena,
                "beside_bytes": separate,
            }
            has_scratch = any(kernel.cost.scratch for kernel in schedule.kernels)
            graph.decide(self.pack, self.packed_with_scratch if has_scratch else self.packed, facts, results)
        for buffer, (size, nodes) in enumerate(zip(schedule.buffers, results_of, strict=True)):
            if len(nodes) > 1:
                facts = {"buffer": buffer, "size_bytes": size, "count": len(nodes)}
                graph.decide(self.reuse, self.reused, facts, nodes)
        if overwriting:
            over: Facts = {
                "count": len(overwriting),
                "written": shortened(overwriting),
                "operands": shortened(overwritten),
                "saved_bytes": saved_bytes,
            }
            graph.decide(self.over, self.in_place, over, overwriting)

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Return figures of memory, in bytes but for the number of buffers."""
        schedule = graph.scheduled
        return {
            # As graphs count it until here, and reshapes that copy.
            "bytes": sum([kernel.cost.bytes for kernel in schedule.kernels]),
            "buffers": len(schedule.buffers),
            "peak": schedule.peak,
            "peak_arena": schedule.arena,
            "peak_results": schedule.results,
            "peak_working": schedule.working,
            "peak_lower_bound": schedule.peak_lower_bound,
            "peak_without_reuse": schedule.peak_without_reuse,
        }
