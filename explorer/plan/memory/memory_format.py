"""Layout: which results hold the channels of a pixel together in memory. What they are called stays (N, C, H, W)."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason, RuleInfo
from explorer.plan.schedule.blocked_kernel import Blocks
from explorer.plan.schedule.schedule import Kernel
from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL


@dataclass(frozen=True)
class MemoryFormat(Pass):
    """Lay images in memory as the kernels that make them run fastest; values stay what they are."""

    name = "memory_format"
    kind = "format"
    rule = RuleInfo(
        "ChannelsLast", "Images are stored pixel by pixel where that makes convolutions and poolings faster."
    )
    pixel_by_pixel = Reason(
        "channels_last",
        "{count:result is|results are} stored pixel by pixel, all channels of a pixel side by side, because a "
        "convolution or pooling then finds its window in a few contiguous stretches of memory.",
        meaning="An array of shape (N, C, H, W) keeps its shape; only its strides differ, as after "
        "np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2).",
        change='EvalPlan(without=["memory_format"]) stores all arrays in the order of their shape.',
    )
    asked_for = Reason(
        "asked_for",
        "`{operand}` is stored in the order of its shape (channel by channel), because it was asked for as a result; "
        "pixel by pixel it would be computed faster.",
        meaning="Results that are handed out are C-contiguous NumPy arrays. Others are stored as the operations that "
        "make and read them run fastest.",
        change="Do not ask for this value where only what is computed from it is needed.",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether an operation reads or makes images pixel by pixel."""
        return any(kernel.nodes[0].operation.channels_last for kernel in graph.scheduled.kernels)

    def run(self, graph: PlanGraph) -> None:
        """One walk in order; what is asked for is handed out row by row."""
        schedule = graph.scheduled
        roots = {root.uid for root in schedule.roots}
        last: set[int] = set()
        made: list[Expr] = []
        asked: list[Expr] = []
        for kernel in schedule.kernels:
            result = kernel.result
            if kernel.blocks is not None and kernel.blocks.tiling is not None:
                _follow(kernel, kernel.blocks, kernel.blocks.tiling.shape, last)
            if not (_of_images(result) and not kernel.constant and self._prefers(kernel, last)):
                continue
            if result.uid in roots:
                asked.append(result)
                continue
            kernel.channels_last = True
            last.add(result.uid)
            made.append(result)
        if made:
            graph.decide(
                self.rule,
                self.pixel_by_pixel,
                {"count": len(made)},
                made,
            )
        for node in asked:
            graph.decline(
                self.rule,
                self.asked_for,
                {"operand": node},
                node,
                estimated_cost_us=2 * node.type.nbytes / REFERENCE_COST_MODEL.bandwidth,
            )

    def _prefers(self, kernel: Kernel, last: set[int]) -> bool:
        first = kernel.nodes[0].operation
        if first.channels_last:
            return True
        return first.elementwise and any(
            read.uid in last and read.shape == kernel.result.shape for read in kernel.reads
        )


def _follow(kernel: Kernel, blocks: Blocks, shape: Shape, last: set[int]) -> None:
    """What is made for a reduction lies as what it is made of."""
    if len(shape) == 4 and any(read.uid in last and read.shape == shape for read in kernel.reads):
        kernel.blocks = blocks.laid(PIXEL_BY_PIXEL)
        kernel.workspace += kernel.blocks.workspace - blocks.workspace
        kernel.scratch = kernel.blocks.scratch


def _of_images(node: Expr) -> bool:
    type_ = node.type
    return (
        isinstance(type_, TensorType) and type_.rank == 4 and type_.size > 0 and type_.plain and not node.operation.view
    )
