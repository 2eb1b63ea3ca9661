"""Batches that read other batches: rows are gathered in place, and become nodes only if something else reads them."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.ops.manipulation.concat import GatherStack, Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan import Options, plan
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.batch import BatchMembers
from explorer.plan.planner import Plan
from tests.support.execution import run

SIZE = 4
random = np.random.default_rng(5)
weight = ex.tensor(random.normal(size=(SIZE, SIZE)) / 2, name="w")
leaves = [ex.tensor(random.normal(size=SIZE)) for _ in range(12)]
table = ex.tensor(random.normal(size=(6, SIZE)), name="table")
ALONE = Options(without=("batch",))


@ex.function
def compose(left: Any, right: Any) -> Any:
    return ex.tanh(left @ weight + right)


@ex.function
def split(x: Any, y: Any) -> Any:
    total = x * y
    return total + 1.0, ex.tanh(total - x)


def kinds(planned: Plan) -> Counter[type]:
    return Counter(type(kernel.result.operation) for kernel in planned.schedule.kernels)


def plan_with_equal_values(roots: list[ex.Expr]) -> Plan:
    """Return the plan of the roots, and check that their values equal those without batching."""
    planned = plan(roots)
    for result, alone in zip(run(planned), run(plan(roots, ALONE)), strict=True):
        np.testing.assert_allclose(result, alone, rtol=1e-12, atol=1e-12)
    return planned


def chains(count: int, length: int) -> list[ex.Expr]:
    tensors: list[ex.Expr] = [ex.tensor(random.normal(size=SIZE)) for _ in range(count)]
    for _ in range(length):
        tensors = [compose(each, leaves[0]) for each in tensors]
    return tensors


@pytest.mark.spec("P-4")
def test_a_batch_reads_the_previous_batch_without_unstacking() -> None:
    """Rows without other readers never become nodes."""
    planned = plan_with_equal_values(chains(20, 5))
    assert kinds(planned)[Stack] == 1
    assert kinds(planned)[Index0] == 20
    assert not kinds(planned)[GatherStack]
    assert len([node for _, node in planned.graph.added if isinstance(node.operation, Index0)]) == 20


@pytest.mark.spec("P-4")
def test_rows_of_several_batches_and_leaves_are_gathered_in_one_step() -> None:
    """Consecutive rows of earlier levels and of leaves are copied together, not row by row."""
    first, second = chains(20, 1), chains(20, 2)
    planned = plan_with_equal_values(
        [compose(a, b) for a, b in zip([*first, *second], [*second, *leaves, *first[:8]], strict=True)]
    )
    gathered = [node.operation for node in planned.graph.live if isinstance(node.operation, GatherStack)]
    assert gathered
    assert all(len(each.runs) < each.count / 2 for each in gathered[:1])


@pytest.mark.spec("P-4")
def test_rows_that_the_program_indexes_are_read_in_place() -> None:
    """A loop over the rows of a tensor is one batch over the tensor, without slices or copies."""
    rows = ex.tensor(random.normal(size=(20, SIZE)))
    assert kinds(plan_with_equal_values([compose(row, leaves[0]) for row in rows]))[Stack] == 0


def test_a_row_shared_by_a_batch_and_a_row_read_outside_are_nodes() -> None:
    before = chains(10, 1)
    shared = [compose(each, before[3]) for each in leaves]
    planned = plan_with_equal_values([*shared, before[5].sum() * 2.0, before[5]])
    assert kinds(planned)[Index0] == len(leaves) + 2


def test_outputs_of_functions_with_several_outputs_are_gathered_separately() -> None:
    pairs = [split(a, b) for a, b in pairwise(leaves)]
    planned = plan_with_equal_values([compose(right, left) for left, right in pairs])
    assert kinds(planned)[Index0] == len(pairs)


def test_the_provenance_of_a_row_without_a_node_is_its_batch() -> None:
    """A call in a batch is attributed to the batch's kernels, even if no node has its value."""
    before = chains(20, 1)
    evaluation = ex.EvalPlan()
    for each in before:
        evaluation.register(compose(each, leaves[0]))
    recording = evaluation.prepare().recording
    calls = [node for node, kind in enumerate(recording.nodes.kind) if kind == "call"]
    assert len(calls) >= 40
    assert all(recording.provenance.nodes[call].kernels for call in calls if call in recording.provenance.nodes)


def test_a_recorded_run_summarizes_rows_without_nodes() -> None:
    before = chains(20, 1)
    evaluation = ex.EvalPlan(record="values")
    for each in before:
        evaluation.register(compose(each, leaves[0]))
    evaluation.eval()
    recording = evaluation.recording
    assert recording.run is not None
    calls = [node for node in recording.provenance.nodes if recording.nodes.kind[node] == "call"]
    unread = [node for node in calls if node in recording.run.values]
    assert len(unread) == len(before)
    expected = np.array([ex.evaluate(each) for each in before])
    assert [recording.run.values[node].mean for node in unread] == pytest.approx(expected.mean(axis=1).tolist())


def test_threads_that_plan_concurrently_read_the_right_rows() -> None:
    """Each of several threads reads its own rows of a batch that is larger than any before."""
    count, interval = 4000, sys.getswitchinterval()
    whole = ex.tensor(random.normal(size=(count, SIZE)))
    results: list[list[Any]] = []

    def settle() -> None:
        nodes = [ex.tanh(leaves[0]) for _ in range(count)]
        graph = PlanGraph(nodes)
        decision = graph.decide(ex.passes.Batch(), ex.Reason("batched", "They are rows of one value."), {}, nodes)
        rows = BatchMembers(graph)
        for index, node in enumerate(nodes):
            rows.add(node, whole, index, decision)
        rows.finish()
        results.append([root.operation for root in graph.roots])

    threads = [threading.Thread(target=settle) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert results == [[Index0(index) for index in range(count)]] * len(threads)


@st.composite
def forests(draw: st.DrawFn) -> list[ex.Expr]:
    """Return roots of random calls on each other's results, leaves and table rows, with plain operations in between."""
    nodes: list[ex.Expr] = [*leaves, *table]
    pick = st.integers(0, 10**6)

    def one() -> ex.Expr:
        return nodes[-1 - draw(pick) % min(len(nodes), 16)] if draw(st.booleans()) else nodes[draw(pick) % len(nodes)]

    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.integers(0, 4))
        values: list[ex.Expr] = []
        for _ in range(draw(st.integers(1, 14))):
            a, b = one(), one()
            if kind < 2:
                values.append(compose(a, b))
            elif kind == 2:
                values.extend(split(a, b))
            elif kind == 3:
                values.append(ex.tanh(a + b))
            else:
                values.append(a @ weight)
        nodes += values
    roots = [nodes[draw(pick) % len(nodes)] for _ in range(draw(st.integers(1, 4)))]
    return [*roots, ex.add_n(*[node.sum() for node in nodes[-draw(st.integers(1, 20)) :]])]


@pytest.mark.spec("P-4", "M-E4")
@pytest.mark.parametrize("examples", [40, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.soak
def test_random_forests_have_equal_values_with_and_without_batches(examples: int) -> None:
    """Reads cross levels, inside and outside batches, and in the backward pass."""
    settings(max_examples=examples)(given(roots=forests(), differentiated=st.booleans())(has_the_values_of_no_batch))()


def has_the_values_of_no_batch(roots: list[ex.Expr], differentiated: bool) -> None:
    gradients = ex.grad(roots[-1], [weight, table, leaves[0]]) if differentiated else []
    wanted, eager = [*roots, *gradients], Options(batch=ex.plan.passes.Batch(fewest=2))
    for options in (Options(), eager):
        for result, alone in zip(run(plan(wanted, options)), run(plan(wanted, ALONE)), strict=True):
            np.testing.assert_allclose(result, alone, rtol=1e-9, atol=1e-9)
