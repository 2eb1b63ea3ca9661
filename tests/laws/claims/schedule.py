"""Checks of passes that order kernels and allocate their results in memory."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np

import explorer as ex
from explorer.core.types.tensor_type import TensorType
from explorer.plan import Plan
from explorer.plan.graph.reasons import Facts
from explorer.plan.memory import arena
from explorer.plan.passes import Order
from explorer.plan.passes.buffers import Buffers
from explorer.plan.passes.memory_format import MemoryFormat
from explorer.plan.planner import plan
from explorer.plan.schedule.schedule import Kernel, Placement, align_up, aligned_size
from tests.laws.claims.decisions import Claim, of_decision, result_bytes

Expr = ex.Expr


def producers(claim: Claim) -> list[list[int]]:
    """Return, for each kernel, the numbers of the kernels that it reads."""
    kernels = claim.planned.schedule.kernels
    numbers = {kernel.result.uid: number for number, kernel in enumerate(kernels)}
    return [[numbers[read.uid] for read in kernel.reads if read.uid in numbers] for kernel in kernels]


def order_facts(claim: Claim) -> Facts:
    """Check that the kernels run in order on the lanes, each when a lane is free and its operands are ready."""
    kernels, reads, lanes = claim.planned.schedule.kernels, producers(claim), claim.planned.options.find(Order).lanes
    users = Counter(number for each in reads for number in each)
    ends: list[float] = []
    now = 0.0
    for kernel, before in zip(kernels, reads, strict=True):
        now = max([now, *[ends[number] for number in before]])
        while sum(end > now for end in ends) >= lanes:
            now = min(end for end in ends if end > now)
        ends.append(now + kernel.cost.estimate)
    return {
        "count": len(kernels),
        "chains": sum(not (len(before) == 1 and users[before[0]] == 1) for before in reads),
        "lanes": lanes,
        "together_us": max(ends),
        "alone_us": sum(kernel.cost.estimate for kernel in kernels),
    }


@of_decision(Order.together)
def run_together(claim: Claim) -> Facts:
    schedule = claim.planned.schedule
    ends = zip(schedule.kernels, schedule.runs_until, strict=True)
    overlapping = {kernel.result.uid for number, (kernel, until) in enumerate(ends) if until > number}
    assert {node.uid for node in claim.subjects} == overlapping
    return order_facts(claim)


@of_decision(Order.nothing_independent)
def nothing_independent(claim: Claim) -> Facts:
    schedule = claim.planned.schedule
    assert schedule.runs_until == tuple(range(len(schedule.kernels)))
    return order_facts(claim)


@of_decision(MemoryFormat.pixel_by_pixel)
def pixel_by_pixel(claim: Claim) -> Facts:
    laid = [kernel.result.uid for kernel in claim.planned.schedule.kernels if kernel.channels_last]
    assert laid == [node.uid for node in claim.subjects]
    return {"count": len(laid)}


@of_decision(MemoryFormat.asked_for)
def format_asked_for(claim: Claim) -> Facts:
    (operand,) = claim.subjects
    assert any(root is operand for root in claim.stage.roots)
    assert not claim.kernels[operand.uid].channels_last
    return {"operand": operand}


def steps(claim: Claim) -> list[tuple[Kernel, Placement]]:
    """Return the kernels in order, each with its result's placement."""
    schedule = claim.planned.schedule
    return [*zip(schedule.kernels, schedule.placements, strict=True)]


def side_by_side(planned: Plan) -> int:
    """Return the total bytes of the same buffers without packing."""
    with patch.object(arena, "_MAX_OVERLAPS", -(10**9)):
        return plan(planned.graph.recorded_roots, planned.options).schedule.arena


def peak_bytes(claim: Claim) -> int:
    """Return the maximum number of arena bytes in use at one time."""
    ends = claim.planned.schedule.runs_until
    taken: dict[int, int] = {}
    scratches: list[tuple[int, int]] = []
    most = 0
    for number, (kernel, place) in enumerate(steps(claim)):
        if place.buffer >= 0:
            reused = None if place.reuses is None else taken.pop(place.reuses.uid)
            taken[kernel.result.uid] = aligned_size(kernel.result.type) if reused is None else reused
        if kernel.cost.scratch:
            scratches.append((ends[number], align_up(kernel.cost.scratch)))
        most = max(most, sum(taken.values()) + sum(size for until, size in scratches if until >= number))
        for node in place.frees:
            taken.pop(node.uid, None)
    return most


@of_decision(Buffers.packed, Buffers.packed_with_scratch)
def packed(claim: Claim) -> Facts:
    results = [kernel.result.uid for kernel, place in steps(claim) if place.buffer >= 0]
    assert sorted(results) == sorted(node.uid for node in claim.subjects)
    scratch = any(kernel.cost.scratch for kernel, _ in steps(claim))
    assert scratch is (claim.choice.reason is Buffers.packed_with_scratch)
    arena, beside = claim.planned.schedule.arena, side_by_side(claim.planned)
    assert peak_bytes(claim) <= arena < beside
    return {"count": len(results), "arena_bytes": arena, "live_bytes": peak_bytes(claim), "beside_bytes": beside}


@of_decision(Buffers.reused)
def reused(claim: Claim) -> Facts:
    held = {node.uid for node in claim.subjects}
    (buffer,) = {place.buffer for kernel, place in steps(claim) if kernel.result.uid in held}
    results = [kernel.result.uid for kernel, place in steps(claim) if place.buffer == buffer]
    assert results == [node.uid for node in claim.subjects]
    assert len(results) > 1
    return {"buffer": buffer, "size_bytes": claim.planned.schedule.buffers[buffer], "count": len(results)}


@of_decision(Buffers.copied)
def copied(claim: Claim) -> Facts:
    """Check that NumPy copies for an array laid out as the kernel below all views, or a call, writes it."""
    (node,) = claim.subjects
    (operand,) = claim.kernels[node.uid].reads
    views = [node]
    while views[-1].operation.view and type((read := claim.kernels[views[-1].uid].reads[0]).type) is TensorType:
        views.append(read)
    shape = views[-1].shape
    array = np.zeros(shape)
    if claim.kernels[views[-1].uid].channels_last:
        array = np.zeros([shape[axis] for axis in (0, 2, 3, 1)]).transpose(0, 3, 1, 2)
    for view in views[-2:0:-1]:
        array = view.operation.kernel(None, array)
    assert not np.may_share_memory(node.operation.kernel(None, array), array)
    return {"operand": operand, "size_bytes": node.type.nbytes}


@of_decision(Buffers.in_place)
def in_place(claim: Claim) -> Facts:
    """Check that the overwritten operand is dead, because no later kernel reads it and it is no requested result."""
    kernels = claim.planned.schedule.kernels
    operands = []
    for node in claim.subjects:
        number = next(number for number, kernel in enumerate(kernels) if kernel.result is node)
        dead = claim.planned.schedule.placements[number].reuses
        assert dead is not None
        assert any(read is dead for read in kernels[number].reads)
        assert not any(read is dead for kernel in kernels[number + 1 :] for read in kernel.reads)
        assert not any(root is dead for root in claim.planned.schedule.roots)
        operands.append(dead)
    listed = {"written": list(claim.subjects), "operands": operands}
    return {
        "count": len(claim.subjects),
        **{name: nodes if len(nodes) < 5 else [*nodes[:3], f"{len(nodes) - 3} more"] for name, nodes in listed.items()},
        "saved_bytes": sum(node.type.nbytes for node in claim.subjects),
    }


def one_by_one(claim: Claim, kernel: Kernel, place: Placement) -> int:
    """Return the peak of live bytes if each operation of a kernel were its own kernel, in place where possible."""
    at, cost = claim.stage, kernel.cost
    own = {node.uid for node in kernel.nodes}
    held = {node.uid: claim.kernels[node.uid].cost.bytes for node in place.frees}
    freed = {*held}
    now = place.live - cost.workspace - (cost.bytes if place.reuses is None and not kernel.constant else 0)
    temporaries = kernel.blocks is None or cost.workspace > kernel.blocks.workspace
    last_read = {operand.uid: index for index, node in enumerate(kernel.nodes) for operand in at.operands(node)}
    most = now
    for index, node in enumerate(kernel.nodes):
        operands = {operand.uid: operand for operand in at.operands(node)}
        dying = [uid for uid in operands if last_read[uid] == index and (uid in own or uid in freed)]
        size = result_bytes(node)
        over = (
            any(operands[uid].type is node.type for uid in dying)
            and node.operation.elementwise
            and node.operation.reuses_operand
            and not (node is kernel.result and place.buffer < 0)
        )
        extra = node.operation.workspace(*[operand.type for operand in at.operands(node)]) if temporaries else 0
        most = max(most, now + (0 if over else size) + extra)
        now += size - sum(held[uid] for uid in dying)
        held[node.uid] = size
    return most


@of_decision(Buffers.block_memory)
def block_memory(claim: Claim) -> Facts:
    bound = claim.planned.schedule.peak_lower_bound
    worst = [(kernel, place) for kernel, place in steps(claim) if place.live == bound]
    assert all(len(kernel.nodes) > 1 and kernel.cost.workspace for kernel, _ in worst)
    assert [node.uid for kernel, _ in worst for node in kernel.nodes] == [node.uid for node in claim.subjects]
    apart = max(one_by_one(claim, kernel, place) for kernel, place in worst)
    assert apart < bound
    first = worst[0][0]
    return {
        "live_bytes": bound,
        "result": first.result,
        "working_bytes": first.cost.workspace,
        "apart_bytes": apart,
    }
