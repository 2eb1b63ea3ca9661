"""Checks of in-place updates against the kernels that read the old and the new value in the finished schedule."""

from __future__ import annotations

from collections.abc import Iterable

import explorer as ex
from explorer.core.types.device import cpu
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes import UpdateInPlace
from explorer.plan.passes.update_in_place import Updates
from tests.laws.claims.decisions import Claim, of_decision


def parameters(claim: Claim) -> dict[int, ex.Expr]:
    """Return the parameter of each new value by the uid of its base value; the last one, if several share it."""
    pairs = claim.planned.options.find(UpdateInPlace).pairs
    return {claim.last.resolve(new).uid: parameter for parameter, new in pairs}


def shows(claim: Claim, node: ex.Expr, parameter: ex.Expr) -> bool:
    """Return whether a node is a parameter or only views lead from it to one."""
    while node is not parameter and node.operation.view and node.operands:
        node = claim.last.operands(node)[0]
    return node is parameter


def refused(claim: Claim, **facts: ex.Expr | str) -> Facts:
    (result,) = claim.subjects
    assert result.uid not in claim.planned.graph.notes(Updates).parameters
    parameter = parameters(claim)[result.uid]
    copied = REFERENCE_COST_MODEL.call + 2 * parameter.type.nbytes / REFERENCE_COST_MODEL.bandwidth
    assert claim.choice.estimated_cost_us == copied
    return {"result": result, "parameter": parameter, **facts}


def results_reading(claim: Claim, nodes: Iterable[ex.Expr]) -> list[ex.Expr]:
    """Return the results of kernels that read any of the nodes, in graph order."""
    uids = {node.uid for node in nodes}
    results = {kernel.result.uid: kernel for kernel in claim.planned.schedule.kernels}
    return [
        node for uid in results for node in [results[uid].result] if uids & {read.uid for read in results[uid].reads}
    ]


@of_decision(UpdateInPlace.in_place)
def in_place(claim: Claim) -> Facts:
    schedule, of = claim.planned.schedule, parameters(claim)
    number = {kernel.result.uid: index for index, kernel in enumerate(schedule.kernels)}
    updates = sorted([number[result.uid] for result in claim.subjects])
    assert updates == [*range(len(schedule.kernels) - len(updates), len(schedule.kernels))], "they do not run last"
    for result in claim.subjects:
        kernel, parameter = schedule.kernels[number[result.uid]], of[result.uid]
        assert all(node.operation.elementwise for node in kernel.nodes)
        for index, other in enumerate(schedule.kernels):
            if other is not kernel and any(shows(claim, read, parameter) for read in other.reads):
                assert index < number[result.uid], f"{other.result!r} reads {parameter!r} later"
                assert schedule.runs_until[index] < number[result.uid]
        placement = schedule.placements[number[result.uid]]
        assert placement.reuses is parameter
        assert placement.buffer < 0
    sizes = [of[result.uid].type.nbytes for result in claim.subjects]
    return {"count": len(sizes), "saved_bytes": sum(sizes)}


@of_decision(UpdateInPlace.read_later)
def read_later(claim: Claim) -> Facts:
    (result,) = claim.subjects
    parameter = parameters(claim)[result.uid]
    (reader,) = [
        node
        for node in results_reading(claim, [parameter])
        if node is not result and result.uid in claim.last.below([node])
    ]
    return refused(claim, reader=reader, needed=result)


@of_decision(UpdateInPlace.needed)
def needed(claim: Claim) -> Facts:
    readers = results_reading(claim, claim.subjects)
    return refused(
        claim, reader=next(node for node in readers if node.uid not in claim.planned.graph.notes(Updates).parameters)
    )


@of_decision(UpdateInPlace.not_elementwise)
def not_elementwise(claim: Claim) -> Facts:
    (result,) = claim.subjects
    operation = claim.kernels[result.uid].nodes[0]
    assert not operation.operation.elementwise
    return refused(claim, operation=operation)


@of_decision(UpdateInPlace.may_fail)
def may_fail(claim: Claim) -> Facts:
    (result,) = claim.subjects
    nodes = claim.kernels[result.uid].nodes
    (own,) = [node for node in nodes if not type(node.operation).__module__.startswith("explorer.")]
    return refused(claim, operation=own, has_own_code="is user-defined")


@of_decision(UpdateInPlace.shown)
def shown(claim: Claim) -> Facts:
    (result,) = claim.subjects
    parameter = parameters(claim)[result.uid]
    (view,) = [
        read for read in claim.kernels[result.uid].reads if read is not parameter and shows(claim, read, parameter)
    ]
    return refused(claim, reader=view)


@of_decision(UpdateInPlace.asked_for)
def asked_for(claim: Claim) -> Facts:
    (result,) = claim.subjects
    assert sum(claim.last.resolve(root) is result for root in claim.last.roots) > 1
    pairs = claim.planned.options.find(UpdateInPlace).pairs
    is_shared = sum(claim.last.resolve(new) is result for _, new in pairs) > 1
    return refused(claim, used="the new value of another parameter" if is_shared else "requested as a result")


@of_decision(UpdateInPlace.not_computed)
def not_computed(claim: Claim) -> Facts:
    (result,) = claim.subjects
    if result.type.device is cpu:
        kernel = claim.kernels.get(result.uid)
        assert kernel is None or kernel.constant
    return refused(claim)


@of_decision(UpdateInPlace.other_type)
def other_type(claim: Claim) -> Facts:
    (result,) = claim.subjects
    parameter = parameters(claim)[result.uid]
    assert result.type is not parameter.type
    return refused(claim, given=repr(result.type), wanted=repr(parameter.type))
