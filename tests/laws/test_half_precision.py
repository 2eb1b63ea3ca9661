"""float16 and bfloat16: operations that add elements accumulate in float32 and round once, and so do gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import explorer as ex
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import Array
from explorer.testing.laws.cases import Case
from tests.laws.cases import every_case, operations, parameters
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
SCALES = (1.0, 300.0, 1e-3)
CASES = [
    case
    for case in every_case()
    if type(case.operation).__module__.startswith("explorer.ops.")
    and not (case.operation.elementwise or case.operation.view)
    and any(array.dtype.kind == "f" for array in case.arrays())
]
BARE = ("algorithms", "batch", "constants", "dedup", "fuse", "join", "simplify")


def ulps(found: Array, exact: Array) -> float:
    """Return the largest error in units in the last place, or ∞ if only one of two values is finite."""
    limits: Any = ml_dtypes.finfo(found.dtype)  # type: ignore[no-untyped-call]  # the package has no types
    wide, exact = found.astype(np.float64), np.asarray(exact, np.float64)
    fits = np.abs(exact) < float(limits.max)
    # ±∞ is correct beyond the dtype's range
    error = np.where(fits, wide - exact, np.where(wide == np.copysign(np.inf, exact), 0, np.inf))
    spacing = np.maximum(np.abs(exact), float(limits.tiny)) * float(limits.eps)
    return float(np.max(np.abs(error) / np.where(fits, spacing, 1), initial=0))


def drawn(case: Case, half: np.dtype[Any], scale: float) -> list[Array]:
    return [(a * scale).astype(half) if a.dtype.kind == "f" else a for a in case.arrays()]


def exactly(arrays: list[Array]) -> list[Array]:
    return [array.astype(np.float64) if array.dtype in HALVES else array for array in arrays]


@pytest.mark.spec("U-6", headline=True)
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("case", parameters(CASES))
def test_an_operation_rounds_once(case: Case, half: np.dtype[Any]) -> None:
    """Accumulate float16 and bfloat16 in float32 in every operation that sums elements, and round once.

    Against float64 the error is half a unit in the last digit, and what float32 adds to that.
    """
    for scale in SCALES:
        arrays = drawn(case, half, scale)
        wide = exactly(arrays)
        with np.errstate(all="ignore"):
            exact = case.operation.compute(*wide)
            found = ex.evaluate(case.operation(*map(ex.tensor, arrays)))
        if found.dtype == half and np.isfinite(exact).all():
            # errors cancel badly for probabilities outside 0 … 1 and for nearly singular matrices
            assert ulps(found, exact) <= 0.6, (case.operation, scale)


@pytest.mark.spec("U-6")
def test_reductions_and_cumulative_operations_declare_accumulation() -> None:
    """Reductions that select an element are exempt."""
    exempt = {"max", "min", "all", "any", "argmax", "argmin", "argsort", "accumulated_in"}
    for operation_class in operations():
        for case in (each for each in CASES if type(each.operation) is operation_class):
            if case.operation.reduced_axes is not None and case.operation.name not in exempt:
                assert case.operation.accumulates, case.operation


def images(x: Any) -> Any:
    return ex.reshape(x, (1, 2, 64, 64))


def rows(x: Any) -> Any:
    return ex.reshape(x, (16, 512))


def volume(x: Any) -> Any:
    return ex.reshape(x, (1, 2, 16, 16, 16))


FILTERS = np.random.default_rng(1).integers(-4, 5, (3, 2, 3, 3, 3)) / 2
"""values that all dtypes can represent"""
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: ex.layer_norm(rows(x), epsilon=1e-12),
    "rms_norm": lambda x: ex.rms_norm(rows(x), epsilon=1e-12),
    "group_norm": lambda x: ex.group_norm(images(x), 2, epsilon=1e-12),
    "instance_norm": lambda x: ex.instance_norm(images(x), epsilon=1e-12),
    "normalize": lambda x: ex.normalize(rows(x)),
    "normalize 3": lambda x: ex.normalize(rows(x), 3),
    "local_response_norm": lambda x: ex.local_response_norm(images(x), 2, alpha=0.1),
    "var": lambda x: ex.var(rows(x), 1),
    "var corrected": lambda x: ex.var(rows(x), 0, ddof=1),
    "std": lambda x: ex.std(rows(x), 1),
    "vector_norm": lambda x: ex.vector_norm(rows(x), axis=1),
    "vector_norm 1": lambda x: ex.vector_norm(rows(x) / 64, 1, axis=1),
    "vector_norm 3": lambda x: ex.vector_norm(rows(x), 3, axis=1),
    "sum": lambda x: ex.sum(rows(x) / 64, 1),
    "sum of columns": lambda x: ex.sum(rows(x), 0),
    "mean": ex.mean,
    "prod": lambda x: ex.prod(ex.reshape(x / 64, (-1, 2)), 1),
    "cumsum": lambda x: ex.cumsum(rows(x) / 64, 1),
    "softmax": lambda x: ex.softmax(x / 64, 0),
    "log_softmax": lambda x: ex.log_softmax(x / 64, 0),
    "logsumexp": lambda x: ex.logsumexp(rows(x), 0),
    "avg_pool2d": lambda x: ex.avg_pool2d(images(x), 64),
    "avg_pool2d overlapping": lambda x: ex.avg_pool2d(images(x), 7, 3, 3, count_padding=False),
    "avg_pool3d": lambda x: ex.avg_pool3d(volume(x), 16),
    "adaptive_avg_pool2d": lambda x: ex.adaptive_avg_pool2d(images(x), (1, 3)),
    "adaptive_avg_pool3d": lambda x: ex.adaptive_avg_pool3d(volume(x), (1, 3, 2)),
    "conv3d": lambda x: ex.conv3d(volume(x) / 64, FILTERS.astype(x.dtype)),
    "conv_transpose3d": lambda x: ex.conv_transpose3d(volume(x) / 64, np.swapaxes(FILTERS, 0, 1).astype(x.dtype)),
    "fold": lambda x: ex.fold(ex.unfold(images(x) / 64, (5, 5)), (64, 64), (5, 5)),
    "einsum": lambda x: ex.einsum("ij,kj->ik", rows(x) / 64, rows(x) / 64),
    "resize": lambda x: ex.resize(images(x), (37, 90), method="cubic"),
    "attention": lambda x: ex.attention(rows(x), rows(x), rows(x), scale=1e-5),
    "mean squared error": lambda x: ex.train.MeanSquaredError().record(x, 0 * x),
}
SHAPE = (8192,)
POINTS = {
    "large": lambda half: np.random.default_rng(0).normal(size=SHAPE) * 300,
    "small": lambda half: np.random.default_rng(0).normal(size=SHAPE) * 1e-4 + 2.0**-6,
    "ones": lambda half: np.ones(SHAPE),
}


@pytest.mark.spec("U-6")
@pytest.mark.numpy_bits
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_composition_rounds_once(name: str, point: str, half: np.dtype[Any]) -> None:
    """Norms, statistics, pools and products equal the rounded float64 values; fusion changes no bit of their
    gradients."""
    narrow = POINTS[point](half).astype(half)
    results = []
    for x in (ex.tensor(narrow), ex.tensor(narrow.astype(np.float64))):
        y = PROGRAMS[name](x)
        weights = np.random.default_rng(2).normal(size=y.shape).astype(half).astype(y.dtype)
        results.append([y, ex.grad(y, x, seed=ex.tensor(weights))])
    with np.errstate(all="ignore"):
        found, exact = ex.evaluate(results[0]), ex.evaluate(results[1])
        for array, bare in zip(found, ex.evaluate(results[0], without=BARE), strict=True):
            np.testing.assert_array_equal(array.view(np.int16), bare.view(np.int16))
    assert found[0].dtype == found[1].dtype == half
    limits: Any = ml_dtypes.finfo(half)  # type: ignore[no-untyped-call]  # the package has no types
    for array, wanted, digits in zip(found, exact, (1, 4), strict=True):
        scale = np.abs(wanted).max(initial=0)
        if scale < float(limits.max):
            # cancelling sums have float32's error
            spacing = digits * float(limits.eps) * (scale if digits > 1 else np.abs(wanted))
            error = np.abs(array.astype(np.float64) - wanted)
            assert (error <= spacing + float(limits.smallest_subnormal) + 1e-6 * scale).all(), (array, wanted)
        else:
            assert ulps(array, wanted) <= 1, (array, wanted)


@pytest.mark.spec("U-6")
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_softmax_and_mean_of_a_hundred_thousand_elements(half: np.dtype[Any]) -> None:
    zeros, ones = ex.tensor(np.zeros(100_000, half)), ex.tensor(np.ones(100_000, half))
    spread, mean, gradient = ex.evaluate([ex.softmax(zeros), ones.mean(), ex.grad(ones.mean(), ones)])
    np.testing.assert_array_equal(spread, np.full(100_000, 1e-5).astype(half))
    np.testing.assert_array_equal(gradient, spread)
    assert mean == 1


def test_narrow_floats_accumulate_in_float32() -> None:
    """One-byte floats are included; integer types of other packages are not treated as floats."""
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        assert accumulator_dtype(np.dtype(getattr(ml_dtypes, name, name))) == np.float32
    for other in (np.dtype(ml_dtypes.int4), np.dtype(np.int8), np.dtype(np.float64), np.dtype(np.bool_)):
        assert accumulator_dtype(other) == other


@pytest.mark.parametrize("record", [ex.matmul, lambda a, b: ex.where(a > 0, a, b), lambda a, b: ex.stack([a, b])])
@pytest.mark.parametrize("other", [np.float16, np.int64])
def test_dtypes_without_a_common_dtype_raise_an_error(record: Callable[..., Any], other: Any) -> None:
    """NumPy promotes bfloat16 with neither float16 nor int64; the error names the operation."""
    a, b = ex.tensor(np.ones((2, 2), ml_dtypes.bfloat16)), ex.tensor(np.ones((2, 2), other))
    with refused(ex.OperandError, "common"):
        record(a, b)


def test_python_numbers_are_weak_next_to_bfloat16() -> None:
    """Python numbers and clip limits keep bfloat16, as in NumPy's ufuncs, and gradients are bfloat16."""
    x = ex.tensor(np.array([-1.0, 2.0, 3.0], ml_dtypes.bfloat16))
    for y in (x * 1.05, 0.3 + x, ex.clip(x, 0.1, 2.5), ex.relu6(x), ex.leaky_relu(x, 0.3), ex.selu(x), ex.mean(x)):
        value, gradient = ex.evaluate([y, ex.grad(y.sum(), x)])
        assert value.dtype == gradient.dtype == ml_dtypes.bfloat16


@pytest.mark.spec("U-6", "C-1")
@pytest.mark.parametrize("case", parameters([case for case in CASES if case.operation.accumulates]))
def test_a_half_precision_operation_gives_its_cpu_result_on_a_device(case: Case) -> None:
    """A device with NumPy-compatible arrays accumulates in float32, too."""
    arrays = drawn(case, HALVES[0], 1.0)
    there, here = (case.operation(*[ex.tensor(a, device=place) for a in arrays]) for place in (accelerator, ex.cpu))
    np.testing.assert_allclose(*(ex.evaluate([there, here], without=BARE)), rtol=2e-3, atol=1e-4)
