"""Reductions in the fuse pass: what joins their kernels, how it is reported, and what memory it needs."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.tiles import KEPT_BYTES
from explorer.plan import Options, Plan, plan
from explorer.plan.schedule.blocked_kernel import REDUCED_BYTES
from explorer.plan.schedule.schedule import Kernel, align_up
from explorer.plan.schedule.tiling import Tiling
from tests.support.execution import run
from tests.support.interpreter import reference

random = np.random.default_rng(0)
x, y = (ex.tensor(random.normal(size=(30, 40)), name=name) for name in "xy")


def choices(planned: Plan) -> list[Any]:
    return [decision for decision in planned.graph.decisions if decision.rule == "Prologue"]


def cutting_of(kernel: Kernel) -> Tiling:
    assert kernel.blocks is not None
    assert kernel.blocks.tiling is not None
    return kernel.blocks.tiling


@pytest.mark.spec("P-6")
def test_producers_read_only_by_a_reduction_are_fused_and_the_saving_is_reported() -> None:
    """A chain or tree runs in the reduction's kernel; the decision names the values never written."""
    planned = plan([(ex.tanh(x) * ex.sin(y) - 1.0).sum(axis=1)])
    (choice,) = choices(planned)
    assert (choice.applied, choice.code) == (True, "reduction")
    assert choice.facts == {
        "operations": "tanh → sin → multiply → subtract → sum",
        "given": "float64",
        "last": "sum",
        "count": 5,
        "shape": "30×40",
        "temporaries": 4,
        "saved_bytes": 4 * 30 * 40 * 8,
        "blocks": 1,
        "parts": False,
        "same_bits": True,
    }
    (kernel,) = planned.schedule.kernels
    assert kernel.result.operation.name == "sum"
    assert kernel.cost.workspace == 2 * 30 * 40 * 8  # the registers of one block
    assert (planned.schedule.arena, kernel.cost.scratch) == (0, 0)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "blocks", "parts", "same"),
    [
        ((40,), 0, "float32", {1}, False, True),
        ((1 << 22,), 0, "float32", {8}, True, True),
        ((1024, 4096), 1, "float32", {8}, False, True),
        ((1 << 21, 2), 0, "float32", {8}, True, False),
        ((1 << 22,), 0, "float16", {4}, True, False),
        ((1 << 21, 2), 0, "int32", range(2, 64), True, True),
    ],
)
def test_the_partition_of_a_reduction_is_reported(
    shape: tuple[int, ...], axes: int, dtype: str, blocks: Container[int], parts: bool, same: bool
) -> None:
    """The decision states whether rows stay whole, and whether partial sums have the bits of NumPy's sum."""
    values = ex.broadcast_to(ex.tensor(np.ones(1, dtype)), shape)
    held = ex.EvalPlan()
    held.register(ex.absolute(values).sum(axis=axes))
    recording = held.prepare().recording
    (decision,) = [decision for decision in recording.decisions if decision.rule == "Prologue"]
    assert decision.facts["blocks"] in blocks
    assert (decision.facts["parts"], decision.facts["same_bits"]) == (parts, same)
    assert recording.reason(decision) in held.explain()


@pytest.mark.spec("P-6", "P-15")
@pytest.mark.parametrize(
    ("code", "roots"),
    [
        ("asked_for", lambda: [value := ex.tanh(x), value.sum()]),
        ("other_consumers", lambda: [(value := ex.tanh(x) * 2.0).mean(), ex.max(value)]),
        ("product", lambda: [ex.relu(x @ ex.transpose(y)).sum()]),
        ("view", lambda: [ex.transpose(ex.tanh(x)).sum(axis=0)]),
        ("long_rows", lambda: [ex.softmax(ex.tanh(ex.broadcast_to(x[:, :1], (30, 1 << 20))))]),
        ("too_large", lambda: [ex.tanh(ex.broadcast_to(x[:, :1], (30, 1 << 40))).sum()]),
    ],
)
def test_each_declined_fusion_of_a_reduction_has_its_code(code: str, roots: Any) -> None:
    """The reason is attached to the operand's edge."""
    planned = plan(roots())
    result = choices(planned)
    assert {choice.code for choice in result} == {code}
    for choice in result:
        assert not choice.applied
        assert all(operand.operation.elementwise for operand, _ in choice.unfused_edges)
        uids = {node.uid for node in choice.subjects}
        assert uids == {node.uid for between in choice.unfused_edges for node in between}


@pytest.mark.spec("P-6", "P-15")
def test_mean_and_variance_of_one_chain_are_declined_with_the_reason() -> None:
    """Two reductions read the chain from memory, because fusing would compute it twice."""
    chain = ex.tanh(x) + y
    planned = plan([ex.mean(chain), ex.var(chain)])
    declined = [choice for choice in choices(planned) if not choice.applied]
    assert [choice.code for choice in declined] == ["other_consumers"]
    assert declined[0].facts["consumers"] == 3  # two means, with and without the kept axes, and the difference
    taken = [choice for choice in choices(planned) if choice.applied]
    assert [choice.facts["operations"] for choice in taken] == ["subtract → square → mean"]


@pytest.mark.spec("P-6")
def test_constants_are_not_fused_into_a_reduction_that_runs_each_time() -> None:
    """Other chains next to the constant one are fused."""
    given = Parameter(x.type, "given")()
    constant, varying = ex.tanh(y), ex.sin(given)
    planned = plan([ex.softmax_gradient(varying, constant)])
    codes = {choice.code: choice for choice in choices(planned)}
    assert set(codes) == {"computed_once", "reduction"}
    assert codes["reduction"].subjects[0] is varying
    once = plan([(constant * 2.0).sum() + given])
    (choice,) = choices(once)
    assert choice.applied
    assert [kernel.constant for kernel in once.schedule.kernels] == [True, False]


@pytest.mark.spec("P-6")
def test_both_operands_of_a_reduction_join_its_kernel() -> None:
    """The gradient of a softmax reads two chains, and both run in its kernel."""
    planned = plan([ex.softmax_gradient(ex.sin(x) * 2.0, ex.tanh(y))])
    (kernel,) = planned.schedule.kernels
    assert len(kernel.nodes) == 4
    twice = ex.tanh(x)
    same = plan([ex.softmax_gradient(twice, twice)])
    assert [len(kernel.nodes) for kernel in same.schedule.kernels] == [2]
    for each in (planned, same):
        np.testing.assert_array_equal(run(each)[0], reference(each.graph.recorded_roots)[0])


@pytest.mark.spec("P-6", "P-8")
def test_the_memory_of_a_reduction_is_planned() -> None:
    """The peak includes the registers of a block and all partial values, but not the chain's result."""
    shape = (1 << 13, 1 << 10)
    wide = ex.broadcast_to(ex.tensor(np.ones(1, np.float32)), shape)
    planned = plan([ex.tanh(ex.sin(wide) + 1.0).sum(axis=0)])
    (kernel,) = planned.schedule.kernels
    parts = cutting_of(kernel).parts
    assert parts[1] == 1 << 10
    assert kernel.cost.scratch == 4 * parts[0] * parts[1] < 4 * shape[0] * shape[1] / 50
    assert kernel.cost.workspace == kernel.cost.scratch + REDUCED_BYTES
    assert planned.schedule.arena == align_up(kernel.cost.scratch)
    assert planned.schedule.peak_lower_bound == planned.schedule.peak == kernel.cost.workspace + kernel.cost.bytes
    assert planned.schedule.peak < 0.1 * plan([kernel.result], Options(without=("fuse",))).schedule.peak


@pytest.mark.spec("P-6", "P-8")
def test_blocks_are_smaller_if_there_are_many_intermediate_values() -> None:
    """All registers of a wide tree fit into a thread's memory."""
    wide = ex.broadcast_to(ex.tensor(np.ones(1, np.float32)), (1 << 11, 1 << 10))
    terms = [ex.absolute(wide * (1 + 1 / factor)) for factor in range(2, 34)]
    while len(terms) > 1:
        terms = [first * second for first, second in zip(terms[0::2], terms[1::2], strict=True)]
    few, many = (plan([root], Options(without=("batch",))) for root in (ex.absolute(wide).sum(), terms[0].sum()))
    (kernel,) = many.schedule.kernels
    assert kernel.blocks is not None
    assert len(kernel.blocks.registers) > 4
    assert kernel.cost.workspace - kernel.cost.scratch <= KEPT_BYTES // 2
    assert cutting_of(kernel).elements < cutting_of(few.schedule.kernels[0]).elements


@pytest.mark.spec("P-6", "P-18")
def test_a_change_that_would_fuse_an_operand_of_a_reduction_is_found() -> None:
    """For a declined decision it is a single reader, or a value that is no longer requested."""
    value = ex.tanh(x)
    for roots, said in (
        ([value, value.sum()], "not requested"),
        ([value.sum(), ex.cumsum(value, 0)], "sum alone read tanh"),
    ):
        held = ex.EvalPlan()
        for root in roots:
            held.register(root)
        held.prepare()
        (declined,) = [decision for decision in held.recording.declined if decision.rule == "Prologue"]
        change = held.what_if(declined).change
        assert change is not None
        assert said in change.change


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(
    ("build", "kernels"),
    [
        (lambda: ex.layer_norm(x), [["mean"], ["subtract"], ["square", "mean"], ["add", "rsqrt"], ["multiply"]]),
        (lambda: ex.mean(ex.square(x - y)), [["subtract", "square", "mean"]]),
        (lambda: ex.sqrt(ex.sum(ex.square(x))), [["square", "sum"], ["sqrt"]]),
        (lambda: ex.sum(x * y), [["multiply", "sum"]]),
        (lambda: ex.vector_norm(x, 2.5), [["absolute", "power", "sum"], ["equal"], ["where", "power", "where"]]),
        (lambda: ex.logsumexp(x * 2.0), [["multiply", "logsumexp"]]),
        (lambda: ex.argmax(ex.absolute(x), 1), [["absolute", "argmax"]]),
        (
            lambda: (e := ex.exp(x - ex.max(x, 1, True))) / ex.sum(e, 1, True),
            [["max"], ["subtract", "softmax"]],
        ),
    ],
)
def test_common_formulas_with_reductions_are_fused(build: Any, kernels: list[list[str]]) -> None:
    """In layer norm, mean squared error, norms, and softmax by hand, each reduction is fused with its producers."""
    root = build()
    planned = plan([root])
    results = [[node.operation.name for node in kernel.nodes] for kernel in planned.schedule.kernels]
    assert results == kernels
    np.testing.assert_allclose(run(planned)[0], reference([root])[0], rtol=1e-12)


@pytest.mark.spec("P-6")
def test_channels_last_images_are_reduced_in_their_layout() -> None:
    """The producers of a reduction keep the memory layout of the convolution's result."""
    images = Parameter(ex.TensorType((2, 3, 40, 40), np.float32), "images")()
    filters = ex.tensor(random.normal(size=(8, 3, 3, 3)).astype(np.float32))
    hidden = ex.conv2d(images, filters)
    planned = plan([ex.mean(ex.tanh(hidden) * 2.0, (2, 3)), hidden.sum()])
    (kernel,) = [kernel for kernel in planned.schedule.kernels if len(kernel.nodes) == 3]
    assert cutting_of(kernel).order == (0, 2, 3, 1)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(("dtype", "same"), [("float64", True), ("int64", False), ("float32", True)])
def test_exact_bits_are_promised_only_without_dtype_conversion(dtype: str, same: bool) -> None:
    """NumPy converts piece by piece, so that its pairwise summation splits other runs."""
    values = ex.broadcast_to(ex.tensor(np.ones(1, dtype)), (1 << 22,))
    held = ex.EvalPlan()
    held.register(ex.absolute(values).mean())
    (decision,) = [decision for decision in held.prepare().recording.decisions if decision.rule == "Prologue"]
    assert decision.facts["parts"]
    assert decision.facts["same_bits"] is same
