"""Working memory of fused kernels: whether running operations block by block takes more than running them apart.

Fusion usually saves memory, since results between operations are never written. Here is the exception: many blocks held
at once take more than the few whole results would. The pass only says so; kernels stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.core.ir.accumulation import workspace_of
from explorer.core.ir.expr import Expr
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.memory.buffers_reasons import BuffersReasons
from explorer.plan.schedule.schedule import Kernel, Placement, Schedule

_WORTH = 0.9
"""part of the bytes that are alive at the worst moment, below which running operations apart is worth a decision; a
saving of less than a tenth is within the effect of other shapes of blocks"""


def record_blocks(rule: RuleInfo, graph: PlanGraph, schedule: Schedule, number_of: Mapping[int, int]) -> None:
    """Enter a decision where the worst moment is in fused kernels whose operations, one by one, would take less.

    ``number_of`` has the results that own memory, by uid, with the numbers of their kernels.
    """
    bound = schedule.peak_lower_bound
    worst = [number for number, placement in enumerate(schedule.placements) if placement.live == bound]
    kernels = [schedule.kernels[number] for number in worst]
    # One moment that fusion does not cause is enough: running operations apart would not lower the peak.
    if not worst or any(len(kernel.nodes) < 2 or not kernel.cost.workspace for kernel in kernels):
        return
    known: dict[tuple[Any, ...], int] = {}
    for number in worst:
        case = _case(schedule.kernels[number], schedule.placements[number])
        if case not in known:
            known[case] = _one_by_one(number, graph, schedule, number_of)
            if known[case] > _WORTH * bound:
                return
    graph.decide(
        rule,
        BuffersReasons.block_memory,
        {
            "live_bytes": bound,
            "result": kernels[0].result,
            "working_bytes": kernels[0].cost.workspace,
            "apart_bytes": max(known.values()),
        },
        [node for kernel in kernels for node in kernel.nodes],
    )


def _case(kernel: Kernel, placement: Placement) -> tuple[Any, ...]:
    """Return everything that ``_one_by_one`` depends on, of fused kernels at which equally much is alive.

    Kernels of one pattern share one record of their cost.
    """
    freed = {node.uid for node in placement.frees}
    dying = tuple([read.uid in freed for read in kernel.reads])
    tiling = kernel.blocks.tiling if kernel.blocks is not None else None
    return id(kernel.cost), tiling, placement.buffer < 0, placement.reuses is None, dying


def _one_by_one(number: int, graph: PlanGraph, schedule: Schedule, number_of: Mapping[int, int]) -> int:
    """Return the most bytes alive if each operation of a kernel were a kernel, in place where it can be.

    Operations are visited from the last to the first, where an operand that was not met before is read for the last
    time; ``alive`` is counted from what is alive at the end.
    """
    kernel, placement = schedule.kernels[number], schedule.placements[number]
    inputs, result, cost = graph.inputs, kernel.result, kernel.cost
    has_temporaries = kernel.blocks is None or cost.workspace > kernel.blocks.workspace
    # Operands from outside count only if their memory is freed here; others live on, and are in `placement.live`.
    unmet = {node.uid: node.type.nbytes for node in kernel.nodes}
    for node in placement.frees:
        unmet[node.uid] = schedule.kernels[number_of[node.uid]].cost.bytes
    alive = most = 0
    # Backwards, since the last reader of an operand is then the first that is met: no table of last uses is needed.
    for node in reversed(kernel.nodes):
        type_, operands = node.type, inputs[node.uid]
        needed = size = type_.nbytes
        alive -= size
        for operand in operands:
            dying = unmet.pop(operand.uid, 0)
            if dying:
                alive += dying
                # Types are interned. A result that is handed out has memory of its own, and is not written over an
                # operand.
                if operand.type is type_ and (node is not result or placement.buffer >= 0) and _writes_over(node):
                    needed = 0
        if has_temporaries:
            needed += workspace_of(node.operation, *[operand.type for operand in operands])
        if alive + needed > most:
            most = alive + needed
    # The schedule counts the result and the working memory already: they are taken off, as is the end's count.
    own = cost.bytes if placement.reuses is None and result.uid in number_of else 0
    return most + placement.live - cost.workspace - own - alive


def _writes_over(node: Expr) -> bool:
    """Whether a node's result can be written over an operand of its type."""
    return node.operation.elementwise and node.operation.reuses_operand
