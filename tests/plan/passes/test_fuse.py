"""Fusion: chains, trees and epilogues become one kernel; each declined fusion has a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import explorer as ex
from explorer.plan import Options, plan
from explorer.plan.graph.plan_graph import PlanGraph
from tests.support.decisions import codes, facts
from tests.support.execution import run
from tests.support.interpreter import reference
from tests.support.programs import prepared

x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@pytest.mark.spec("P-6", headline=True)
def test_chains_trees_and_epilogues_are_fused_and_the_saving_is_reported() -> None:
    """Fuse elementwise chains and trees, epilogues of products, and producers of reductions; decisions state the saved
    bytes.
    """
    w, b = ex.tensor(np.ones((4, 5))), ex.tensor(np.ones(5))
    planned = plan([ex.relu(x @ w + b), ex.exp(ex.tanh(x) * ex.sin(x))])
    assert codes(planned, "fuse") == ["epilogue", "chain"]
    assert facts(planned, "epilogue")["count"] == 3
    assert facts(planned, "epilogue")["saved_bytes"] == 2 * 3 * 5 * 8
    assert (facts(planned, "chain")["count"], facts(planned, "chain")["temporaries"]) == (4, 3)
    assert facts(planned, "chain")["saved_bytes"] == 3 * x.size * 8
    reduced = plan([(ex.tanh(x) * ex.sin(x)).sum(axis=1)])
    (code,) = codes(reduced, "fuse")
    assert facts(reduced, code)["saved_bytes"] == 3 * x.size * 8
    assert [len(kernel.nodes) for kernel in reduced.schedule.kernels] == [4]
    assert [len(kernel.nodes) for kernel in planned.schedule.kernels] == [3, 4]


@pytest.mark.spec("P-6")
def test_facts_of_readers_are_computed_when_somebody_reads_them() -> None:
    """They state the readers at the time of the decision, whatever later passes do."""
    shared = ex.tanh(x)
    planned = plan([ex.exp(shared) + ex.sin(shared) * ex.cos(shared)])
    choices = [choice for choice in planned.graph.decisions if choice.code == "other_consumers"]
    assert [choice.remaining is not None for choice in choices] == [True] * 3
    planned.graph.live, planned.graph.inputs = [], {}
    assert [choice.facts for choice in choices] == [
        {"operand": shared, "reader": reader, "consumers": 3, "readers": ["exp", "sin", "cos"]}
        for reader in ("exp", "sin", "cos")
    ]
    assert [choice.remaining for choice in choices] == [None] * 3


@pytest.mark.parametrize("seed", range(8))
def test_kernels_meet_the_conditions_that_are_checked_for_other_passes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    square = ex.tensor(np.ones((4, 4)), name="square")
    values: list[ex.Expr] = [square, square.T, ex.tensor(np.ones(4))]
    functions: list[Callable[[ex.Expr, ex.Expr], ex.Expr]] = [
        lambda a, b: a + b,
        lambda a, b: ex.tanh(a),
        lambda a, b: (a + square) @ square,
        lambda a, b: ex.maximum(a * b, 0).sum(axis=-1, keepdims=True),
        lambda a, b: (a * b).T,
        lambda a, b: ex.where(a > b, a, ex.exp(b)),
    ]
    for _ in range(40):
        a, b = (values[index] for index in rng.integers(max(0, len(values) - 6), len(values), 2))
        values.append(functions[rng.integers(len(functions))](a, b))
    fuse, join = PlanGraph.fuse, PlanGraph.join
    made: list[int] = []

    def checked(graph: PlanGraph, decision: int, members: list[ex.Expr], label: str = "") -> None:
        with monkeypatch.context() as patch:
            patch.setattr(PlanGraph, "join", join)
            fuse(graph, decision, members, label)
        made.append(len(members))

    monkeypatch.setattr(PlanGraph, "join", checked)
    planned = plan(values[-3:])
    assert made
    assert len(made) == sum(group.kind == "kernel" for group in planned.graph.groups)


@pytest.mark.spec("P-6", "P-15")
def test_each_declined_fusion_has_its_code() -> None:
    w = ex.tensor(np.ones((4, 4)))
    asked, shared, row = ex.tanh(x), ex.sin(x), ex.cos(ex.square(x)[0])
    planned = plan(
        [asked, ex.exp(asked), ex.exp(shared) + ex.log1p(shared), x * row, (x @ w) * (x @ (w + 1.0)), x.sum() + x]
    )
    declined = codes(planned, "fuse", applied=False)
    assert sorted(declined) == [
        "asked_for",
        "other_consumers",
        "other_consumers",
        "producer",
        "producer",
        "reader",
        "reader",
        "second_product",
        "shape",
    ]
    shared_by = [choice.facts for choice in planned.graph.decisions if choice.code == "other_consumers"]
    assert [(each["reader"], each["consumers"]) for each in shared_by] == [("exp", 2), ("log1p", 2)]
    assert (facts(planned, "shape")["before"], facts(planned, "shape")["after"]) == ("4", "3×4")


@pytest.mark.spec("P-6", "P-15")
def test_a_second_product_is_declined_with_the_names_of_both_products() -> None:
    """The decision names the kernel's product and the product that computes the operand."""
    w, v = ex.tensor(np.ones((4, 4))), ex.tensor(np.ones((4, 4)) * 2)
    first, second = x @ w, x @ v
    through = ex.tanh(second)
    named = facts(plan([ex.relu(first) + through]), "second_product")
    assert (named["operand"], named["first"], named["second"]) == (through, first, second)
    itself = facts(plan([ex.relu(first) + second]), "second_product")
    assert itself["operand"] is itself["second"] is second


@pytest.mark.spec("P-6", "P-17")
def test_values_inside_a_kernel_are_not_counted_as_written() -> None:
    """Each fusion reduces the written bytes by its stated saving, to those of the kernels' results."""
    small = ex.tensor(np.ones((300, 400), np.float32))
    w = ex.tensor(np.ones((400, 400), np.float32))
    roots = [ex.tanh(small * 2 + 1) @ w - 3, ex.square(small).sum(axis=1)]
    plan = prepared(*roots).recording
    written = {stage.name: stage.counts["bytes"] for stage in plan.stages}
    saved = [d.facts["saved_bytes"] for d in plan.decisions if d.code in ("chain", "epilogue", "reduction")]
    assert len(saved) == 3
    assert written["fuse"] == written["prune"] - sum(saved)
    assert plan.schedule is not None
    assert written["buffers"] == sum(kernel.bytes for kernel in plan.schedule.kernels)
    apart = prepared(*roots, without=["fuse"]).recording
    assert apart.stages[-1].counts["bytes"] == written["prune"]


@pytest.mark.spec("P-6")
def test_a_product_that_needs_its_own_memory_is_not_counted_as_saved() -> None:
    """A product of another dtype than the result is written completely, so no memory is saved."""
    single = ex.tensor(np.ones((30, 40), np.float32))
    w = ex.tensor(np.ones((40, 50), np.float32))
    planned = plan([ex.cast(single @ w, "float64")])
    assert (facts(planned, "epilogue")["temporaries"], facts(planned, "epilogue")["saved_bytes"]) == (0, 0)
    assert planned.schedule.kernels[-1].cost.workspace >= 30 * 50 * 4


@pytest.mark.spec("P-6")
def test_a_sum_extended_term_by_term_is_fused_in_linear_time() -> None:
    total = ex.tanh(x)
    for _ in range(20_000):
        total = total + ex.sin(x)
    planned = plan([total], Options(without=("dedup",)))
    assert len(planned.schedule.kernels) == 1
    np.testing.assert_allclose(run(planned)[0], np.tanh(x.array) + 20_000 * np.sin(x.array), rtol=1e-11)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(
    "shape", [(100_000,), (3, 70_000), (70_000, 3), (2, 3, 20_000), (1, 1), (0, 5), (5, 0), (), (20_000, 1)]
)
def test_fused_blocks_cover_every_element(shape: tuple[int, ...]) -> None:
    a = ex.tensor(np.random.default_rng(0).normal(size=shape))
    last = ex.tensor(np.random.default_rng(1).normal(size=shape[-1:]))
    turned = ex.transpose(ex.tensor(np.random.default_rng(2).normal(size=shape[::-1])))
    first = ex.tensor(np.random.default_rng(3).normal(size=(1, *shape[1:])[: len(shape)]))
    roots = [ex.tanh(a * 2.0 - 1.0) * a, ex.tanh(a * last) - last, ex.tanh(a - turned) * turned, ex.exp(a) * first - a]
    planned = plan(roots)
    assert all(len(kernel.nodes) > 1 for kernel in planned.schedule.kernels if kernel.nodes[-1].operation.elementwise)
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_array_equal(result, expected)
