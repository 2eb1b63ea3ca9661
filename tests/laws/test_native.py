"""Compiled kernels compute NumPy's values: for every operation with a C expression, and for random programs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.core.pytree import flatten
from explorer.core.types.tensor_type import Array
from explorer.ops.base import Elementwise
from explorer.ops.control.recurrence import recurrence
from explorer.ops.control.scan import Scan, scan_operands
from explorer.plan.codegen.elements import has_expression, has_rows
from explorer.plan.graph import compiled_price
from explorer.plan.graph.cost_model import CostModel
from explorer.run.native import library
from explorer.testing.laws.cases import Case, floating
from explorer.testing.laws.method_laws import patterns, weights_of
from tests.golden.programs import PROGRAMS
from tests.laws.cases import every_case
from tests.support.native_kernels import without_compiler
from tests.support.representatives import representatives

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.8, -104.5, 0.5, 2.5, -3.0, 6.0)
EXACT = {"abs", "floor", "ceil", "trunc", "rint", "sqrt", "maximum", "minimum"}
"""C functions with the bits of NumPy's"""
DECLARED = [case for case in every_case() if isinstance(case.operation, Elementwise) and has_expression(case.operation)]
WITH_ROWS = [case for case in every_case() if has_rows(case.operation)]
UNARY = (ex.tanh, ex.exp, ex.sigmoid, ex.relu, ex.absolute, ex.square, ex.erf, ex.negative)
BINARY = (ex.add, ex.subtract, ex.multiply, ex.maximum, ex.minimum)


@pytest.fixture(autouse=True, scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compile small kernels, too, in a temporary folder; skip, or fail in CI, without a C compiler."""
    if library.compiler() is None:
        if os.environ.get("CI"):
            pytest.fail("no C compiler in PATH: apt-get install gcc libc6-dev")
        pytest.skip("no C compiler in PATH")
    folder: Path = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "cache_folder", lambda: folder)
        patch.setattr(compiled_price, "COMPILED", CostModel(call=0.0, flops=math.inf))
        library.library.cache_clear()
        yield
    library.library.cache_clear()


def operands(case: Case, dtype: str, random: np.random.Generator) -> list[ex.Expr]:
    """Return operands with special numbers in all combinations of the first two."""
    arrays = []
    for index, example in enumerate(case.arrays(dtype, 0)):
        if example.dtype.kind == "b":
            array = random.integers(0, 2, (40, 40)).astype(bool)
        else:
            array = (random.normal(size=(40, 40)) * 4).astype(dtype)
            corner = np.array(SPECIAL, dtype)
            array[: len(SPECIAL), : len(SPECIAL)] = corner[:, None] if index else corner
        arrays.append(ex.tensor(array))
    return arrays


def is_exact(operation: Elementwise, dtype: str, count: int) -> bool:
    """Return whether the C expression only rounds where NumPy rounds."""
    suffix = "f64" if dtype == "float64" else "f32"
    called = re.findall(rf"(\w+)_{suffix}\(", operation.c_expression(suffix, *["x"] * count))
    return EXACT.issuperset(called)


def same_bits(value: Array, expected: Array) -> bool:
    """Return whether two arrays have the same numbers and signs of zeros; any two NaNs are equal."""
    if value.dtype.kind != "f":
        return bool(np.array_equal(value, expected))
    unlike = (value.view(f"i{value.itemsize}") != expected.view(f"i{value.itemsize}")) & ~(
        np.isnan(value) & np.isnan(expected)
    )
    return not unlike.any()


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_every_c_expression_computes_the_values_of_its_kernel(dtype: str) -> None:
    """Arithmetic has NumPy's bits, also for NaN, infinities, subnormal numbers and signed zeros."""
    assert len({case.operation.name for case in DECLARED}) > 45
    random, roots, tested = np.random.default_rng(0), [], []
    for case in DECLARED:
        root = case.operation(*operands(case, dtype, random))
        if root.dtype.name in (dtype, "bool"):
            tested.append((case.operation, len(root.operands)))
            roots.append(ex.logical_not(root) if root.dtype == bool else -root)
    plan = ex.EvalPlan(kernels="native", without=["simplify", "dedup", "batch"])
    handles = [plan.register(root) for root in roots]
    plan.eval()
    compiled = {node for kernel in plan.recording.codes for node in plan.recording.schedule.kernels[kernel].nodes}
    assert len(compiled) >= 2 * (40 if dtype == "float32" else 30)
    expected = ex.evaluate(roots, without=["simplify", "dedup", "batch"])
    faults = []
    for (operation, count), handle, right in zip(tested, handles, expected, strict=True):
        assert isinstance(operation, Elementwise)
        value = handle.data()
        if is_exact(operation, dtype, count):
            agrees = same_bits(value, right)
        else:
            agrees = np.allclose(value, right, rtol=2e-6, atol=1e-6, equal_nan=True)
        if not agrees:
            rows = np.argwhere(~np.isclose(value, right, rtol=0, atol=0, equal_nan=True))[:3]
            faults.append((operation, [(value[tuple(row)], right[tuple(row)]) for row in rows]))
    assert not faults


@st.composite
def chains(draw: st.DrawFn) -> list[ex.Expr]:
    """Draw elementwise programs on operands that are broadcast, transposed, reversed and read several times."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = draw(st.sampled_from([(7,), (5, 6), (3, 4, 5), (2, 3, 4, 5)]))

    def leaf() -> ex.Expr:
        kept = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
        sizes = [size if keep else 1 for size, keep in zip(shape, kept, strict=True)]
        array = random.normal(size=sizes).astype(np.float32)
        layout = draw(st.integers(0, 3))
        if layout == 1:
            array = np.asfortranarray(array)
        elif layout == 2:
            array = array[::-1]
        x = ex.tensor(array[0] if layout == 3 and sizes[0] == 1 and len(sizes) > 1 else array)
        return x + 1 if draw(st.booleans()) else x

    nodes = [ex.tensor(random.normal(size=shape).astype(np.float32)), leaf(), leaf()]
    for _ in range(draw(st.integers(2, 9))):
        x, y = (nodes[-1 - draw(st.integers(0, min(3, len(nodes) - 1)))] for _ in range(2))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            nodes.append(draw(st.sampled_from(UNARY))(x))
        elif kind == 1:
            nodes.append(ex.where(x > y, x, y * 0.5))
        else:
            nodes.append(draw(st.sampled_from(BINARY))(x, y))
    return [nodes[-1], nodes[draw(st.integers(0, len(nodes) - 1))] * 2 - 1]


@pytest.mark.spec("K-1", "K-4")
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(roots=chains())
def test_random_programs_have_the_values_of_numpy(roots: list[ex.Expr]) -> None:
    expected = ex.evaluate(roots)
    for value, right in zip(ex.evaluate(roots, kernels="native"), expected, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operations_after_every_product_have_the_values_of_numpy(dtype: str) -> None:
    """Whatever the tiles of a product are, the following operations are computed once for each element."""
    cases = [case for case in every_case() if case.operation.is_tileable]
    assert len({case.operation.name for case in cases}) > 5
    options: Any = {"without": ["simplify", "dedup", "batch"]}
    for case in cases:
        y = case.operation(*case.arrays(dtype, 0))
        if y.dtype == dtype:
            for root in (y * 3 + 1, -ex.transpose(y * 3 + 1)):
                value = ex.evaluate(root, kernels="native", **options)
                right = ex.evaluate(root, **options)
                np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5, err_msg=f"{case.operation}")


def gradients(case: Case, dtype: str) -> list[ex.Expr]:
    """Return the first and second gradients of an operation, if it has some."""
    operands, indices = [ex.tensor(array) for array in case.arrays(dtype)], floating(case.example)
    result = case.operation(*operands)
    if case.operation.nondifferentiable or not indices or result.type.dtype != dtype:
        return []
    inputs = [operands[index] for index in indices]
    first = ex.grad(result, inputs, seed=weights_of(case).astype(dtype))
    total = sum([(gradient * (number + 0.5)).sum() for number, gradient in enumerate(first)])
    return [*first, *ex.grad(total, inputs)]


def batches(case: Case, dtype: str) -> list[ex.Expr]:
    """Return the batched form of an operation for all combinations of batched operands, if it has one."""
    results = []
    for batched in [] if case.operation.unbatchable else patterns(len(case.example.operands)):
        members = [case.arrays(dtype, seed) for seed in range(3)]
        operands = [
            np.stack(arrays) if is_batched else arrays[0]
            for is_batched, arrays in zip(batched, zip(*members, strict=True), strict=True)
        ]
        results.append(case.operation.batch(3, batched, *map(ex.tensor, operands)))
    return results


FORMS = [(form, dtype) for form in (gradients, batches) for dtype in ("float32", "float64")]


@pytest.mark.spec("K-4")
@pytest.mark.parametrize(("form", "dtype"), representatives(FORMS, [(gradients, "float32"), (batches, "float32")]))
@np.errstate(all="ignore")
def test_gradients_and_batches_of_every_operation_have_the_values_of_numpy(form: Any, dtype: str) -> None:
    """The kernels of many operations are one plan, so that they are compiled together."""
    cases = [(case, root) for case in every_case() for root in form(case, dtype)]
    tolerance, compiled = 64 * np.finfo(dtype).eps, 0
    for first in range(0, len(cases), 200):
        part = cases[first : first + 200]
        plan = ex.EvalPlan(kernels="native", without=["batch"])
        handles = [plan.register(root) for _, root in part]
        plan.eval()
        compiled += len(plan.recording.codes)
        expected = ex.evaluate([root for _, root in part], without=["batch"])
        for (case, root), handle, right in zip(part, handles, expected, strict=True):
            value = handle.data()
            assert value.dtype == root.type.dtype
            np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance, err_msg=f"{case.operation}")
    assert compiled > 50


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_programs_have_the_values_of_numpy(name: str) -> None:
    build, options = PROGRAMS[name]
    for value, right in zip(
        ex.evaluate(build(), kernels="native", **options), ex.evaluate(build(), **options), strict=True
    ):
        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-6)


def with_special_numbers(array: Array, random: np.random.Generator) -> Array:
    """Return an array in which some elements are special numbers, but none whose sums overflow in some orders."""
    special = np.array([number for number in SPECIAL if not 1e30 < abs(number) < np.inf], array.dtype)
    return np.where(random.random(array.shape) < 0.02, random.choice(special, array.shape), array)


def windows(random: np.random.Generator) -> tuple[list[ex.Expr], list[ex.Expr]]:
    """Return random convolutions and poolings, and their results with the absolute values of all operands."""
    dtype = random.choice(["float32", "float64"])
    size, strides, dilation = (tuple(map(int, random.integers(1, 4, 2))) for _ in range(3))
    padding = tuple((int(random.integers(0, step // 2 + 1)), int(random.integers(0, step // 2 + 1))) for step in size)
    n, channels, filters = (int(random.integers(1, most)) for most in (4, 5, 21))
    ceil, counts = (bool(random.integers(2)) for _ in range(2))

    def numbers(*shape: int) -> Array:
        array: Array = random.normal(size=shape).astype(dtype)
        return with_special_numbers(array, random) if random.integers(2) else array

    images, few = numbers(n, channels, 19, 17), numbers(filters, channels, 2, 3)
    depthwise, bias = numbers(filters, 1, *size), numbers(filters, 1, 1)

    def build(of: Any) -> list[ex.Expr]:
        x, first, second, third = (ex.tensor(of(array)) for array in (images, few, depthwise, bias))
        y = ex.conv2d(x, first, padding=1)
        options = {"strides": strides, "padding": padding}
        convolved = ex.conv2d(y, second, dilation=dilation, groups=filters, **options) + third
        pooled = ex.max_pool2d(y, size, dilation=dilation, **options)
        mean = ex.avg_pool2d(y, size, ceil=ceil, count_padding=counts, **options)
        by_channel = ex.max_pool2d(x, size, **options) * 2, ex.avg_pool2d(x, size, ceil=ceil, **options)
        same = ex.conv2d(x, second[:channels], padding=padding, groups=channels) if channels <= filters else x
        # the transpose is requested, so the convolution's result need not be stored channel by channel
        return [*[-ex.transpose(each, (0, 2, 3, 1)) for each in (y, convolved, pooled, mean)], *by_channel, same]

    return build(lambda array: array), build(lambda array: np.abs(array.astype(np.float64)))


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("seed", range(12))
@np.errstate(all="ignore")
def test_windows_have_the_values_of_numpy(seed: int) -> None:
    """Compiled convolutions and poolings have NumPy's values, NaN and ∞ also at the edges of images."""
    roots, absolute = windows(np.random.default_rng(seed))
    plan = ex.EvalPlan(kernels="native")
    handles = [plan.register(root) for root in roots]
    plan.eval()
    assert len(plan.recording.codes) >= 5
    expected, bounds = ex.evaluate(roots), ex.evaluate(absolute)
    for handle, right, bound in zip(handles, expected, bounds, strict=True):
        value = handle.data()
        finite = np.isfinite(right)
        difference = np.abs(value[finite].astype(np.float64) - right[finite])
        assert not (difference > 40 * np.finfo(right.dtype).eps * np.abs(bound[finite])).any()
        np.testing.assert_array_equal(value[~finite], right[~finite])


def windows_by_channel(random: np.random.Generator) -> Iterator[ex.Expr]:
    """Yield random convolutions and poolings of images that are stored channel by channel."""
    for _ in range(8):
        channels, height, width = (int(random.integers(low, high)) for low, high in ((60, 90), (9, 70), (11, 70)))
        size, strides, dilation = (tuple(map(int, random.integers(1, 5, 2))) for _ in range(3))
        padding = tuple((int(random.integers(0, 4)), int(random.integers(0, 4))) for _ in size)
        dtype = random.choice(["float32", "float64"])
        images, filters = (
            ex.tensor(random.normal(size=shape).astype(dtype))
            for shape in ((2, channels, height, width), (channels, 1, *size))
        )
        if all((step - 1) * gap < least for step, gap, least in zip(size, dilation, (height, width), strict=True)):
            options = {"strides": strides, "padding": padding, "dilation": dilation}
            yield ex.relu(ex.conv2d(images, filters, groups=channels, **options))
        if all(2 * max(pair) <= step for pair, step in zip(padding, size, strict=True)):
            yield ex.max_pool2d(images, size, strides, padding) * 2
            yield ex.avg_pool2d(images, size, strides, padding, count_padding=False) * 2


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("seed", range(6))
def test_windows_of_images_by_channel_have_the_values_of_numpy(seed: int) -> None:
    """Rows and columns are divided by the strides, whatever their sizes, padding and dilation."""
    roots = list(windows_by_channel(np.random.default_rng(seed)))
    plan = ex.EvalPlan(kernels="native")
    handles = [plan.register(root) for root in roots]
    plan.eval()
    assert len(plan.recording.codes) >= 5
    for handle, expected in zip(handles, ex.evaluate(roots), strict=True):
        np.testing.assert_allclose(handle.data(), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 5), (2, 4)])
def test_windows_of_usual_images_have_the_values_of_numpy(size: tuple[int, int]) -> None:
    """Compilers choose other instructions for lengths that are multiples of 4, 7 and 8 than for others."""
    random, roots = np.random.default_rng(0), []

    def numbers(*shape: int) -> ex.Expr:
        return ex.tensor(random.normal(size=shape).astype(np.float32))

    for channels, length in ((96, 7), (48, 14), (24, 28), (32, 32), (7, 56), (3, 112)):
        for stride in (1, 2):
            options = {"strides": stride, "padding": (size[0] // 2, size[1] // 2)}
            x = numbers(2, channels, length, length)
            few = ex.conv2d(numbers(2, 3, length, length), numbers(24, 3, 2, 2), padding=1)
            by_channel = [ex.conv2d(x, numbers(channels, 1, *size), groups=channels, **options)]
            by_pixel = [few, ex.conv2d(few, numbers(24, 1, *size), groups=24, **options)]
            if size != (1, 1):
                by_channel.append(ex.max_pool2d(x, size, **options))
                by_pixel.append(ex.max_pool2d(few, size, **options))
            roots += [*by_channel, *[-ex.transpose(each, (0, 2, 3, 1)) for each in by_pixel]]
    plan = ex.EvalPlan(kernels="native")
    handles = [plan.register(root) for root in roots]
    plan.eval()
    assert len(plan.recording.codes) >= len(roots) - 6
    for handle, expected in zip(handles, ex.evaluate(roots), strict=True):
        np.testing.assert_allclose(handle.data(), expected, rtol=1e-4, atol=1e-4)


def rows_with_special_numbers(case: Case, dtype: str, random: np.random.Generator) -> list[ex.Expr]:
    """Return operands of which each row has at most one special number, so that no order of a sum overflows."""
    arrays = []
    for example in case.arrays(dtype, 0):
        array = random.normal(size=(37,) * example.ndim).astype(dtype)
        rows = array.reshape(-1, 37)[: len(SPECIAL)]
        rows[:, 5] = SPECIAL[: len(rows)]
        arrays.append(ex.tensor(array) * 1.0)
    return arrays


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_every_operation_with_rows_computes_the_values_of_its_kernel(dtype: str) -> None:
    """NaN and infinities are in the same elements as in NumPy."""
    random = np.random.default_rng(0)
    cases = [case for case in WITH_ROWS if case.operation(*case.arrays(dtype, 0)).dtype == dtype]
    roots = [case.operation(*rows_with_special_numbers(case, dtype, random)) for case in cases]
    plan = ex.EvalPlan(kernels="native", without=["simplify", "dedup", "batch"])
    handles = [plan.register(root) for root in roots]
    plan.eval()
    compiled = {kernel.result.operation.name for kernel in plan.planned.schedule.kernels if kernel.code is not None}
    assert compiled >= {"sum", "mean", "max", "min", "softmax", "log_softmax", "softmax_gradient", "logsumexp"}
    for case, handle, right in zip(cases, handles, ex.evaluate(roots), strict=True):
        count = 37 ** len(case.operation.reduced_axes or ())
        atol = 2e-6 if right.ndim == len(case.arrays(dtype, 0)[0].shape) else 1e-6 * count
        np.testing.assert_allclose(handle.data(), right, rtol=1e-5, atol=atol, err_msg=case.operation.name)


LENGTHS = (1, 2, 7, 31, 32, 33, 255, 256, 257, 1000, 2047, 2048, 2049, 5000, 1_000_000)
HOSTILE = {
    "normal": lambda random, n: random.normal(size=n),
    "positive": lambda random, n: random.random(n),
    "equal": lambda random, n: np.full(n, 0.1),
    "alternating": lambda random, n: np.where(np.arange(n) % 2, -1e30, 1e30) * random.random(n) + random.random(n),
    "subnormal": lambda random, n: random.integers(-99, 99, n) * 1e-45,
}


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("name", HOSTILE)
def test_sums_of_rows_are_as_accurate_as_pairwise_summation(name: str) -> None:
    """A number passes through at most 15 + log2(n / 256) additions, in NumPy through 18 + log2(n / 128)."""
    random = np.random.default_rng(0)
    rows = [HOSTILE[name](random, n).astype(np.float32) for n in LENGTHS]
    direct = ex.evaluate([ex.sum(row[None], axis=1) for row in rows], kernels="native")
    fused = ex.evaluate(
        [ex.sum(ex.tensor(row[None]) * 1.0, axis=1) for row in rows], kernels="native", without=["simplify"]
    )
    for row, value, other in zip(rows, direct, fused, strict=True):
        additions = min(len(row) - 1, 15 + math.ceil(max(math.log2(len(row) / 256), 0)))
        bound = additions * 2.0**-24 * math.fsum(np.abs(row.astype(float)))
        assert abs(float(value[0]) - math.fsum(row.astype(float))) <= bound * 1.000001
        assert same_bits(value, other)  # in tiles, too


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("name", HOSTILE)
def test_sums_of_columns_are_as_accurate_as_those_of_numpy(name: str) -> None:
    """A number passes through at most 255 + n / 256 additions, and through n − 1 in NumPy."""
    random = np.random.default_rng(0)
    for n in (2, 31, 255, 256, 257, 1000, 70_000):
        columns = np.stack([HOSTILE[name](random, n).astype(np.float32) for _ in range(3)], axis=1)
        value = ex.evaluate(ex.sum(columns, axis=0), kernels="native")
        exact = np.array([math.fsum(column) for column in columns.T.astype(float)])
        bound = min(n - 1, 255 + n / 256) * 2.0**-24 * np.abs(columns.astype(float)).sum(axis=0)
        assert (np.abs(value - exact) <= bound * 1.000001).all()


@pytest.mark.spec("K-4")
@np.errstate(all="ignore")
def test_sums_of_special_numbers_are_those_of_numpy() -> None:
    x = np.zeros((8, 300), np.float32)
    x[0] = -0.0
    x[1:7, 299] = [np.nan, np.inf, -np.inf, 1e-45, -0.0, 3e38]
    x[7, [3, 200]] = np.inf, -np.inf
    (value,) = ex.evaluate([ex.sum(ex.tensor(x), axis=1)], kernels="native")
    assert same_bits(value, np.sum(x, axis=1))
    (value,) = ex.evaluate([ex.sum(ex.tensor(x.T.copy()), axis=0)], kernels="native")
    assert same_bits(value, np.sum(x.T.copy(), axis=0))
    value = ex.evaluate(ex.sum(ex.tensor(np.concatenate([x] * 300)), axis=1), kernels="native")
    assert same_bits(value.reshape(300, 8), np.tile(np.sum(x, axis=1), (300, 1)))


@pytest.mark.spec("K-4")
def test_rows_have_the_same_bits_in_every_run_and_any_number_of_rows() -> None:
    """The order of a sum depends only on the row's length, so threads can compute any rows."""
    x = np.random.default_rng(0).normal(size=(600, 1111)).astype(np.float32)

    def value(part: Array) -> Array:
        result: Array = ex.evaluate(ex.softmax(ex.tensor(part) * 3), kernels="native")
        return result

    whole = value(x)
    assert same_bits(whole, value(x))
    assert same_bits(whole[17:18], value(x[17:18]))
    assert same_bits(whole[300:], value(x[300:]))


@pytest.mark.spec("K-4", "K-6")
def test_columns_have_the_same_bits_in_any_number_of_columns() -> None:
    """The order of a sum depends only on the number of rows, so threads can compute any columns."""
    x = np.random.default_rng(0).normal(size=(600, 2500)).astype(np.float32)

    def value(part: Array) -> Array:
        result: Array = ex.evaluate(ex.sum(ex.exp(ex.tensor(part) * 3), axis=0), kernels="native")
        return result

    whole = value(x)
    assert same_bits(whole, value(x))
    assert same_bits(whole[17:19], value(x[:, 17:19]))
    assert same_bits(whole[300:1999], value(x[:, 300:1999]))
    assert same_bits(
        whole, ex.evaluate(ex.sum(ex.exp(ex.tensor(x[None] * np.float32(3))), axis=1), kernels="native")[0]
    )


@st.composite
def row_programs(draw: st.DrawFn) -> ex.Expr:
    """Draw programs with reductions of rows or columns of operands that are broadcast, transposed and reversed."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = draw(st.sampled_from([(3, 40), (5, 3, 33), (2, 3, 4, 9), (1, 4500), (70,), (300, 7), (2, 3, 1500)]))
    first = draw(st.integers(0, len(shape) - 1))
    axes = tuple(range(first, draw(st.sampled_from([len(shape), first + 1]))))
    if draw(st.integers(0, 3)) == 0:
        axes = tuple(sorted({0, len(shape) - 1}))  # the outermost and the innermost, as for each channel of images

    def leaf() -> ex.Expr:
        sizes = [size if draw(st.booleans()) else 1 for size in shape]
        array = random.normal(size=sizes).astype(np.float32)
        layout = draw(st.integers(0, 2))
        return ex.tensor(np.asfortranarray(array) if layout == 1 else array[..., ::-1] if layout == 2 else array)

    y = ex.tensor(random.normal(size=shape).astype(np.float32))
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(0, 2))):
            y = draw(st.sampled_from(BINARY))(draw(st.sampled_from(UNARY))(y * 0.5), leaf())
        kind = draw(st.integers(0, 3))
        if kind == 0:
            y = draw(st.sampled_from((ex.softmax, ex.log_softmax)))(y, axis=axes)
        elif kind == 1:
            y = y - draw(st.sampled_from((ex.mean, ex.max, ex.min)))(y, axis=axes, keepdims=True)
        elif kind == 2:
            y = y * ex.rsqrt(ex.mean(ex.square(y), axis=axes, keepdims=True) + 1e-3)
    return draw(st.sampled_from((ex.sum, ex.mean, ex.max, ex.logsumexp, lambda y, axis: y * 2)))(y, axis=axes)


@pytest.mark.spec("K-1", "K-4")
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(root=row_programs())
def test_random_programs_of_rows_have_the_values_of_numpy(root: ex.Expr) -> None:
    scale = math.prod(root.operands[0].shape) if root.operands else 1
    np.testing.assert_allclose(
        ex.evaluate(root, kernels="native"), ex.evaluate(root), rtol=2e-5, atol=2e-6 * max(scale, 10)
    )


GATES = {"lstm": (4, 2), "gru": (3, 1), "early gru": (3, 1), "rnn": (1, 1), "relu rnn": (1, 1)}
"""numbers of gates and of states"""


def recurrences(
    cell: str, dtype: str, length: int, members: int, axis: int = 0, bias: bool = True, reverse: bool = False
) -> list[ex.Expr]:
    """Return the sequence and the last states of a recurrence of 24 units."""
    random = np.random.default_rng(0)
    gates, states = GATES[cell]

    def drawn(*shape: int) -> ex.Expr:
        return ex.tensor(random.normal(size=shape).astype(dtype))

    shape = (length, members, gates * 24) if axis == 0 else (members, length, gates * 24)
    x, weights, offset = drawn(*shape), drawn(24, gates * 24) * 0.3, drawn(gates * 24) if bias else None
    state = [drawn(members, 24) for _ in range(states)]
    sequence, last = recurrence(cell, cell, x, weights, offset, state, axis, reverse)
    return [sequence, *last]


def assert_compiled_steps(roots: list[ex.Expr], **tolerance: Any) -> ex.EvalPlan:
    """Compare compiled scans with NumPy; return the plan, in which the last scan has code."""
    plan = ex.EvalPlan(kernels="native")
    handles = [plan.register(root) for root in roots]
    plan.eval()
    scans = [kernel for kernel in plan.planned.schedule.kernels if isinstance(kernel.result.operation, Scan)]
    assert scans
    assert scans[-1].steps is not None
    for handle, right in zip(handles, ex.evaluate(roots), strict=True):
        np.testing.assert_allclose(handle.data(), right, **tolerance)
    return plan


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cell", GATES)
def test_the_steps_of_recurrences_have_the_values_of_numpy(cell: str, axis: int, reverse: bool) -> None:
    for dtype, tolerance in (("float32", 5e-6), ("float64", 1e-13)):
        for members in (1, 5):
            roots = recurrences(cell, dtype, 19, members, axis, bias=members > 1, reverse=reverse)
            assert_compiled_steps(roots, rtol=tolerance, atol=tolerance)


def normalizations(x: Any, scale: Any, shift: Any) -> list[tuple[str, ex.Expr, list[ex.Expr]]]:
    """Return functions of the rows of x, and the operands of which the gradients are computed."""
    return [
        ("softmax", ex.softmax(x), [x]),
        ("log_softmax", ex.log_softmax(x), [x]),
        ("layer_norm", ex.layer_norm(x, scale, shift), [x, scale, shift]),
        ("rms_norm", ex.rms_norm(x, scale, epsilon=1e-5), [x, scale]),
    ]


def gradients_in_numpy(name: str, x: Array, scale: Array, upstream: Array) -> list[Array]:
    """Return the gradients of x, and of the scale and the shift if the function has them, by their formulas."""
    if name in ("softmax", "log_softmax"):
        power = np.exp(x - x.max(axis=1, keepdims=True))
        y = power / power.sum(axis=1, keepdims=True)
        if name == "softmax":
            return [y * (upstream - (upstream * y).sum(axis=1, keepdims=True))]
        return [upstream - y * upstream.sum(axis=1, keepdims=True)]
    centred = x - x.mean(axis=1, keepdims=True) if name == "layer_norm" else x
    factor = 1 / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-5)
    normal, inner = centred * factor, upstream * scale
    rest = inner - normal * (inner * normal).mean(axis=1, keepdims=True)
    if name == "rms_norm":
        return [factor * rest, (upstream * normal).sum(axis=0)]
    rest = rest - inner.mean(axis=1, keepdims=True)
    return [factor * rest, (upstream * normal).sum(axis=0), upstream.sum(axis=0)]


@pytest.mark.spec("K-1", "K-4")
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    count=st.integers(2, 700),
    length=st.sampled_from([2, 3, 31, 64, 257, 768, 3000]),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**16),
)
def test_gradients_of_rows_agree_with_their_formulas(count: int, length: int, dtype: str, seed: int) -> None:
    """Gradients of softmax and normalizations of rows are compiled, and differ from float64 only by rounding."""
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=shape).astype(dtype) for shape in ((count, length), (length,), (length,))]
    upstream = random.normal(size=(count, length)).astype(dtype)
    x, scale, shift = map(ex.tensor, arrays)
    functions = normalizations(x, scale, shift)
    plan = ex.EvalPlan(kernels="native")
    handles = [
        [plan.register(gradient) for gradient in ex.grad((y * upstream).sum(), operands)]
        for _, y, operands in functions
    ]
    plan.eval()
    for kernel in plan.planned.schedule.kernels:
        assert kernel.code is not None or kernel.is_view or len(kernel.nodes) == 1
    exact = [array.astype(np.float64) for array in (arrays[0], arrays[1], upstream)]
    # the deviation of a row may be small, and then its inverse, by which the gradient is multiplied, is large
    largest = max(count**0.5, 1 / np.sqrt(exact[0].var(axis=1).min() + 1e-5))
    for (name, _, _), values in zip(functions, handles, strict=True):
        for handle, expected in zip(values, gradients_in_numpy(name, *exact), strict=True):
            bound = 100 * np.finfo(dtype).eps * max(np.abs(expected).max(), largest)
            np.testing.assert_allclose(handle.data(), expected, rtol=0, atol=bound, err_msg=name)


def scans(random: np.random.Generator, dtype: str) -> dict[str, list[ex.Expr]]:
    """Return scans with states of several shapes, products of slices, and steps along any axis."""

    def drawn(*shape: int) -> ex.Expr:
        return ex.tensor(with_special_numbers(random.normal(size=shape).astype(dtype), random))

    def plain(*shape: int) -> ex.Expr:
        return ex.tensor(random.normal(size=shape).astype(dtype) * 0.2)

    weights, narrow, gate = plain(6, 24), plain(12, 6), plain(6, 1)

    def shapes(state: Any, x: Any) -> tuple[Any, Any]:
        total, scale = state
        scale = scale * 0.5 + x[1] > 0
        return (total * 0.25 + ex.where(scale, x[0], -total), ex.where(scale, x[1], 1)), (total, x[0] * scale)

    def products(h: Any, x: Any) -> tuple[Any, Any]:
        both = h @ (weights * 2)[:, :12] + x
        inner = ex.sigmoid(both[:, 6:]) * ex.tanh(both[:, :6])
        return ex.tanh(both @ narrow + inner @ weights[:, 18:]), (both[:, 2:5], ex.exp(h @ gate))

    def number(total: Any, x: Any) -> tuple[Any, Any]:
        return total * 0.9 + x, ex.maximum(total, x)

    def along(axis: int, sequence: ex.Expr) -> list[ex.Expr]:
        def step(state: list[ex.Expr], x: list[ex.Expr]) -> tuple[list[ex.Expr], list[ex.Expr]]:
            return [state[0] * 0.5 + x[0]], [ex.tanh(state[0])]

        return scan_operands(step, [plain(3, 4)], [sequence], (axis,), (axis,), True, "scan")

    def exchanged(state: Any, x: Any) -> tuple[Any, None]:
        return (state[1], state[0] + x), None

    column = ex.scan(shapes, (drawn(4, 7), drawn(4, 1)), (drawn(40, 4, 7), drawn(40, 4, 1)))
    product = ex.scan(products, plain(5, 6), plain(33, 5, 12), reverse=True)
    return {
        "shapes": flatten(column)[0],
        "products": flatten(product)[0],
        "number": flatten(ex.scan(number, ex.tensor(np.array(0.5, dtype)), drawn(5000)))[0],
        "exchanged": flatten(ex.scan(exchanged, (drawn(9), drawn(9)), drawn(31, 9))[0])[0],
        "axis 0": along(0, plain(11, 3, 4)),
        "axis 1": along(1, plain(3, 11, 4)),
        "axis 2": along(2, plain(3, 4, 11)),
    }


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_the_steps_of_scans_have_the_values_of_numpy(dtype: str) -> None:
    """NaN and infinities are in the same elements, and a run with other operands does not change earlier results."""
    for name, roots in scans(np.random.default_rng(0), dtype).items():
        plan = assert_compiled_steps(roots, rtol=2e-5, atol=2e-6, err_msg=name)
        before = [np.array(value) for value in ex.evaluate(roots, kernels="native")]
        for value, right in zip(ex.evaluate(roots, kernels="native"), before, strict=True):
            assert same_bits(value, right), name
        assert plan.recording.codes


@pytest.mark.spec("K-1")
def test_a_function_of_a_recurrence_runs_on_new_operands_without_changing_earlier_results() -> None:
    @ex.function
    def sums(x: ex.Expr, start: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        last, totals = ex.scan(lambda total, x: (ex.tanh(total + x), total), start, x)
        return totals, last

    random = np.random.default_rng(0)
    arrays = [(random.normal(size=(50, 100)), random.normal(size=100)) for _ in range(4)]
    expected = [[np.array(value) for value in ex.evaluate(sums(*pair))] for pair in arrays]
    values = [ex.evaluate(sums(*pair), kernels="native") for pair in arrays]
    for results, right in zip(values, expected, strict=True):
        for value, other in zip(results, right, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-12)


@pytest.mark.spec("K-4", "K-6")
def test_steps_have_the_same_bits_with_any_number_of_threads() -> None:
    roots = recurrences("lstm", "float32", 19, 64)
    with threadpool_limits(1):
        expected = [np.array(value) for value in ex.evaluate(roots, kernels="native", executor="simple")]
    for executor in ("dag", "async"):
        for value, right in zip(ex.evaluate(roots, kernels="native", executor=executor), expected, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_kernels_without_elements_have_the_values_of_numpy(shape: tuple[int, int], axis: int | tuple[int, int]) -> None:
    """NumPy computes loops without elements; C code would write a row to memory that has none."""
    x = ex.tensor(np.ones(shape))
    total = ex.sum(ex.square(x), axis=axis, keepdims=True)
    roots = [total * 2 + 1, ex.where(ex.equal(total, 0), 1.0, total) + ex.sqrt(total) + x * 2, ex.tanh(x * 2) + x]
    roots += [ex.relu(x.reshape(shape[0], 1, 1, shape[1]) * 2) + 1, ex.relu(x @ ex.tensor(np.ones((shape[1], 3))) + 1)]
    for value, expected in zip(ex.evaluate(roots, kernels="native"), ex.evaluate(roots), strict=True):
        np.testing.assert_array_equal(value, expected, strict=True)


@pytest.mark.spec("K-2", "K-5")
def test_numpy_computes_steps_without_a_compiler() -> None:
    roots = recurrences("gru", "float32", 19, 5)
    expected = [np.array(value) for value in ex.evaluate(roots)]
    with without_compiler(), pytest.warns(RuntimeWarning, match="no C compiler"):
        plan = assert_compiled_steps(roots, rtol=0, atol=0)
    for value, right in zip(ex.evaluate(roots), expected, strict=True):
        assert same_bits(value, right)
    assert "tanh_f32(" in plan.code()


@pytest.mark.spec("K-3")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        (lambda total, x: (ex.cumsum(total + x, -1), None), "combines"),
        (lambda total, x: (ex.arctan(total + x), None), "function"),
        (lambda total, x: (total + ex.tanh(x.sum()), None), "combines"),
    ],
)
def test_scans_with_other_operations_state_why_numpy_computes_them(step: Any, code: str) -> None:
    x = ex.tensor(np.linspace(-1, 1, 4000).reshape(50, 80))
    last, _ = ex.scan(step, x[0], x)
    plan = ex.EvalPlan(kernels="native")
    handle = plan.register(last)
    plan.eval()
    np.testing.assert_allclose(handle.data(), ex.evaluate(last))
    (decision,) = [each for each in plan.recording.decisions if each.rule == "CompiledLoop" and each.code == code]
    assert decision.verdict == "declined"
