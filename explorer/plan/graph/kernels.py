"""Kernels of a graph: groups of nodes that run as one step, with the values that they read and their cost.

The pass `Order` creates the kernels after all rewriting. Estimating the cost is the slowest part of creating a kernel,
and a loop over samples records thousands of identical kernels. The cost is therefore estimated once for each pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

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
"""pattern → cost and blocks; kernels have the same pattern if they apply equal operations to equal types, with operands
at equal positions"""


class BodyPlan(NamedTuple):
    """Plan of the body of a call that is not inlined."""

    schedule: Schedule
    inputs: Mapping[int, tuple[Expr, ...]]
    """uid of a node → its operands in the planned graph"""
    parameters: tuple[Expr, ...]
    """parameters that represent the operands of the call, in order"""


class BodyPlans(dict[int, BodyPlan]):
    """Map from the id of a body to its plan, for calls that are not inlined; filled before the pass `Order`."""


def kernels_of(graph: PlanGraph, cost_model: CostModel) -> tuple[list[Expr], list[Kernel], dict[int, int]]:
    """Return the leaves of a graph, its kernels, and a map from the uid of a result to its kernel's index.

    Kernels are in topological order. Each group of kind "kernel" becomes one kernel, and every other live node with
    operands becomes its own kernel. Nodes whose values exist before the run are leaves: tensors, parameters, and views
    of tensors and parameters.
    """
    members_of: dict[int, list[Expr]] = {}
    inner: set[int] = set()
    for group in graph.groups:
        if group.kind == "kernel":
            # The key is the last member, whose value is the result of the kernel; the other members are intermediate
            # values.
            members_of[group.members[-1].uid] = group.members
            inner.update([node.uid for node in group.members[:-1]])
    leaves: list[Expr] = []
    kernels: list[Kernel] = []
    kernel_of: dict[int, int] = {}
    # Local variables save attribute look-ups, because the loop below visits every node, and graphs have up to 100,000
    # nodes.
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
            if len(operands) == 1:  # avoid a list in these frequent cases
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
    """Return the cost of ``node`` as its own kernel."""
    size = result_bytes(node)
    if node.operation.view and operands:
        return KernelCost(0, size, cost_model.view, 0, 0)
    if isinstance(node.operation, Call):  # one kernel runs the whole body, and needs memory for its intermediate values
        body_plans = graph.notes(BodyPlans)
        schedules = [body_plans[id(body)].schedule for body in node.operation.planned_bodies]
        # The peak of the body includes its outputs, which are the result of the call, unless it is a mapped call, which
        # copies them into its result. Only one body runs at a time.
        outputs = 0 if isinstance(node.operation, MappedCall) else size
        workspace = max(0, max([schedule.peak for schedule in schedules]) - outputs)
        scratch = max([schedule.arena for schedule in schedules])
    else:
        workspace, scratch = _workspace(node, operands), 0
    return KernelCost(flops_of(node, operands), size, kernel_cost(node, operands, cost_model), workspace, scratch)


def _fused(members: list[Expr], constant: bool, graph: PlanGraph, cost_model: CostModel, patterns: _Patterns) -> Kernel:
    """Return the kernel of a group.

    Its pattern refers to operands by index: members are numbered from 0 up, inputs from −1 down.
    """
    inputs = graph.inputs
    # Refer to operands by index, not by node, because kernels with the same pattern differ only in their nodes.
    index_of: dict[int, int] = {}
    reads: list[Expr] = []
    key: list[Any] = []
    # Two groups have the same key exactly if the same operations read operands of the same types at the same indices.
    # Cost and blocks depend on nothing else.
    for index, member in enumerate(members):
        key.append(member.operation)
        for operand in inputs[member.uid]:
            index_in_key = index_of.get(operand.uid)
            if index_in_key is None:
                reads.append(operand)
                index_of[operand.uid] = index_in_key = -len(reads)
                key.append(operand.type)
            key.append(index_in_key)
        index_of[member.uid] = index
    pattern_key = tuple(key)
    pattern = patterns.get(pattern_key)
    if pattern is None:
        pattern = patterns[pattern_key] = _cost_of_fused(members, reads, graph, cost_model)
    # Blocks contain the nodes that the runtime needs, so they are created for these members. The cost is shared
    # unchanged.
    cost, blocks = pattern
    assert blocks is not None
    return Kernel(tuple(members), tuple(reads), cost, blocks.over(members), constant)


def _cost_of_fused(
    members: list[Expr], reads: list[Expr], graph: PlanGraph, cost_model: CostModel
) -> tuple[KernelCost, Blocks]:
    """Return the cost and the blocks of a group.

    Each operation counts as one call, but only the inputs and the result count as memory traffic.
    """
    inputs, size = graph.inputs, members[-1].type.nbytes
    # A chain repeats few operations, so the costs of equal operations on equal types are computed once.
    alike: dict[tuple[Any, ...], int] = {}
    for member in members:
        key = member.operation, member.type, *[operand.type for operand in inputs[member.uid]]
        alike[key] = alike.get(key, 0) + 1
    flops = temporaries = 0
    for (operation, type_, *types), count in alike.items():
        flops += count * operation.flops(type_, *types)
        # Steps run one after another, so only the largest temporary array counts.
        temporaries = max(temporaries, workspace_of(operation, *types))
    traffic = sum([read.type.nbytes for read in reads]) + size
    rate = cost_model.product_flops if members[0].operation.name in PRODUCTS else cost_model.flops
    blocks = blocks_of(members, lambda member: inputs[member.uid])
    workspace = blocks.workspace + temporaries
    # Count one start for each operation, because its NumPy function is called for every block.
    estimate = cost_model.call * len(members) + max(flops / rate, traffic / cost_model.bandwidth)
    return KernelCost(flops, size, estimate, workspace, blocks.scratch), blocks


def _workspace(node: Expr, operands: tuple[Expr, ...]) -> int:
    """Return the number of bytes that ``node`` allocates while it runs as its own kernel."""
    return workspace_of(node.operation, *[operand.type for operand in operands])
