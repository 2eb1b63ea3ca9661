"""Working memory of fused kernels: whether running operations block by block takes more than running them apart."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.plan.graph.cost_model import result_bytes
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.memory.reasons import BuffersReasons
from explorer.plan.schedule.schedule import Schedule

_WORTH = 0.9
"""of what is alive at the worst moment, the part below which running operations apart is worth a decision: less than a
tenth is within what other shapes of blocks would change"""


def record_blocks(rule: RuleInfo, graph: PlanGraph, schedule: Schedule, number_of: Mapping[int, int]) -> None:
    """Enter a decision where the worst moment is in fused kernels whose operations, one by one, would take less.

    ``number_of`` has the results that own memory, by uid, with the numbers of their kernels.
    """
    bound = schedule.peak_lower_bound
    worst = [number for number, placement in enumerate(schedule.placements) if placement.live == bound]
    kernels = [schedule.kernels[number] for number in worst]
    if not worst or any(len(kernel.nodes) < 2 or not kernel.cost.workspace for kernel in kernels):
        return
    apart = max([_one_by_one(number, graph, schedule, number_of) for number in worst])
    if apart <= _WORTH * bound:
        graph.decide(
            rule,
            BuffersReasons.block_memory,
            {
                "alive_bytes": bound,
                "result": kernels[0].result,
                "working_bytes": kernels[0].cost.workspace,
                "apart_bytes": apart,
            },
            [node for kernel in kernels for node in kernel.nodes],
        )


def _one_by_one(number: int, graph: PlanGraph, schedule: Schedule, number_of: Mapping[int, int]) -> int:
    """Return the most bytes alive if each operation of a kernel were a kernel, in place where it can be.

    Operations are visited from the last to the first, where an operand that was not met before is read for the last
    time; ``alive`` is counted from what is alive at the end.
    """
    kernel, placement = schedule.kernels[number], schedule.placements[number]
    inputs, result, cost = graph.inputs, kernel.result, kernel.cost
    sizes = {node.uid: result_bytes(node) for node in kernel.nodes}
    sizes |= {node.uid: schedule.kernels[number_of[node.uid]].cost.bytes for node in placement.frees}
    has_temporaries = kernel.blocks is None or cost.workspace > kernel.blocks.workspace
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
            needed = size if node is result and placement.buffer < 0 else 0
        else:
            needed = size
        if has_temporaries:
            needed += node.operation.workspace(*[operand.type for operand in operands])
        if alive + needed > most:
            most = alive + needed
    own = cost.bytes if placement.reuses is None and result.uid in number_of else 0
    return most + placement.live - cost.workspace - own - alive
