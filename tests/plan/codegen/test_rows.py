"""C code of kernels that combine the elements of rows: readable, in few loops, and only along the innermost axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.ops.nn.softmax import Softmax
from explorer.ops.reduction.reduce import Sum
from explorer.plan.codegen.elements import has_rows
from tests.support.kernel_codes import codes, declined
from tests.support.native_kernels import without_compiler

X = np.ones((100, 300), np.float32)


def lines(root: ex.Expr) -> list[str]:
    """Return the lines of the only kernel of an expression, without indentation."""
    (code,) = codes(root)
    return [line.strip() for line in code.text.splitlines()]


@pytest.mark.spec("K-1")
def test_a_normalization_is_a_loop_over_rows_with_one_line_per_operation() -> None:
    """Reductions and normalizations along the innermost axes are a loop over rows, with the operations before them."""
    x = ex.tensor(X)
    (code,) = codes(ex.softmax(x * 0.1))
    assert code.text == (
        "/* 2 operations on 100 rows of 300 elements */\n"
        "void compute_multiply_softmax(void *const *arrays, int64_t start, int64_t stop) {\n"
        "    const f32 *tensor = arrays[0];\n"
        "    f32 *softmax = arrays[1];\n"
        "    f32 multiply[300];\n"
        "    f32 power[300];\n"
        "    for (int64_t row = start; row < stop; row++) {\n"
        "        VECTORIZE\n"
        "        for (int64_t i = 0; i < 300; i++) {\n"
        "            multiply[i] = tensor[row * 300 + i] * 0.1f;\n"
        "        }\n"
        "        f32 largest = largest_f32(multiply, 300);\n"
        "        f32 limit = finite_f32(largest);\n"
        "        VECTORIZE\n"
        "        for (int64_t i = 0; i < 300; i++) {\n"
        "            power[i] = exp_nonpositive_f32(multiply[i] - limit);\n"
        "        }\n"
        "        f32 total = sum_f32(power, 300);\n"
        "        VECTORIZE\n"
        "        for (int64_t i = 0; i < 300; i++) {\n"
        "            softmax[row * 300 + i] = power[i] / total;\n"
        "        }\n"
        "    }\n"
        "}\n"
    )
    assert (code.length, code.row, code.is_flat) == (100, 300, False)
    text = code.text.splitlines()
    of_softmax = [
        text[line - 1].split("=")[0].split()[-1] for line, node in code.lines if node.operation.name == "softmax"
    ]
    assert of_softmax == ["largest", "limit", "power[i]", "total", "i]"]


@pytest.mark.spec("K-1")
def test_a_reduction_of_an_operand_reads_it_without_a_copy() -> None:
    x = np.ones((200, 300), np.float32)
    assert "sum[row] = sum_f32(tensor + row * 300, 300);" in lines(ex.sum(x, axis=1))
    assert "f32 total = sum_f32(tensor, 60000);" in lines(ex.mean(x))


@pytest.mark.spec("K-1")
def test_long_rows_are_computed_in_tiles() -> None:
    """Arrays of a function have at most a tile's size, except values that are expensive to compute again."""
    x = ex.tensor(np.ones((3, 50_000), np.float32))
    text = lines(ex.square(x - 1).sum(axis=1))
    assert "f32 square_tile[2048];" in text
    assert "for (int64_t tile = 0; tile < 50000; tile += 2048) {" in text
    assert "const int64_t count = tile + 2048 > 50000 ? 848 : 2048;" in text
    assert "add_f32(&sum_so_far, square_tile, count);" in text
    assert "sum[row] = result_f32(&sum_so_far);" in text
    assert "f32 power[50000];" in lines(ex.softmax(x))
    longest = lines(ex.softmax(ex.tensor(np.ones((1, 500_000), np.float32))))
    assert "f32 power_tile[2048];" in longest
    assert "f32 power = exp_nonpositive_f32(tensor[i] - limit);" in longest


@pytest.mark.spec("K-1")
def test_reductions_of_other_axes_add_rows() -> None:
    """The innermost loop runs over columns, so it reads adjacent numbers; many rows are added in blocks."""
    x, errors = ex.tensor(X), ex.tensor(X)
    assert lines(ex.sum(x * errors, axis=0))[4:] == [
        "f32 *sum = arrays[2];",
        "const int64_t end = stop * 256 < 300 ? stop * 256 : 300;",
        "const int64_t first = start * 256;",
        "VECTORIZE",
        "for (int64_t column = first; column < end; column++) {",
        "sum[column] = 0;",
        "}",
        "for (int64_t row = 0; row < 100; row++) {",
        "VECTORIZE",
        "for (int64_t column = first; column < end; column++) {",
        "f32 multiply = tensor[row * 300 + column] * tensor_2[row * 300 + column];",
        "sum[column] += multiply;",
        "}",
        "}",
        "}",
    ]
    many = lines(ex.sum(ex.square(ex.tensor(np.ones((700, 30), np.float32))), axis=0))
    assert "for (int64_t block = 0; block < 700; block += 256) {" in many
    assert "sum_of_block[column] += square;" in many
    assert "sum[column] += sum_of_block[column];" in many
    middle = lines(ex.max(ex.tensor(np.ones((30, 20, 40), np.float32)) * 2, axis=1))
    assert "for (int64_t part = start; part < stop; part++) {" in middle
    assert "max[part * 40 + column] = maximum_f32(max[part * 40 + column], multiply);" in middle


@pytest.mark.spec("K-1")
def test_a_sum_for_each_channel_adds_the_parts_of_all_images() -> None:
    """The gradient of a bias per channel is a loop over channels; images stored pixel by pixel are added as rows."""
    images = np.ones((5, 20, 10, 40), np.float32)
    x, factors = ex.tensor(images), ex.tensor(images[0, :, :1, :1])
    text = lines(ex.sum(x * factors, axis=(0, 2, 3)))
    assert text[5:] == [
        "f32 multiply_tile[400];",
        "for (int64_t row = start; row < stop; row++) {",
        "total_f32 sum_so_far = {0};",
        "for (int64_t part = 0; part < 5; part++) {",
        "VECTORIZE",
        "for (int64_t i = 0; i < 400; i++) {",
        "multiply_tile[i] = tensor[part * 8000 + row * 400 + i] * tensor_2[row];",
        "}",
        "add_f32(&sum_so_far, multiply_tile, 400);",
        "}",
        "sum[row] = result_f32(&sum_so_far);",
        "}",
        "}",
    ]
    convolved = ex.conv2d(ex.tensor(np.ones((2, 3, 80, 80), np.float32)), ex.tensor(np.ones((32, 3, 3, 3), np.float32)))
    by_pixel = codes(ex.sum(ex.tanh(convolved), axis=(0, 2, 3)))[-1]
    assert by_pixel.columns == 32


@pytest.mark.spec("K-3")
@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda x: ex.square(x.reshape((10, 10, 10, 30))).sum(axis=(1, 3)), "columns"),
        (lambda x: ex.square(x.reshape((10, 10, 10, 30))).sum(axis=(0, 2)), "columns"),
        (lambda x: x.max(axis=1), "single"),
        (lambda x: ex.square(x[:1]).sum(axis=1), "no_faster"),
        (lambda x: ex.prod(ex.square(x), axis=1), "combines"),
        (lambda x: ex.tensor(np.ones((200, 300), int)).sum(axis=1), "dtype"),
        (lambda x: (x > 1).sum(axis=1), "dtype"),
    ],
)
def test_reductions_without_code_are_declined_with_the_reason(build: Any, code: str) -> None:
    assert code in declined(build(ex.tensor(X)))


@pytest.mark.spec("K-3")
def test_a_softmax_of_few_elements_is_compiled_because_it_replaces_several_calls() -> None:
    x = ex.tensor(X[:64, :10])
    assert "/* 1 operation on 64 rows of 10 elements */" in lines(ex.log_softmax(x))
    assert "/* 1 operation on 1 row of 10 elements */" in lines(ex.log_softmax(x[:1]))
    assert declined(ex.sum(x, axis=1)) == ["no_faster"]


@pytest.mark.spec("K-3")
def test_reductions_that_users_define_are_called() -> None:
    """Neither a replaced kernel nor a subclass's own kernel is compiled from the lines of its base class."""

    class TwiceSoftmax(Softmax):
        """2 · softmax(x)."""

        def kernel(self, out: Array, x: Array) -> Array:
            return np.multiply(super().kernel(out, x), 2, out=out)

    assert has_rows(Softmax((1,)))
    assert has_rows(Sum((1,)))
    assert not has_rows(TwiceSoftmax((1,)))


@pytest.mark.spec("K-1")
def test_a_layer_norm_is_one_kernel_with_two_reductions() -> None:
    """Kernels that compute the same rows are joined; a value that is cheap to compute again is not stored."""
    x, scale = ex.tensor(X), ex.tensor(X[0])
    text = lines(ex.layer_norm(x, scale))
    assert [line for line in text if line.endswith("];") and " = " not in line] == ["f32 square[300];"]
    assert text.count("f32 subtract = tensor[row * 300 + i] - mean;") == 2
    assert "f32 total = sum_f32(tensor + row * 300, 300);" in text
    assert "f32 total_2 = sum_f32(square, 300);" in text
    assert "multiply_2[row * 300 + i] = multiply * tensor_2[i];" in text


@pytest.mark.spec("K-1")
def test_the_gradient_of_a_layer_norm_is_one_kernel_for_each_operand() -> None:
    """Values that a row's gradient reads are computed in its loop, and the statistics in two loops before."""
    rows = np.ones((200, 300), np.float32)
    x, scale, shift = ex.tensor(rows), ex.tensor(X[0]), ex.tensor(X[1])
    gradients = ex.grad((ex.layer_norm(x, scale, shift) * rows[::-1]).sum(), [x, scale, shift])
    plan = ex.EvalPlan(kernels="native")
    for gradient in gradients:
        plan.register(gradient)
    compiled = [kernel for kernel in plan.prepare().planned.schedule.kernels if kernel.code is not None]
    shapes = [kernel.result.shape for kernel in compiled]
    assert sorted(shapes) == [(200, 1), (200, 1), (200, 300), (200, 300), (300,), (300,)]
    (alone,) = codes(*ex.grad((ex.layer_norm(x, scale) * rows[::-1]).sum(), [x]))
    assert alone.text.startswith("/* 21 operations on 200 rows of 300 elements */")


@pytest.mark.spec("K-1")
@pytest.mark.parametrize(
    "build",
    [
        lambda x: (y := ex.mean(x, axis=1, keepdims=True), x - y),  # another result reads the mean
        lambda x: (ex.square(x).mean(axis=1) + x[:, 0] * 2,),  # a row of elements that is no operand of the mean
        lambda x: (x - ex.mean(ex.square(x - ex.mean(x, axis=0)), axis=1, keepdims=True),),  # other axes
        lambda x: (ex.tensor(X[:, :100]) * 2 - ex.mean(x[:, :100], axis=1),),  # broadcast along the rows
    ],
)
def test_joined_kernels_have_the_values_of_numpy(build: Any) -> None:
    roots = build(ex.tensor(np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32)))
    for value, expected in zip(ex.evaluate([*roots], kernels="native"), ex.evaluate([*roots]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("K-1")
def test_without_a_compiler_numpy_computes_joined_kernels() -> None:
    x = ex.tensor(np.random.default_rng(0).normal(size=(100, 301)).astype(np.float32))
    root = ex.layer_norm(x * 2, ex.tensor(np.ones(301, np.float32)))
    with without_compiler(), pytest.warns(Warning, match="no C compiler"):
        value = ex.evaluate(root, kernels="native")
    np.testing.assert_array_equal(value, ex.evaluate(root))
