"""Reductions fused with their producers: shapes, axes, dtypes, layouts; memory, threads, failures."""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core import registry
from explorer.core.ir.function import Parameter
from explorer.plan import Options, Plan, plan
from explorer.plan.schedule import blocked_kernel
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.kernels.fused_reduction import FusedReduction
from explorer.run.runtime.thread_pool import threads

REDUCTIONS: dict[str, Callable[[Any, tuple[int, ...], bool], Any]] = {
    "sum": lambda x, axes, kept: ex.sum(x, axes, kept),
    "mean": lambda x, axes, kept: ex.mean(x, axes, kept),
    "prod": lambda x, axes, kept: ex.prod(x if x.dtype.kind == "i" else x * 0.001 + 1.0, axes, kept),
    "max": lambda x, axes, kept: ex.max(x, axes, kept),
    "min": lambda x, axes, kept: ex.min(x, axes, kept),
    "any": lambda x, axes, kept: ex.any(x > 0.5, axes, kept),
    "all": lambda x, axes, kept: ex.all(x > 0.5, axes, kept),
    "count": lambda x, axes, kept: ex.sum(x > 0.5, axes, kept),
    "norm": lambda x, axes, kept: ex.vector_norm(x, 2, axes, kept),
    "logsumexp": lambda x, axes, kept: ex.logsumexp(x, axes, kept),
    "softmax": lambda x, axes, kept: ex.softmax(x, axes),
    "log_softmax": lambda x, axes, kept: ex.log_softmax(x, axes),
    "argmax": lambda x, axes, kept: ex.argmax(x, axes[0], kept),
    "argmin": lambda x, axes, kept: ex.argmin(x, axes[0], kept),
}
SCALE = {"float16": 0.1, "float32": 1e-4, "float64": 1e-10, "complex64": 1e-4, "int32": 0.0}


def values(planned: Plan) -> Any:
    program = Program(planned)
    run_simple(program)
    (result,) = program.take()
    return result


def laid(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, random: np.random.Generator) -> Any:
    """Draw an operand of a shape, or one that broadcasts to it: row-major, transposed, or with gaps."""
    kind = draw(st.sampled_from(["whole", "turned", "gaps", "row", "column", "number", "fewer"]))
    if kind == "row":
        shape = (*[1] * (len(shape) - 1), *shape[-1:])
    elif kind == "column":
        shape = (*shape[:-1], *[1] * bool(shape))
    elif kind == "number":
        shape = ()
    elif kind == "fewer":
        shape = shape[1:]
    array = (random.normal(size=shape) * 3).astype(dtype)
    if kind == "turned":
        return ex.transpose(ex.tensor(np.ascontiguousarray(array.T)))
    if kind == "gaps" and shape:
        return ex.tensor(np.repeat(array, 2, axis=-1))[..., ::2]
    return ex.tensor(array)


@st.composite
def reduced(draw: st.DrawFn) -> tuple[Any, str, int, tuple[Any, ...]]:
    """Draw a reduction of a chain over operands of any layout, its dtype, the block size, and shape and axes."""
    rank = draw(st.integers(1, 4))
    size = st.one_of(st.integers(1, 12), st.sampled_from([0, 1, 1, 30, 65])) if rank > 1 else st.integers(0, 9000)
    shape = tuple(draw(size) for _ in range(rank))
    name = draw(st.sampled_from(sorted(REDUCTIONS)))
    dtype = draw(st.sampled_from(["float32", "float64", "float32", "float64", "float16", "int32", "complex64"]))
    axes = tuple(axis for axis in range(rank) if draw(st.booleans())) or (draw(st.integers(0, rank - 1)),)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    a, b = (laid(draw, shape, dtype, random) for _ in range(2))
    whole = ex.tensor((random.normal(size=shape) * 3).astype(dtype))
    chain = (whole * a - b) * 0.5 if dtype != "int32" else whole * a - b
    try:
        root = REDUCTIONS[name](chain, axes, draw(st.booleans()))
    except ex.OperandError:  # complex numbers have no order, and empty arrays no maximum
        root = ex.sum(chain, axes)
    return root, dtype, draw(st.sampled_from([2048, 1 << 14, 1 << 21])), (name, shape, axes)


@pytest.mark.spec("P-6")
@given(reduced())
def test_reductions_with_their_producers_give_what_they_give_alone(
    given: tuple[Any, str, int, tuple[Any, ...]],
) -> None:
    """Every reduction, shape, axes, dtype and layout: as without fusing; the same bits where the decision says so."""
    root, dtype, size, _ = given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked_kernel, "REDUCED_BYTES", size)
        fused = plan([root])
        numbers = values(fused)
    expected = values(plan([root], Options(without=("fuse",))))
    assert numbers.dtype == expected.dtype
    decisions = [decision for decision in fused.graph.decisions if decision.rule == "Prologue" and decision.applied]
    if all(decision.facts["same_bits"] for decision in decisions):
        np.testing.assert_array_equal(numbers, expected)
    else:
        largest = max(1.0, float(np.abs(expected).max(initial=0.0))) if np.isfinite(expected).all() else 1.0
        scale = SCALE[dtype] if numbers.dtype != np.float64 else SCALE["float64"]
        np.testing.assert_allclose(numbers, expected, rtol=scale, atol=scale * largest, equal_nan=True)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3_000_000,), (0,)),
        ((1500, 2000), (0, 1)),
        ((1500, 2000), (0,)),
        ((1500, 2000), (1,)),
        ((1_000_000, 3), (0,)),
        ((3, 1_000_000), (1,)),
        ((2, 3, 500_000), (0, 2)),
        ((100, 300, 100), (0, 2)),
        ((100, 300, 100), (1,)),
        ((30, 10, 100, 100), (0, 2, 3)),
    ],
)
def test_a_sum_of_millions_is_as_accurate_as_numpys(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    """Errors stay below the bound of pairwise summation, or of NumPy's method over axes."""
    random = np.random.default_rng(7)
    x, y = (random.random(shape).astype(dtype) for _ in range(2))
    product = x * y
    planned = plan([ex.sum(ex.tensor(x) * ex.tensor(y), axes)])
    assert len(planned.schedule.kernels) == 1
    numbers, alone = values(planned), np.add.reduce(product, axes)
    exact = product.astype(np.longdouble).sum(axes)
    errors = [np.max(np.abs(result - exact) / exact) for result in (numbers, alone)]
    count = math.prod([shape[axis] for axis in axes])
    last = len(shape) - 1 in axes
    assert errors[0] <= np.finfo(dtype).eps * (math.log2(count) + 16 if last and len(axes) == 1 else count / 4)
    assert errors[0] <= 1.5 * errors[1] + np.finfo(dtype).eps


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "logsumexp", "norm"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_nan_and_infinity_pass_through_blocks(
    name: str, special: float, axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN and ±∞ in any block affect the result as in a separate reduction; ∞ − ∞ is NaN."""
    x = np.random.default_rng(0).uniform(1.9, 2.1, (90, 70))  # so that halved products stay in range
    x[77, 3] = special
    for further in (0.0, -special):
        x[5, 60] = further
        root = REDUCTIONS[name](ex.tensor(x) * 0.5, axes, False)
        monkeypatch.setattr(blocked_kernel, "REDUCED_BYTES", 2048)
        fused = plan([root])
        assert max(decision.facts.get("blocks", 1) for decision in fused.graph.decisions) > 4
        with np.errstate(all="ignore"):
            expected = values(plan([root], Options(without=("fuse",))))
            np.testing.assert_allclose(values(fused), expected, rtol=1e-12)


@pytest.mark.spec("P-6")
def test_half_precision_does_not_overflow_in_partial_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of halves whose sum exceeds 65,504 is finite."""
    monkeypatch.setattr(blocked_kernel, "REDUCED_BYTES", 2048)
    x = ex.tensor(np.full((300, 400), 300.0, np.float16))
    for axes in (None, 0, 1):
        np.testing.assert_array_equal(values(plan([ex.mean(x * 2.0, axes)])), np.float16(600))


@pytest.mark.spec("P-6", "P-11")
@pytest.mark.parametrize("executor", ["simple", "dag"])
def test_executors_and_threads_give_the_same_bits(executor: str) -> None:
    """Blocks depend only on shapes: one thread, two, and concurrent kernels give equal sums."""
    from threadpoolctl import threadpool_limits

    x, y = (ex.tensor(np.random.default_rng(seed).normal(size=(1200, 1100)).astype(np.float32)) for seed in range(2))
    roots = [(x * y).sum(), (x - y).mean(axis=0), ex.max(ex.absolute(x + y), 1), ex.logsumexp(x * 2.0)]

    def found() -> list[Any]:
        held = ex.EvalPlan(executor=executor, lanes=2 if executor == "dag" else 1)
        handles = [held.register(root) for root in roots]
        held.eval()
        return [handle.data() for handle in handles]

    several = found()
    with threadpool_limits(1):
        assert threads() == 1
        alone = found()
    for one, other, root in zip(several, alone, roots, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, ex.evaluate(root, without=["fuse"]), rtol=2e-4, atol=1e-5)


@pytest.mark.spec("P-6", "P-8")
@pytest.mark.parametrize("axes", [None, 0, 1])
def test_a_second_run_of_a_reduction_allocates_only_its_result(axes: int | None) -> None:
    """Registers belong to a thread, partial values are in the arena, so NumPy allocates little else."""
    x = Parameter(ex.TensorType((2000, 1500), np.dtype(np.float32)), "x")()
    program = Program(plan([ex.sum(ex.sin(x) * x, axes)]))
    assert [type(runner) for runner, _ in program.runners] == [FusedReduction]
    given = np.ones((2000, 1500), np.float32)

    def run() -> Any:
        program.bind({x: given})
        run_simple(program)
        return program.take()[0]

    run()
    gc.collect()
    tracemalloc.start()
    try:
        result = run()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(result, np.sum(np.sin(given) * given, axes), rtol=1e-4)
    assert most < result.nbytes + 2 * program.planned.schedule.arena + 100_000 < given.nbytes / 50


@pytest.mark.spec("P-6")
def test_the_failing_operation_before_a_reduction_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in a block is attributed to its operation, together with the kernel."""

    class FailsBelowZero(ex.Elementwise):
        """x, unless a number is below 0."""

        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3, low=0.1)),)

        def kernel(self, out: Any, x: Any) -> Any:
            if (x < 0).any():
                raise ValueError("below zero")
            np.copyto(out, x)
            return out

    try:
        monkeypatch.setattr(blocked_kernel, "REDUCED_BYTES", 2048)
        x = Parameter(ex.TensorType((70, 80), np.dtype(float)), "x")()
        program = Program(plan([ex.sum(FailsBelowZero()(x * 2.0), 0)]))
        given = np.ones((70, 80))
        for value in (-1.0, 1.0, -1.0):
            given[60, 7] = value
            program.bind({x: given})
            if value < 0:
                with pytest.raises(ex.RunError, match=r"^fails_below_zero of .*\(in the kernel multiply"):
                    run_simple(program)
            else:
                run_simple(program)
                np.testing.assert_array_equal(program.take()[0], np.full(80, 140.0))
    finally:
        del registry.operations["fails_below_zero"]


@pytest.mark.spec("P-6", "M-O2")
def test_a_user_defined_reduction_is_fused_with_its_producers() -> None:
    """It declares its axes and how to combine partial values."""

    class Span(ex.Operation):
        """The range of the elements along the last axis."""

        nondifferentiable = unbatchable = "a test"
        examples = (ex.Example(ex.real(3, 4)),)

        def infer(self, x: ex.TensorType) -> ex.TensorType:
            return x.with_shape(x.shape[:-1])

        def kernel(self, out: Any, x: Any) -> Any:
            return np.subtract(x.max(axis=-1), x.min(axis=-1), out=out)

        def flops(self, result: Any, *types: Any) -> int:
            return 2 * int(types[0].size)

        @property
        def reduced_axes(self) -> tuple[int, ...]:
            return (1,)

    try:
        x = np.random.default_rng(0).normal(size=(3000, 1000)).astype(np.float32)
        planned = plan([Span()(ex.tanh(ex.tensor(x) * 2.0))])
        assert [len(kernel.nodes) for kernel in planned.schedule.kernels] == [3]
        np.testing.assert_array_equal(values(planned), np.ptp(np.tanh(x * np.float32(2)), axis=-1))
    finally:
        del registry.operations["span"]


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1 << 22,), (3, 1 << 20), (1_500_001,)])
def test_halves_of_rows_combine_to_the_bits_of_numpys_sum(shape: tuple[int, ...], dtype: str) -> None:
    growing = np.geomspace(1.0, 1e4, shape[-1])  # another order would give other last bits
    values = (np.random.default_rng(0).normal(size=shape) * growing).astype(dtype)
    result = ex.evaluate(ex.absolute(ex.tensor(values)).sum(axis=-1), executor="simple")
    np.testing.assert_array_equal(result, np.abs(values).sum(axis=-1))


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("axes", [(0, 3), (0, 2), (2, 3), (1, 3), (0,), (3,)])
@pytest.mark.parametrize("shape", [(6, 12, 33, 130), (32, 2, 4, 4100)])
def test_channels_last_images_are_combined_along_the_right_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).normal(size=shape)
    pooled = ex.max_pool2d(ex.tensor(images), (2, 1), (1, 1))
    result = ex.evaluate(ex.exp(pooled).sum(axis=axes))
    np.testing.assert_allclose(
        result, np.exp(np.maximum(images[:, :, 1:], images[:, :, :-1])).sum(axis=axes), rtol=1e-12
    )
