"""Batches that read batches: rows are gathered where they lie, and become nodes only where somebody asks for them."""

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


def same(roots: list[ex.Expr]) -> Plan:
    """The plan of the roots, whose values are those without batches."""
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
def test_a_batch_reads_the_batch_before_it_whole_and_only_asked_members_become_nodes() -> None:
    """Between two batches nothing is taken apart and stacked again: rows that nobody else reads are never nodes."""
    planned = same(chains(20, 5))
    assert kinds(planned)[Stack] == 1
    assert kinds(planned)[Index0] == 20
    assert not kinds(planned)[GatherStack]
    assert len([node for _, node in planned.graph.added if isinstance(node.operation, Index0)]) == 20


@pytest.mark.spec("P-4")
def test_rows_of_several_batches_and_leaves_are_gathered_in_one_step() -> None:
    """What a batch reads from earlier levels and from leaves comes by runs of consecutive rows, not row by row."""
    first, second = chains(20, 1), chains(20, 2)
    planned = same([compose(a, b) for a, b in zip([*first, *second], [*second, *leaves, *first[:8]], strict=True)])
    gathered = [node.operation for node in planned.graph.live if isinstance(node.operation, GatherStack)]
    assert gathered
    assert all(len(each.runs) < each.count / 2 for each in gathered[:1])


@pytest.mark.spec("P-4")
def test_members_that_the_program_takes_itself_are_read_where_they_lie() -> None:
    """A loop over the rows of a tensor is one batch over that tensor: it is neither cut up nor copied."""
    rows = ex.tensor(random.normal(size=(20, SIZE)))
    assert kinds(same([compose(row, leaves[0]) for row in rows]))[Stack] == 0


def test_a_member_that_all_of_a_batch_read_and_one_that_is_read_outside_are_nodes() -> None:
    before = chains(10, 1)
    shared = [compose(each, before[3]) for each in leaves]
    planned = same([*shared, before[5].sum() * 2.0, before[5]])
    assert kinds(planned)[Index0] == len(leaves) + 2


def test_outputs_of_functions_with_several_are_gathered_one_by_one() -> None:
    pairs = [split(a, b) for a, b in pairwise(leaves)]
    planned = same([compose(right, left) for left, right in pairs])
    assert kinds(planned)[Index0] == len(pairs)


def test_provenance_of_a_row_that_is_no_node_is_its_batch() -> None:
    """A call inside a batch is accounted for by the batch's kernels, though no node stands for its value."""
    before = chains(20, 1)
    evaluation = ex.EvalPlan()
    for each in before:
        evaluation.register(compose(each, leaves[0]))
    recording = evaluation.prepare().recording
    calls = [node for node, kind in enumerate(recording.nodes.kind) if kind == "call"]
    assert len(calls) >= 40
    assert all(recording.provenance.nodes[call].kernels for call in calls if call in recording.provenance.nodes)


def test_a_run_that_is_watched_summarises_members_that_are_no_nodes() -> None:
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


def test_threads_that_plan_at_one_time_read_their_own_members() -> None:
    """Members of a batch larger than any before, met by several threads at once, are read at their own index."""
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
    """Roots of random calls on each other's results, leaves, rows of a table, and plain operations between them."""
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
def test_random_forests_have_the_values_that_they_have_without_batches(examples: int) -> None:
    """Whatever reads whatever across levels, in and outside of batches, also in the backward program."""
    settings(max_examples=examples)(given(roots=forests(), differentiated=st.booleans())(has_the_values_of_no_batch))()


def has_the_values_of_no_batch(roots: list[ex.Expr], differentiated: bool) -> None:
    gradients = ex.grad(roots[-1], [weight, table, leaves[0]]) if differentiated else []
    wanted, eager = [*roots, *gradients], Options(batch=ex.plan.passes.Batch(fewest=2))
    for options in (Options(), eager):
        for result, alone in zip(run(plan(wanted, options)), run(plan(wanted, ALONE)), strict=True):
            np.testing.assert_allclose(result, alone, rtol=1e-9, atol=1e-9)
