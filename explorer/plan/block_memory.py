"""Working memory of fused kernels: whether running operations block by block takes more than running them apart."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.core.expr import Expr
from explorer.plan.graph import Graph, result_bytes
from explorer.plan.schedule import Kernel, Schedule


class BlockMemory:
    """Values inside a fused kernel live in blocks of working memory, which may take more than the values apart."""


_WORTH = 0.9
"""of what is alive at the worst moment, the part below which running operations apart is worth telling"""


def tell_blocks(graph: Graph, schedule: Schedule, owner: Mapping[int, Kernel]) -> None:
    """Tell where the worst moment is in fused kernels whose operations, one by one, would take less there."""
    worst = [kernel for kernel in schedule.kernels if kernel.live == schedule.bound]
    if not worst or any(len(kernel.nodes) < 2 or not kernel.workspace for kernel in worst):
        return
    apart = max([_one_by_one(kernel, graph, owner) for kernel in worst])
    if apart <= _WORTH * schedule.bound:
        graph.decide(
            BlockMemory(),
            "block_memory",
            "{alive_bytes} are alive at the worst moment, in the kernel of {result}, {working_bytes} of them as its "
            "working memory: its operations one after another would have at most {apart_bytes} alive there",
            {
                "alive_bytes": schedule.bound,
                "result": worst[0].result,
                "working_bytes": worst[0].workspace,
                "apart_bytes": apart,
            },
            [node for kernel in worst for node in kernel.nodes],
        )


def _one_by_one(kernel: Kernel, graph: Graph, owner: Mapping[int, Kernel]) -> int:
    """The most bytes alive if each operation of a kernel were a kernel: in place where it can be, operands freed."""
    last: dict[int, int] = {}
    for index, node in enumerate(kernel.nodes):
        last.update(dict.fromkeys([operand.uid for operand in graph.inputs[node.uid]], index))
    sizes = {node.uid: owner[node.uid].bytes for node in kernel.frees}
    own = kernel.bytes if kernel.reuses is None and kernel.result.uid in owner else 0
    alive = kernel.live - kernel.workspace - own
    most = 0
    for index, node in enumerate(kernel.nodes):
        operation = node.operation
        operands: list[Expr] = [*dict.fromkeys(graph.inputs[node.uid])]
        dying = [operand for operand in operands if last[operand.uid] == index and operand.uid in sizes]
        overwrites = operation.elementwise and operation.reuses_operand
        is_free = node is not kernel.result or kernel.buffer >= 0
        in_place = is_free and overwrites and any(operand.type is node.type for operand in dying)
        size = sizes[node.uid] = result_bytes(node)
        working = operation.workspace(*[operand.type for operand in graph.inputs[node.uid]])
        most = max(most, alive + working + (0 if in_place else size))
        alive += size - sum([sizes[operand.uid] for operand in dying])
    return most
