"""Memory format: chooses the results in which the channels of a pixel are contiguous in memory.

Shapes stay (N, C, H, W). PyTorch calls this format channels_last. It is not visible to users: returned results are
row-major, and only internal strides differ. The format is chosen after ordering, for kernels instead of operations,
because a fused kernel reads and writes its images in one format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import TensorType
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason, RuleInfo
from explorer.plan.schedule.schedule import Kernel
from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL


@dataclass(frozen=True)
class MemoryFormat(Pass):
    """Choose the memory format of images with which kernels run fastest; values stay the same."""

    name = "memory_format"
    kind = "format"
    rule = RuleInfo("ChannelsLast", "Images are stored pixel by pixel if that makes convolutions and poolings faster.")
    pixel_by_pixel = Reason(
        "channels_last",
        "{count:result is|results are} stored pixel by pixel, with all channels of a pixel side by side, because a "
        "convolution or pooling then reads a few long ranges of memory instead of many short ones.",
        meaning="An array of shape (N, C, H, W) (images, channels, rows, columns) keeps its shape; only its strides "
        "differ, as after np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2).",
        change='ex.EvalPlan(without=["memory_format"]) stores all arrays in the order of their shape.',
        numerics="reordering",  # NumPy adds elements in memory order
    )
    asked_for = Reason(
        "asked_for",
        "`{operand}` is stored channel by channel (C order), because `{operand}` is a requested result. Computing "
        "`{operand}` pixel by pixel would be faster.",
        meaning="Requested results are C-contiguous NumPy arrays. Other results are stored in the order in which "
        "operations write and read them fastest.",
        change="Do not request this value if only results computed from it are needed.",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether an operation reads or writes images with channels last."""
        if not any(operation_class.channels_last for operation_class in graph.operation_classes):
            return False
        return any(kernel.nodes[0].operation.channels_last for kernel in graph.ordered.kernels)

    def run(self, graph: PlanGraph) -> None:
        """Process the kernels in order, and replace the kernels whose result has another format than before.

        A requested result stays row-major. Elementwise operations use the format of their operands, so the format is
        kept from one convolution to the next, and nothing is converted between them.
        """
        ordered = graph.ordered
        roots = {root.uid for root in ordered.roots}
        pixel_by_pixel: set[int] = set()
        reformatted: list[Expr] = []
        requested: list[Expr] = []
        kernels: list[Kernel] = []
        for kernel in ordered.kernels:
            result = kernel.result
            # A kernel may read images with channels last even if its own result has another format.
            kernels.append(_reading_pixels(kernel, pixel_by_pixel))
            if not (_is_image(result) and not kernel.constant and self._prefers(kernel, graph, pixel_by_pixel)):
                continue
            if result.uid in roots:
                requested.append(result)
                continue
            kernels[-1] = replace(kernels[-1], channels_last=True)
            pixel_by_pixel.add(result.uid)
            reformatted.append(result)
        graph.schedule = replace(ordered, kernels=tuple(kernels))
        if reformatted:
            graph.decide(self.rule, self.pixel_by_pixel, {"count": len(reformatted)}, reformatted)
        for node in requested:
            # The cost is the time of a conversion, in which the result is read once and written once.
            cost = 2 * node.type.nbytes / REFERENCE_COST_MODEL.bandwidth
            graph.decline(self.rule, self.asked_for, {"operand": node}, node, estimated_cost_us=cost)

    def _prefers(self, kernel: Kernel, graph: PlanGraph, pixel_by_pixel: set[int]) -> bool:
        """Return whether a kernel writes images faster with channels last.

        This is true of convolutions, and of other operations whose operands are images stored with channels last.
        """
        first = kernel.nodes[0].operation
        if first.channels_last:
            return True
        if first.follows_format:
            # A pooling takes four times as long if it converts between formats.
            return graph.operands(kernel.nodes[0])[-1].uid in pixel_by_pixel
        # Only operands that have the result's shape count; an operand that is broadcast, such as a bias, does not
        # determine the format.
        return first.elementwise and any(
            read.uid in pixel_by_pixel and read.shape == kernel.result.shape for read in kernel.reads
        )


def _reading_pixels(kernel: Kernel, pixel_by_pixel: set[int]) -> Kernel:
    """Return ``kernel``, with blocks in the memory order of its images if it is a fused reduction of images."""
    blocks = kernel.blocks
    if blocks is None or blocks.tiling is None:
        return kernel
    shape = blocks.tiling.shape
    if len(shape) != 4 or not any(read.uid in pixel_by_pixel and read.shape == shape for read in kernel.reads):
        return kernel
    reordered = blocks.laid(PIXEL_BY_PIXEL)
    workspace = kernel.cost.workspace + reordered.workspace - blocks.workspace
    return replace(kernel, blocks=reordered, cost=kernel.cost._replace(workspace=workspace, scratch=reordered.scratch))


def _is_image(node: Expr) -> bool:
    """Return whether the result is an array (N, C, H, W) that its kernel writes to its own memory."""
    type_ = node.type
    return (
        isinstance(type_, TensorType) and type_.rank == 4 and type_.size > 0 and type_.plain and not node.operation.view
    )
