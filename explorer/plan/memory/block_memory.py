"""Working memory of fused kernels: whether running operations block by block takes more than running them apart."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.plan.graph.plan_graph import PlanGraph, result_bytes
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.memory.reasons import BuffersReasons
from explorer.plan.schedule.schedule import Kernel, Schedule

_WORTH = 0.9
"""of what is alive at the worst moment, the part below which running operations apart is worth telling"""


def record_blocks(rule: RuleInfo, graph: PlanGraph, schedule: Schedule, owner: Mapping[int, Kernel]) -> None:
    """Tell where the worst moment is in fused kernels whose operations, one by one, would take less there."""
    worst = [kernel for kernel in schedule.kernels if kernel.live == schedule.peak_lower_bound]
    if not worst or any(len(kernel.nodes) < 2 or not kernel.workspace for kernel in worst):
        return
    apart = max([_one_by_one(kernel, graph, owner) for kernel in worst])
    if apart <= _WORTH * schedule.peak_lower_bound:
        graph.decide(
            rule,
            BuffersReasons.block_memory,
            {
                "alive_bytes": schedule.peak_lower_bound,
                "result": worst[0].result,
                "working_bytes": worst[0].workspace,
                "apart_bytes": apart,
            },
            [node for kernel in worst for node in kernel.nodes],
        )


def _one_by_one(kernel: Kernel, graph: PlanGraph, owner: Mapping[int, Kernel]) -> int:
    """The most bytes alive if each operation of a kernel were a kernel: in place where it can be, operands freed.

    Operations are visited from the last to the first, where an operand that was not met before is read for the last
    time; ``alive`` is counted from what is alive at the end.
    """
    inputs, result = graph.inputs, kernel.result
    sizes = {node.uid: result_bytes(node) for node in kernel.nodes}
    sizes |= {node.uid: owner[node.uid].bytes for node in kernel.frees}
    has_temporaries = kernel.blocks is None or kernel.workspace > kernel.blocks.workspace
    unmet = {**sizes}
    alive = most = 0
    for node in reversed(kernel.nodes):
        type_, operands = node.type, inputs[node.uid]
        dying, in_place = 0, False
        for operand in operands:
            if operand.uid in unmet:
                dying += unmet.pop(operand.uid)
                if operand.type is type_:
                    in_place = True
        size = sizes[node.uid]
        alive += dying - size
        if in_place and node.operation.elementwise and node.operation.reuses_operand:
            needed = size if node is result and kernel.buffer < 0 else 0
        else:
            needed = size
        if has_temporaries:
            needed += node.operation.workspace(*[operand.type for operand in operands])
        if alive + needed > most:
            most = alive + needed
    own = kernel.bytes if kernel.reuses is None and result.uid in owner else 0
    return most + kernel.live - kernel.workspace - own - alive
