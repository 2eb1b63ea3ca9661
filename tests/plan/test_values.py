"""Passes keep values: random graphs with randomly omitted passes, against an interpreter without planning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import explorer as ex
from explorer.core.ir.function import Call, Item
from explorer.plan import Options, plan
from explorer.plan.passes import Batch, Inline
from explorer.plan.schedule.schedule import ALIGNMENT
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.execution import run
from tests.support.interpreter import reference
from tests.support.programs import limits, programs, subsets


def equal(found: Iterable[Any], expected: Iterable[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, expected, strict=True))


@pytest.mark.spec("P-2", "P-3", "P-5", "P-6", "P-7", "P-8", "P-9")
@given(roots=programs(), without=subsets, limit=limits)
def test_without_simplify_and_group_the_values_are_equal_to_the_last_bit(roots: Any, without: Any, limit: int) -> None:
    options = Options(without=tuple({*without, "simplify", "batch"}), inline=Inline(limit))
    assert equal(run(plan(roots, options)), reference(roots))


@pytest.mark.spec("P-1", "P-4")
@given(roots=programs(), without=subsets, limit=limits)
def test_all_passes_keep_values_but_for_rounding(roots: Any, without: Any, limit: int) -> None:
    expected, rough = reference(roots), reference(roots, noise=np.random.default_rng(0))
    for a, b in zip(expected, rough, strict=True):
        assume(np.isfinite(a).all() and np.allclose(a, b, rtol=1e-9, atol=1e-9))  # no overflow, well conditioned
    free = Batch(cost_model=_STACKING_IS_FREE)
    for result, value in zip(
        run(plan(roots, Options(without=without, inline=Inline(limit), batch=free))), expected, strict=True
    ):
        np.testing.assert_allclose(result, value, rtol=1e-7, atol=1e-7)


_STACKING_IS_FREE = Batch().cost_model.__class__(call=1000.0, view=0.0)


@pytest.mark.spec("P-7", "P-16")
@given(roots=programs(), without=subsets, limit=limits)
def test_the_schedule_is_a_topological_order_and_every_live_node_is_in_one_kernel(
    roots: Any, without: Any, limit: int
) -> None:
    planned = plan(roots, Options(without=without, inline=Inline(limit)))
    schedule, graph = planned.schedule, planned.graph
    there = {leaf.uid for leaf in schedule.leaves}
    level = dict.fromkeys(there, 0)
    for kernel, kernel_level in zip(schedule.kernels, schedule.levels, strict=True):
        inside: set[int] = set()
        for node in kernel.nodes:
            for operand in graph.inputs[node.uid]:
                assert operand.uid in there or operand.uid in inside
            assert node.uid not in there
            inside.add(node.uid)
        outer = {o.uid for node in kernel.nodes for o in graph.inputs[node.uid]} - inside
        assert outer == {read.uid for read in kernel.reads}
        assert kernel_level == 1 + max((level[uid] for uid in outer), default=0)
        level[kernel.result.uid] = kernel_level
        there |= inside
    assert there == {node.uid for node in graph.live}
    assert all(root.uid in there for root in schedule.roots)


@pytest.mark.spec("P-8")
@given(roots=programs(), without=subsets, limit=limits)
def test_a_value_is_untouched_until_its_last_reader_and_nobody_reads_dead_memory(
    roots: Any, without: Any, limit: int
) -> None:
    planned = plan(roots, Options(without=without, inline=Inline(limit)))
    kernels = planned.schedule.kernels
    last: dict[int, int] = {}
    for index, kernel in enumerate(kernels):
        last.update({read.uid: index for read in kernel.reads})
    last.update({root.uid: len(kernels) for root in planned.schedule.roots})
    program = Program(planned)
    values, slots = program.values, program.slots
    held: dict[int, list[Any]] = {}
    for index, (kernel, (runner, slot)) in enumerate(zip(kernels, program.runners, strict=True)):
        needed = [part for uid in held if last[uid] >= index for part in _parts(values[slots[uid]])]
        for line in program.memory.arena.reshape(-1, ALIGNMENT):
            if not any(np.may_share_memory(line, part) for part in needed):
                line.fill(0xFF)  # every float64 in it is now NaN
        with np.errstate(all="ignore"):
            values[slot] = runner(values)
        for uid, copies in held.items():
            if last[uid] > index:
                assert equal(_parts(values[slots[uid]]), copies)
        if kernel.result.uid in last:
            held[kernel.result.uid] = [np.array(part) for part in _parts(values[slot])]
    assert equal(program.take(), run(planned))


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.spec("P-8", "P-17")
@given(roots=programs(), limit=limits)
def test_poisoned_buffers_change_nothing_and_a_second_run_uses_the_same_memory(roots: Any, limit: int) -> None:
    program = Program(plan(roots, Options(inline=Inline(limit))))
    run_simple(program)
    addresses = _addresses(program)
    first = [np.array(value) for value in program.take()]
    program.memory.arena.fill(0xFF)
    run_simple(program)
    assert _addresses(program) == addresses
    assert equal(program.take(), first)


def _addresses(program: Program) -> list[int]:
    schedule = program.planned.schedule
    return [
        part.ctypes.data
        for kernel, placement in zip(schedule.kernels, schedule.placements, strict=True)
        if placement.buffer >= 0
        for part in _parts(program.values[program.slots[kernel.result.uid]])
    ]


@pytest.mark.spec("P-15")
@given(roots=programs(), without=subsets)
def test_every_elementwise_operation_is_in_its_producers_kernel_or_has_a_coded_reason(roots: Any, without: Any) -> None:
    planned = plan(roots, Options(without=tuple({*without} - {"fuse"})))
    kernel_of = {node.uid: k.result.uid for k in planned.schedule.kernels for node in k.nodes}
    declined: dict[int, set[str]] = {}
    for decision in planned.graph.decisions:
        if not decision.applied and decision.rule in ("ElementwiseChain", "Epilogue"):
            if decision.code in {"reader", "nothing_to_join"}:
                continue
            assert decision.code in {"asked_for", "other_consumers", "shape", "second_product", "producer"}
            for node in decision.subjects:
                declined.setdefault(node.uid, set()).add(_about(decision))
    for node in planned.graph.live:
        if not node.operation.elementwise or node.operation.view:
            continue
        for operand in planned.graph.inputs[node.uid]:
            if operand.uid not in kernel_of or kernel_of[operand.uid] == kernel_of[node.uid]:
                continue
            assert _names(operand) & declined.get(node.uid, set()), (node, operand)


def _about(choice: Any) -> str:
    if choice.code == "shape":
        return f"from {choice.facts['before']}"
    return f"#{choice.facts['operand'].uid}" if "operand" in choice.facts else choice.facts["producer"]


def _names(operand: ex.Expr) -> set[str]:
    shape = "" if isinstance(operand.type, tuple) else "×".join(map(str, operand.shape)) or "scalar"
    return {f"#{operand.uid}", operand.operation.label, f"from {shape}"}


@pytest.mark.spec("P-16")
@given(roots=programs(), without=subsets, limit=limits)
def test_every_recorded_operation_is_in_a_kernel_or_left_by_a_named_decision(
    roots: Any, without: Any, limit: int
) -> None:
    planned = plan(roots, Options(without=tuple({*without} - {"prune"}), inline=Inline(limit)))
    graph = planned.graph
    scheduled = {node.uid for kernel in planned.schedule.kernels for node in kernel.nodes}
    scheduled.update([leaf.uid for leaf in planned.schedule.leaves])  # views of leaves exist before the first kernel
    decided = {node.uid: number for number, node in graph.removed}
    for node in [*graph.recorded, *[node for _, node in graph.added]]:
        if node.operands:
            assert (node.uid in scheduled) != (node.uid in decided)
            if node.uid in decided:
                decision = graph.decisions[decided[node.uid]]
                assert decision.applied
                assert decision.code
                assert any(node is subject for subject in decision.subjects) or _is_output(node, decision.subjects)
    known = {node.uid for node in graph.recorded} | {node.uid for _, node in graph.added}
    assert scheduled <= known
    decisions = {node.uid: graph.decisions[number] for number, node in graph.added}
    for node in graph.live:
        if node.uid in decisions:
            assert decisions[node.uid].applied
            assert node.scope is not None or node.code is not None


def _is_output(node: ex.Expr, calls: list[ex.Expr]) -> bool:
    """Return whether a node is one output of a call that a decision opened or batched."""
    return isinstance(node.operation, Item) and any(
        isinstance(call.operation, Call) and isinstance(node.operands[0].operation, Call) for call in calls
    )
