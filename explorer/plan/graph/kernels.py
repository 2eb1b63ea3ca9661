"""Kernels of a graph: the nodes that run as one step, what they read, and what they cost.

The pass order asks for them when all rewriting is done. Kernels of one pattern are priced once: a loop over samples
records thousands of equal ones, and pricing is the dearest part of making a kernel.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from explorer.core.ir.accumulation import workspace_of
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.mapped_call import MappedCall
from explorer.plan.graph.constancy import Prepared
from explorer.plan.graph.cost_model import PRODUCTS, CostModel, flops_of, kernel_cost, result_bytes
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.schedule.blocked_kernel import Blocks, blocks_of
from explorer.plan.schedule.schedule import Kernel, KernelCost, Schedule

_Patterns: TypeAlias = dict[tuple[Any, ...], tuple[KernelCost, Blocks | None]]
"""equal operations on equal types, read from equal places → their cost and blocks"""


class BodySchedules(dict[int, Schedule]):
    """Id of the body of a call that stays closed → the body's own schedule, which the planner notes before `order`."""


def kernels_of(graph: PlanGraph, cost_model: CostModel) -> tuple[list[Expr], list[Kernel], dict[int, int]]:
    """Return the leaves of a graph, its kernels with operands first, and by uid of a result the kernel's number.

    Groups of kind "kernel" become one kernel each, other live nodes with operands one of their own. Nodes whose values
    exist before the run (tensors, parameters, views of them) are leaves.
    """
    members_of: dict[int, list[Expr]] = {}
    inner: set[int] = set()
    for group in graph.groups:
        if group.kind == "kernel":
            # A group is found by its last member, whose value is the kernel's result; the others are values inside it.
            members_of[group.members[-1].uid] = group.members
            inner.update([node.uid for node in group.members[:-1]])
    leaves: list[Expr] = []
    kernels: list[Kernel] = []
    kernel_of: dict[int, int] = {}
    # Names of the function, not of the graph: the loop below runs once for each node of graphs with 100,000 of them.
    available, inputs, prepared = graph.available_before_run(), graph.inputs, graph.notes(Prepared)
    patterns: _Patterns = {}
    for node in graph.live:
        uid = node.uid
        if uid in inner:
            continue
        operands = inputs[uid]
        if uid in available or (not operands and node.operation.view):
            leaves.append(node)
            continue
        members = members_of.get(uid)
        if members is not None:
            kernel = _fused(members, uid in prepared, graph, cost_model, patterns)
        else:
            reads, operation = operands, node.operation
            key: tuple[Any, ...]
            if len(operands) == 1:  # no list for one or two operands: a loop records thousands of such operations
                key = operation, operands[0].type
            elif len(operands) == 2:
                first, second = operands
                key = operation, first.type, second.type
                if first is second:
                    reads = (first,)
            else:
                key = operation, *[operand.type for operand in operands]
                reads = tuple(dict.fromkeys(operands))
            pattern = patterns.get(key)
            if pattern is None:
                pattern = patterns[key] = _cost_of_one(node, operands, graph, cost_model), None
            kernel = Kernel((node,), reads, pattern[0], None, uid in prepared)
        kernel_of[uid] = len(kernels)
        kernels.append(kernel)
    return leaves, kernels, kernel_of


def _cost_of_one(node: Expr, operands: tuple[Expr, ...], graph: PlanGraph, cost_model: CostModel) -> KernelCost:
    """Price an operation that is a kernel of its own: a view, a call that was not inlined, or any other."""
    size = result_bytes(node)
    if node.operation.view and operands:
        return KernelCost(0, size, cost_model.view, 0, 0)
    if isinstance(node.operation, Call):  # the run of its body is one kernel, in working memory of the body's size
        known = graph.notes(BodySchedules)
        schedules = [known[id(body)] for body in node.operation.planned_bodies]
        # The body's peak counts its outputs, too, which are the call's result; a mapped call copies them into its own.
        # Of several bodies one runs at a time.
        outputs = 0 if isinstance(node.operation, MappedCall) else size
        workspace = max(0, max([schedule.peak for schedule in schedules]) - outputs)
        scratch = max([schedule.arena for schedule in schedules])
    else:
        workspace, scratch = _workspace(node, operands), 0
    return KernelCost(flops_of(node, operands), size, kernel_cost(node, operands, cost_model), workspace, scratch)


def _fused(members: list[Expr], constant: bool, graph: PlanGraph, cost_model: CostModel, patterns: _Patterns) -> Kernel:
    """Return the kernel of a group; its pattern names operands by their places, members from 0, reads from −1 down."""
    inputs = graph.inputs
    # Operands by place, not by node: kernels of one pattern differ in nodes alone.
    places: dict[int, int] = {}
    reads: list[Expr] = []
    key: list[Any] = []
    # The key is a linear form of the tree: two groups have one key exactly if the same operations read operands of the
    # same types from the same places, which is all that cost and blocks depend on.
    for index, member in enumerate(members):
        key.append(member.operation)
        for operand in inputs[member.uid]:
            place = places.get(operand.uid)
            if place is None:
                reads.append(operand)
                places[operand.uid] = place = -len(reads)
                key.append(operand.type)
            key.append(place)
        places[member.uid] = index
    pattern = patterns.get(tuple(key))
    if pattern is None:
        pattern = patterns[tuple(key)] = _cost_of_fused(members, reads, graph, cost_model)
    # Blocks name their nodes, for the runtime, so that they are made for these members; the cost is shared as it is.
    cost, blocks = pattern
    assert blocks is not None
    return Kernel(tuple(members), tuple(reads), cost, blocks.over(members), constant)


def _cost_of_fused(
    members: list[Expr], reads: list[Expr], graph: PlanGraph, cost_model: CostModel
) -> tuple[KernelCost, Blocks]:
    """Price a group: every operation is called, but memory is moved for reads and result alone."""
    inputs, size = graph.inputs, members[-1].type.nbytes
    flops = temporaries = 0
    for member in members:
        types = [operand.type for operand in inputs[member.uid]]
        flops += member.operation.flops(member.type, *types)
        # Steps run one after the other, so that only the largest temporary exists at a time.
        temporaries = max(temporaries, workspace_of(member.operation, *types))
    moved = sum([read.type.nbytes for read in reads]) + size
    rate = cost_model.product_flops if members[0].operation.name in PRODUCTS else cost_model.flops
    blocks = blocks_of(members, lambda member: inputs[member.uid])
    workspace = blocks.workspace + temporaries
    # One start for each operation: NumPy's function is still called once for each, on every block.
    estimate = cost_model.call * len(members) + max(flops / rate, moved / cost_model.bandwidth)
    return KernelCost(flops, size, estimate, workspace, blocks.scratch), blocks


def _workspace(node: Expr, operands: tuple[Expr, ...]) -> int:
    """Return the bytes that the operation's own kernel allocates while it runs."""
    return workspace_of(node.operation, *[operand.type for operand in operands])
