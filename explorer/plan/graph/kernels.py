"""Kernels: what runs as one step, what it reads, and what it takes; kernels of one pattern are priced once."""

from __future__ import annotations

from typing import Any, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.plan.graph.cost_model import PRODUCTS, CostModel, kernel_cost
from explorer.plan.graph.plan_graph import PlanGraph, flops_of
from explorer.plan.schedule.blocked_kernel import Blocks, blocks_of
from explorer.plan.schedule.schedule import Kernel


class _Common(NamedTuple):
    """What kernels of one pattern, equal operations on equal types read from equal places, have in common."""

    flops: int
    bytes: int
    estimate: float
    workspace: int
    blocks: Blocks | None


def kernels_of(graph: PlanGraph, cost_model: CostModel) -> tuple[list[Expr], list[Kernel], dict[int, int]]:
    """The leaves of a graph, its kernels with their operands first, and by uid of a result the kernel's number."""
    fused: dict[int, list[Expr]] = {}
    inner: set[int] = set()
    for group in graph.groups:
        if group.kind == "kernel":
            fused[group.members[-1].uid] = group.members
            inner.update([node.uid for node in group.members[:-1]])
    leaves: list[Expr] = []
    kernels: list[Kernel] = []
    kernel_of: dict[int, int] = {}
    there, inputs, prepared = graph.available_before_run(), graph.inputs, graph.prepared
    known: dict[tuple[Any, ...], _Common] = {}
    for node in graph.live:
        uid = node.uid
        if uid in inner:
            continue
        operands = inputs[uid]
        if uid in there or (not operands and node.operation.view):
            leaves.append(node)
            continue
        members = fused.get(uid)
        if members is not None:
            kernel = _fused(members, graph, cost_model, known)
        else:
            kernel = Kernel((node,), operands if len(operands) < 2 else tuple(dict.fromkeys(operands)))
            if node.operation.view and operands:
                kernel.estimate = cost_model.view
            else:
                key = (node.operation, *[operand.type for operand in operands])
                common = known.get(key)
                if common is None:
                    common = known[key] = _of_one(node, operands, cost_model)
                kernel.flops, kernel.bytes, kernel.estimate, kernel.workspace, _ = common
        kernel.constant = uid in prepared
        kernel_of[uid] = len(kernels)
        kernels.append(kernel)
    return leaves, kernels, kernel_of


def _of_one(node: Expr, operands: tuple[Expr, ...], cost_model: CostModel) -> _Common:
    size = 0 if node.operation.view else node.type.nbytes
    estimate = kernel_cost(node, operands, cost_model)
    return _Common(flops_of(node, operands), size, estimate, _workspace(node, operands), None)


def _fused(
    members: list[Expr], graph: PlanGraph, cost_model: CostModel, known: dict[tuple[Any, ...], _Common]
) -> Kernel:
    inputs = graph.inputs
    places: dict[int, int] = {}
    reads: list[Expr] = []
    pattern: list[Any] = []
    for index, member in enumerate(members):
        pattern.append(member.operation)
        for operand in inputs[member.uid]:
            place = places.get(operand.uid)
            if place is None:
                reads.append(operand)
                places[operand.uid] = place = -len(reads)
                pattern.append(operand.type)
            pattern.append(place)
        places[member.uid] = index
    key = tuple(pattern)
    common = known.get(key)
    if common is None:
        common = known[key] = _of_fused(members, reads, graph, cost_model)
    assert common.blocks is not None
    kernel = Kernel(tuple(members), tuple(reads))
    kernel.flops, kernel.bytes, kernel.estimate, kernel.workspace, _ = common
    kernel.blocks, kernel.scratch = common.blocks.over(members), common.blocks.scratch
    return kernel


def _of_fused(members: list[Expr], reads: list[Expr], graph: PlanGraph, cost_model: CostModel) -> _Common:
    inputs, size = graph.inputs, members[-1].type.nbytes
    flops = sum([flops_of(member, inputs[member.uid]) for member in members])
    moved = sum([read.type.nbytes for read in reads]) + size
    rate = cost_model.product_flops if members[0].operation.name in PRODUCTS else cost_model.flops
    blocks = blocks_of(members, lambda member: inputs[member.uid])
    workspace = blocks.workspace + max([_workspace(member, inputs[member.uid]) for member in members])
    estimate = cost_model.call * len(members) + max(flops / rate, moved / cost_model.bandwidth)
    return _Common(flops, size, estimate, workspace, blocks)


def _workspace(node: Expr, operands: tuple[Expr, ...]) -> int:
    if isinstance(node.operation, Call):
        return 0  # the plan of its body tells
    return node.operation.workspace(*[operand.type for operand in operands])
