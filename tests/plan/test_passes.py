"""Each pass by its decisions: codes and facts, and what the graph is after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Call, Parameter
from explorer.core.ir.tensor import tensor_of
from explorer.plan import Options, plan
from explorer.plan.passes import Inline
from explorer.plan.schedule.blocked_kernel import BLOCK_BYTES
from explorer.plan.schedule.schedule import align_up
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.decisions import codes, facts
from tests.support.effects import Counting
from tests.support.execution import run
from tests.support.interpreter import reference
from tests.support.programs import prepared

x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@pytest.mark.spec("P-2", "M-E2", headline=True)
def test_equal_expressions_are_computed_once_and_the_saving_is_told() -> None:
    """Merge equal expressions into one computation; the decision has the flops and bytes saved."""
    products = [ex.tanh(x) * 2.0 for _ in range(1000)]
    planned = plan([ex.add_n(*products)])
    assert len([c for c in planned.graph.decisions if c.code == "merged"]) == 2
    saved = [c.facts for c in planned.graph.decisions if c.code == "merged"]
    assert [f["count"] for f in saved] == [1000, 1000]
    assert saved[0]["saved_flops"] == 999 * 12 * 10
    assert saved[0]["saved_bytes"] == 999 * 12 * 8
    assert sum(node.operation.name == "tanh" for node in planned.graph.live) == 1
    again = tensor_of(x.storage)
    assert again is not x
    shared = plan([ex.tanh(x) @ ex.transpose(ex.tanh(again))])
    assert sum(node.operation.name == "tanh" for node in shared.graph.live) == 1, "two tensors of one array"
    copies = plan([ex.add_n(*[products[0]] * 1000)])
    assert not [c for c in copies.graph.decisions if c.code == "merged"]


@pytest.mark.spec("P-2")
def test_values_that_only_look_equal_are_not_merged() -> None:
    zeros = ex.TrivialTensor(0.0, (4,), dtype="float64"), ex.TrivialTensor(-0.0, (4,), dtype="float64")
    result = plan([1 / zeros[0], 1 / zeros[1]], Options(without=("simplify",)))
    assert [value.tolist() for value in run(result)] == [[np.inf] * 4, [-np.inf] * 4]
    other = ex.tensor(np.array(x.array))
    assert codes(plan([ex.tanh(x) + ex.tanh(other)]), "dedup") == []
    single = ex.tensor(np.float32(x.array))
    assert codes(plan([ex.cast(ex.tanh(single), "float64") + ex.tanh(x)]), "dedup") == []


@pytest.mark.spec("P-3", headline=True)
def test_what_no_root_needs_is_pruned_with_its_count_and_readers() -> None:
    """Drop what no root needs; the decision has the number of nodes and what read them."""
    planned = plan([ex.log(ex.exp(x + 1))])
    assert codes(planned, "prune") == ["unneeded"]
    assert facts(planned, "unneeded")["count"] == 1
    assert [node.operation.name for node in facts(planned, "unneeded")["readers"]] == ["log"]


@pytest.mark.spec("P-3")
def test_the_gradient_of_what_the_loss_does_not_need_is_told() -> None:
    w = ex.tensor(np.ones(4))
    planned = plan([ex.grad(x.sum(), w)])
    assert codes(planned, "simplify") == ["unreached"]


@ex.function
def pair(a: Any, b: Any) -> Any:
    return ex.tanh(a) + b, ex.exp(a * b)


@ex.function
def outer(a: Any) -> Any:
    first, second = pair(a, a + 1.0)
    return first * second


@pytest.mark.spec("P-5", headline=True)
def test_calls_are_opened_those_inside_too_and_the_box_keeps_its_members() -> None:
    """Open calls where that helps, those inside them too; the picture keeps their box."""
    planned = plan([outer(x), outer(x + 1.0)], Options(without=("batch",)))
    opened = [c for c in planned.graph.decisions if c.code == "inlined"]
    assert [c.facts["name"] for c in opened] == ["outer", "pair"]
    assert [len(c.subjects) for c in opened] == [c.facts["count"] for c in opened] == [2, 2]
    assert not any(isinstance(node.operation, Call) for node in planned.graph.live)
    boxes = [group for group in planned.graph.groups if group.kind == "function"]
    assert [box.label for box in boxes] == ["outer", "pair"]
    np.testing.assert_array_equal(run(planned)[0], reference([outer(x)])[0])


@pytest.mark.spec("P-3", "P-5")
def test_an_output_of_a_function_that_nobody_reads_is_not_computed() -> None:
    planned = plan([pair(x, x)[0]])
    assert not any(node.operation.name == "exp" for node in planned.graph.live)
    assert codes(planned, "prune again") == ["unneeded"]


@pytest.mark.spec("P-5")
@pytest.mark.parametrize("limit", [0, 3, 8, 12, 200])
def test_a_call_that_is_too_large_to_open_runs_closed_with_the_same_values_and_gradients(limit: int) -> None:
    hidden = x * 3.0

    @ex.function
    def inside(a: Any) -> Any:
        return ex.tanh(a * hidden), a + hidden

    @ex.function
    def around(a: Any) -> Any:
        scaled = a * 0.5
        captured = ex.function(lambda b: b + scaled)
        first, second = inside(captured(a))
        return first + captured(second), a

    values = around(x)
    roots = [*values, ex.grad(values[0].sum(), x), values[0] + values[1]]
    planned = plan(roots, Options(inline=Inline(limit)))
    assert ("too_large" in [c.code for c in planned.graph.decisions]) == (limit < 200)
    for _ in range(2):
        for result, expected in zip(run(planned), reference(roots), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-14)


@pytest.mark.spec("P-5")
def test_a_closed_call_that_gives_back_its_operand_does_not_share_its_memory() -> None:
    same = ex.function(lambda a, b: (a, b + 1.0))
    inner = ex.tanh(x)
    first, second = same(inner, x)
    root = ex.exp(first) + second + ex.sin(ex.exp(second))
    planned = plan([root, first], Options(inline=Inline(0)))
    np.testing.assert_array_equal(run(planned)[0], reference([root])[0])
    np.testing.assert_array_equal(run(planned)[1], np.tanh(x.array))


@pytest.mark.spec("P-6", headline=True)
def test_chains_trees_and_epilogues_are_fused_and_the_saving_is_told() -> None:
    """Fuse elementwise chains and trees, epilogues into products, producers into reductions, with the bytes saved."""
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


@pytest.mark.spec("P-6", "P-15")
def test_each_refusal_to_fuse_has_its_code() -> None:
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
def test_a_second_product_is_refused_by_the_names_of_both_products() -> None:
    """The declined decision names the product that the kernel holds and the one that the operand comes from."""
    w, v = ex.tensor(np.ones((4, 4))), ex.tensor(np.ones((4, 4)) * 2)
    first, second = x @ w, x @ v
    through = ex.tanh(second)
    named = facts(plan([ex.relu(first) + through]), "second_product")
    assert (named["operand"], named["first"], named["second"]) == (through, first, second)
    itself = facts(plan([ex.relu(first) + second]), "second_product")
    assert itself["operand"] is itself["second"] is second


@pytest.mark.spec("P-6", "P-17")
def test_values_inside_a_kernel_are_not_counted_as_written() -> None:
    """The bytes written fall by what each fusion says it saves, and are those of the kernels' results."""
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
def test_a_product_that_needs_memory_of_its_own_is_not_told_as_saved() -> None:
    """A product of another dtype than the result is made whole, beside the result: no memory is saved."""
    single = ex.tensor(np.ones((30, 40), np.float32))
    w = ex.tensor(np.ones((40, 50), np.float32))
    planned = plan([ex.cast(single @ w, "float64")])
    assert (facts(planned, "epilogue")["temporaries"], facts(planned, "epilogue")["saved_bytes"]) == (0, 0)
    assert planned.schedule.kernels[-1].cost.workspace >= 30 * 50 * 4


@pytest.mark.spec("P-6")
def test_a_sum_that_grows_term_by_term_is_fused_in_linear_time() -> None:
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


@pytest.mark.spec("P-7")
def test_of_the_ready_kernels_the_earliest_recorded_is_picked_and_the_ready_set_is_kept() -> None:
    """Of the ready kernels the one recorded first is picked; what else was ready, and why this one, is kept."""
    late, early = ex.tensor(np.ones((3, 3))), ex.tensor(np.ones((3, 3)))
    first, second, third = early @ early, late @ late, early @ late
    planned = plan([third @ (second @ first)])
    kernels, picks = planned.schedule.kernels, planned.schedule.picks
    assert [kernel.result.uid for kernel in kernels] == sorted(kernel.result.uid for kernel in kernels)
    assert planned.schedule.levels == (1, 1, 1, 2, 3)
    assert [(pick.ready_count, pick.reason) for pick in picks] == [
        (3, "earliest"), (2, "earliest"), (2, "earliest"), (1, "only"), (1, "only")
    ]  # fmt: skip
    assert [len(pick.candidates) for pick in picks] == [3, 2, 2, 1, 1]
    assert [min(pick.candidates)[2] for pick in picks] == [kernel.result.uid for kernel in kernels]


@pytest.mark.spec("P-7")
def test_a_run_of_single_child_kernels_is_one_chain() -> None:
    a = ex.tensor(np.ones((3, 3)))
    left, right = ((a @ a) @ a) @ a, (a + 1.0) @ a
    planned = plan([left @ right])
    chains = planned.schedule.chains
    assert len(set(chains)) == 3
    assert max(chains.count(chain) for chain in chains) == 3


@pytest.mark.spec("P-8")
def test_dead_memory_is_used_again_and_elementwise_results_are_written_in_place() -> None:
    a = ex.tensor(np.random.default_rng(0).normal(size=(50, 50)))
    y = a
    for _ in range(10):
        y = ex.tanh(y @ a)
    planned = plan([y], Options(without=("fuse",)))
    assert codes(planned, "buffers") == ["reused", "reused", "in_place"]
    schedule = planned.schedule
    assert len(schedule.buffers) == 2
    in_place = facts(planned, "in_place")
    assert (in_place["count"], in_place["saved_bytes"]) == (9, 9 * 20_000)
    assert [getattr(node, "operation", node) for node in in_place["written"]][-1] == "6 more"
    assert [written.operands[0] for written in in_place["written"][:3]] == in_place["operands"][:3]
    assert (schedule.peak_lower_bound, schedule.peak_without_reuse) == (40_000, 19 * align_up(20_000) + 20_000)
    assert schedule.arena == sum(schedule.buffers) == 2 * align_up(20_000)
    assert schedule.peak == schedule.arena + 20_000  # what is handed out has memory of its own
    assert max(placement.live for placement in schedule.placements) == schedule.peak_lower_bound
    np.testing.assert_array_equal(run(planned)[0], reference([y])[0])


@pytest.mark.spec("P-8")
def test_no_operand_is_overwritten_while_a_view_of_it_is_read() -> None:
    """Operands of more than a block: a result written over one of them would be read by the blocks that follow."""
    side = 300
    assert side * side * 8 > BLOCK_BYTES
    a = ex.tensor(np.random.default_rng(0).normal(size=(side, side)) / side)
    hidden, other, third = a @ a, ex.tanh(a @ a + 1.0), a @ a @ a
    roots = [
        ((hidden + ex.transpose(hidden)) * 2.0 - 1.0) @ a,
        ((other[::-1] * other) * 2.0 - 1.0) @ a,
        (ex.tanh(third - ex.transpose(third)) + third) @ a,
    ]
    for without in ((), ("fuse",), ("fuse", "simplify"), ("dedup",)):
        for result, expected in zip(run(plan(roots, Options(without=without))), reference(roots), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.spec("P-9")
def test_options_are_checked() -> None:
    with pytest.raises(ex.UnknownNameError, match="fusing"):
        Options(without=("fusing",))
    with pytest.raises(ex.OperandError, match="order"):
        Options(without=("order",))
    with pytest.raises(ex.UnknownNameError, match="opne"):
        ex.EvalPlan(opne=Inline(3))


@pytest.mark.spec("P-2")
@pytest.mark.parametrize("without", [(), ("batch",), ("prune",), ("simplify",)])
@pytest.mark.parametrize("limit", [0, 500_000])
def test_a_call_whose_gradient_is_taken_is_not_computed_twice(limit: int, without: tuple[str, ...]) -> None:
    w = ex.tensor(np.random.default_rng(0).normal(size=(4, 4)))
    square = ex.function(lambda a: ex.square(a))
    h, losses = x, []
    for _ in range(3):
        h, other = pair(h @ w, h)
        losses += [h.sum(), other.sum(), square(h).sum()]
    roots = [h, *losses, ex.grad(ex.add_n(*losses), (w, x))[0], ex.grad(losses[0], x)]
    planned = plan(roots, Options(inline=Inline(limit), without=without))
    assert {c.facts["name"] for c in planned.graph.decisions if c.code == "augmented"} == {"pair"}
    if limit == 0 and not without:
        names = [k.result.operation.label for k in planned.schedule.kernels if isinstance(k.result.operation, Call)]
        assert names.count("pair") == 4  # three, and one more for the gradient of the first loss alone
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.spec("P-7")
def test_views_of_leaves_are_there_before_the_first_kernel() -> None:
    """A weight that is transposed or reshaped takes no step of the schedule; a view of an input or a result does."""
    parameter = Parameter(x.type, "input")()
    program = ex.tanh(x.T.reshape(2, 6)) + ex.transpose(ex.exp(parameter)).reshape(2, 6)
    planned = plan([program])
    assert [leaf.operation.name for leaf in planned.schedule.leaves] == ["tensor", "transpose", "reshape", "parameter"]
    names = [kernel.result.operation.name for kernel in planned.schedule.kernels]
    assert sorted(names) == ["add", "exp", "reshape", "tanh", "transpose"]


@pytest.mark.spec("P-8")
def test_temporaries_of_kernels_count_in_the_peak() -> None:
    images, filters = ex.tensor(np.ones((2, 3, 16, 16))), ex.tensor(np.ones((4, 3, 3, 3)))
    y = ex.conv2d(images, filters)
    schedule = plan([y]).schedule
    (kernel,), (placement,) = schedule.kernels, schedule.placements
    columns = y.operation.workspace(images.type, filters.type)
    assert columns >= 3 * 9 * 14 * 8  # the windows of a row at least
    assert (kernel.cost.workspace, placement.live) == (columns, columns + y.type.nbytes)
    (fused,) = plan([ex.exp(ex.tanh(y)) * ex.sin(y)], Options(without=("simplify",))).schedule.kernels[1:]
    assert fused.cost.workspace == 2 * 8 * y.size  # exp overwrites tanh, sin has a register, the product is the result
    chain = plan([ex.square(y).sum() + images.sum()]).schedule
    assert chain.peak_lower_bound == columns + y.type.nbytes
    assert chain.peak_lower_bound <= chain.peak <= chain.peak_without_reuse


@pytest.mark.spec("P-8")
def test_a_closed_call_needs_what_its_body_needs() -> None:
    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return (a @ a @ a).sum()

    call = f(ex.tensor(np.ones((64, 64))))
    closed = plan([call], Options(inline=Inline(0))).schedule
    opened = plan([call]).schedule
    assert (opened.peak_lower_bound, opened.peak) == (
        2 * 64 * 64 * 8,
        2 * 64 * 64 * 8 + 8,
    )  # the sum has memory of its own
    assert (closed.placements[0].live, closed.kernels[0].cost.scratch) == (opened.peak, opened.arena)


@pytest.mark.spec("P-2")
@pytest.mark.parametrize(("extreme", "numpys"), [(ex.maximum, np.maximum), (ex.minimum, np.minimum)])
def test_extremes_in_another_order_of_operands_are_computed_apart(extreme: Any, numpys: Any) -> None:
    """Of 0.0 and −0.0 they give the first: equal values, other bits. What commutes to the last bit is computed once."""
    a, b = ex.tensor([0.0, -0.0, 1.0]), ex.tensor([-0.0, 0.0, 2.0])
    planned = plan([extreme(a, b), extreme(b, a)])
    assert "order_of_zeros" in codes(planned, "dedup", applied=False)
    first, second = run(planned)
    assert first.tobytes() == numpys(a.array, b.array).tobytes()
    assert second.tobytes() == numpys(b.array, a.array).tobytes()
    assert "commuted" in codes(plan([a + b, b + a]), "dedup")


@pytest.mark.spec("P-2")
def test_parameters_of_one_name_and_type_are_values_of_their_own() -> None:
    first, second = (Parameter(ex.tensor(1.0).type, "x")() for _ in range(2))
    assert first.operation is second.operation
    plan = ex.EvalPlan()
    handle = plan.register(first - second * 3.0)
    plan.eval({first: np.array(10.0), second: np.array(2.0)})
    assert handle.data() == 4.0


@pytest.mark.spec("P-2", "P-4", "P-15")
@pytest.mark.parametrize("called", [False, True])
def test_effects_happen_for_each_that_was_written_in_each_run(called: bool) -> None:
    """They are neither merged, nor batched, nor computed once for all runs of a plan, although they read constants."""
    count = 12
    body = ex.function(lambda a: Counting()(a) * 2.0) if called else lambda a: Counting()(a) * 2.0
    given = Parameter(ex.tensor(np.zeros(3)).type, "x")()
    same = ex.tensor(np.ones(3))
    roots = [body(same if number % 2 else ex.tensor(np.full(3, number))) + given for number in range(count)]
    value = ex.EvalPlan()
    Counting.runs = 0
    for again in (1, 2):
        handles = [value.register(root) for root in roots]
        value.eval({given: np.full(3, 5.0)})
        assert Counting.runs == again * count
        expected = [7.0 if number % 2 else 2.0 * number + 5 for number in range(count)]
        assert [handle.data()[0] for handle in handles] == expected
    program = Program(plan(roots))
    Counting.runs = 0
    for again in (1, 2):
        program.bind({given: np.zeros(3)})
        run_simple(program)
        program.take()
        assert Counting.runs == again * count
