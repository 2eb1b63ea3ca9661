"""C code of matrix products and convolutions with the operations on their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import Array
from explorer.plan.codegen.kernel_code import KernelCode
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program

RNG = np.random.default_rng(0)
Build = Callable[[ex.Expr, ex.Expr, ex.Expr], ex.Expr]


def planned(
    shape: tuple[int, ...], build: Callable[[ex.Expr], ex.Expr], dtype: str = "float32"
) -> tuple[ex.Expr, Program]:
    """Return the parameter and the program of an expression that is built from a parameter."""
    x = Parameter(ex.TensorType(shape, dtype), "x")()
    plan = ex.EvalPlan(kernels="native")
    plan.register(build(x))
    return x, Program(plan.prepare().planned)


def product_of(program: Program) -> KernelCode:
    (code,) = [kernel.code for kernel in program.planned.schedule.kernels if kernel.code and kernel.code.is_product]
    return code


def run(program: Program, x: ex.Expr, array: Array) -> Array:
    program.bind({x: array})
    run_simple(program)
    (result,) = program.take()
    return result


def constant(*shape: int, dtype: str = "float32") -> ex.Expr:
    return ex.tensor(RNG.normal(size=shape).astype(dtype))


def by_pixel(y: ex.Expr) -> ex.Expr:
    """Return an operation on images that are stored pixel by pixel."""
    return -ex.transpose(y, (0, 2, 3, 1))


def heads(x: ex.Expr, part: int) -> ex.Expr:
    """Return one of three parts of rows of numbers, by head."""
    samples, count, width = x.shape
    part_of_rows = x[..., part * width // 3 : (part + 1) * width // 3]
    return ex.transpose(ex.reshape(part_of_rows, (samples, count, 2, width // 6)), (0, 2, 1, 3))


@pytest.mark.spec("K-1")
def test_a_product_of_matrices() -> None:
    """The product is one line, and each operation on its result is one line."""
    weights, bias = constant(64, 40), constant(40)
    _, program = planned((30, 64), lambda x: ex.relu(x @ weights + bias))
    code = product_of(program)
    assert code.text == (
        "/* matmul as a product of 30×64 and 64×40 numbers and 2 operations */\n"
        "void compute_matmul_add_relu(void *const *arrays, int64_t start, int64_t stop) {\n"
        "    const f32 *parameter = arrays[0];\n"
        "    const f32 *tensor = arrays[1];\n"
        "    const f32 *tensor_2 = arrays[2];\n"
        "    f32 *relu = arrays[3];\n"
        "    f32 sums[ROWS * 48];\n"
        "    for (int64_t part = start; part < stop; part++) {\n"
        "        const int64_t first = 0, last = 30;\n"
        "        for (int64_t column = 0, width; column < 40; column += width) {\n"
        "            width = width_f32(40 - column);\n"
        "            for (int64_t tile = first; tile < last; tile += ROWS) {\n"
        "                const f32 *numbers[ROWS];\n"
        "                windows_f32(numbers, parameter, tile, last, 30, 1920, 64);\n"
        "                product_f32(sums, numbers, 1, 0, 64, 1, tensor + column * 64, 1024, 16, width, "
        "tile - first);\n"
        "                for (int64_t row = tile; row < least(tile + ROWS, last); row++) {\n"
        "                    VECTORIZE\n"
        "                    for (int64_t i = 0; i < 40; i++) {\n"
        "                        f32 matmul = sums[(row - tile) * 48 + i];\n"
        "                        f32 add = matmul + tensor_2[column + i];\n"
        "                        relu[row * 40 + column + i] = add < 0 ? 0 : add;\n"
        "                    }\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "    }\n"
        "}\n"
    )
    lines = code.text.splitlines()
    named = [(lines[line - 1].split("(")[0].split("=")[0].strip(), node.operation.name) for line, node in code.lines]
    assert named == [
        ("product_f32", "matmul"),
        ("f32 matmul", "matmul"),
        ("f32 add", "add"),
        ("relu[row * 40 + column + i]", "relu"),
    ]


@pytest.mark.spec("K-1")
def test_a_matrix_that_varies_is_copied_in_blocks() -> None:
    """Each call copies a matrix whose columns are not whole blocks, or are its rows in memory."""
    _, program = planned((50, 20), lambda x: ex.tanh(constant(60, 50) @ x))
    text = product_of(program).text
    assert "    _Alignas(64) f32 blocks[50 * 32];\n    blocks_f32(blocks, parameter, 50, 20, 20, 1);\n" in text
    assert "product_f32(sums, numbers, 1, 0, 50, 1, blocks + column * 50, 800, 16, width, tile - first);" in text
    _, program = planned((64, 50), lambda x: ex.tanh(constant(60, 50) @ x.T))
    assert "blocks_f32(blocks, transpose, 50, 64, 1, 50);" in product_of(program).text


@pytest.mark.spec("K-1")
def test_rows_of_a_transposed_matrix_are_read_where_they_are() -> None:
    _, program = planned((64, 50), lambda x: ex.tanh(x.T @ x))
    code = product_of(program)
    assert "windows_f32(numbers, transpose, tile, last, 50, 3200, 1);" in code.text
    assert "product_f32(sums, numbers, 1, 0, 64, 50, blocks + column * 64, 1024, 16, width, tile - first);" in code.text
    assert [dict(strides) for strides in code.strides[:2]] == [{0: 1, 1: 50}, {0: 50, 1: 1}]


@pytest.mark.spec("K-1")
def test_stacks_of_matrices_are_read_where_they_are(compiler: None) -> None:
    """Views of heads are not copied, and all calls of the attention are C functions."""
    _, program = planned(
        (2, 40, 96), lambda x: ex.softmax(heads(x, 0) @ np.swapaxes(heads(x, 1), -1, -2)) @ heads(x, 2)
    )
    first, second = [
        kernel.code for kernel in program.planned.schedule.kernels if kernel.code and kernel.code.is_product
    ]
    assert "const f32 *source = transpose + image / 2 * 3840 + image % 2 * 16;" in first.text
    assert "blocks_f32(blocks, transpose_2 + image / 2 * 3840 + image % 2 * 16, 16, 40, 1, 96);" in first.text
    assert "windows_f32(numbers, source, tile, last, 40, 640, 96);" in first.text
    assert "const f32 *source = softmax + image * 1600;" in second.text
    assert "const f32 *matrix = transpose + image / 2 * 3840 + image % 2 * 16;" in second.text
    assert "product_f32(sums, numbers, 1, 0, 40, 1, matrix + column, 16, 96, width, tile - first);" in second.text
    assert first.length == second.length == 4
    for kernel in program.planned.schedule.kernels:
        assert kernel.is_view or kernel.code


VIEWS_OF_MATRICES: dict[str, Callable[[ex.Expr], ex.Expr]] = {
    "columns": lambda x: x[..., 20:50],
    "every other row": lambda x: x[:, ::2],
    "reversed rows": lambda x: x[:, ::-1],
    "transposed columns": lambda x: ex.transpose(x[..., 20:50], (0, 2, 1)),
    "the same matrix": lambda x: ex.broadcast_to(x[:1], x.shape),
}


@pytest.mark.spec("K-1")
@pytest.mark.parametrize("name", VIEWS_OF_MATRICES)
def test_views_of_inputs_with_another_layout_in_each_run(name: str, compiler: None) -> None:
    """The code reads matrices where they are in row-major inputs, and copies of other inputs in the same way."""
    view = VIEWS_OF_MATRICES[name]
    array = RNG.normal(size=(3, 40, 64)).astype(np.float32)
    viewed = ex.evaluate(view(ex.tensor(array)))
    factors = constant(3, viewed.shape[-1], 48)
    x, program = planned(array.shape, lambda x: ex.relu(view(x) @ factors))
    assert product_of(program).length == 3
    unaligned = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(np.float32).reshape(array.shape)
    expected = np.maximum(viewed @ ex.evaluate(factors), 0)
    for layout in (array, np.asfortranarray(array), unaligned, array[:, ::-1].copy()[:, ::-1], array):
        np.testing.assert_allclose(run(program, x, layout), expected, 1e-4, 1e-4)


@pytest.mark.spec("K-1")
def test_a_convolution_copies_bands_of_images_with_padding() -> None:
    filters = constant(64, 128, 3, 3)
    _, program = planned((2, 128, 28, 28), lambda x: by_pixel(ex.conv2d(x, filters, padding=1)))
    text = product_of(program).text
    assert "f32 band[16 * 30 * 128];" in text  # 14 rows of windows in each of 2 bands of an image
    assert "const int64_t image = part / 2;" in text
    assert "const int64_t first = part % 2 * 392, last = least(first + 392, 784);" in text
    assert "band_f32(band, source, first / 28 * 1 - 1, 16, 28, 28, 128, 1, 30, 1, 784);" in text
    assert "windows_f32(numbers, band, tile - first, last - first, 28, 3840, 128);" in text
    assert "product_f32(sums, numbers, 3, 3840, 384, 1, tensor + column * 1152, 18432, 16, width, " in text


@pytest.mark.spec("K-1")
def test_winograds_method_computes_tiles() -> None:
    filters = constant(40, 64, 3, 3)
    x = Parameter(ex.TensorType((1, 64, 29, 30), "float32"), "x")()
    plan = ex.EvalPlan(kernels="native", inference=True)
    plan.register(by_pixel(ex.relu(ex.conv2d(x, filters, padding=1))))
    text = product_of(Program(plan.prepare().planned)).text
    assert "f32 band[18 * 32 * 64];" in text  # 8 of 15 rows of tiles
    assert "f32 numbers[16 * 60 * 64], products[16 * 60 * 40], sums[4 * 40];" in text
    assert "winograd_pixels_f32(numbers, band, tile - first, count, 60, 15, 32, 64);" in text
    assert "for (int64_t column = 0; column < 40; column += 40) {" in text
    right = "column, least(column + 40, 40), 40"
    assert f"winograd_products_f32(products, numbers, tensor, count, 60, 64, 40, {right});" in text
    assert "winograd_sums_f32(sums, products + (each - tile) * 40, 60, 40);" in text
    assert "if (row < 29 && right < 30) {" in text


@pytest.mark.spec("K-1")
def test_a_convolution_stored_channel_by_channel() -> None:
    """A tile's columns are adjacent windows, which read adjacent numbers of a phase."""
    filters, bias = constant(64, 32, 3, 3), constant(64, 1, 1)
    _, program = planned(
        (2, 64, 56, 56), lambda x: ex.relu(ex.conv2d(x, filters, padding=1, strides=2, groups=2) + bias)
    )
    text = product_of(program).text
    assert text == (
        "/* conv2d as a product of 4 times 32×288 and 288×784 numbers and 2 operations */\n"
        "void compute_conv2d_add_relu(void *const *arrays, int64_t start, int64_t stop) {\n"
        "    const f32 *parameter = arrays[0];\n"
        "    const f32 *tensor = arrays[1];\n"
        "    const f32 *tensor_2 = arrays[2];\n"
        "    f32 *relu = arrays[3];\n"
        "    static const int64_t offsets[9] = {0, 435, 1, 870, 1305, 871, 29, 464, 30};\n"
        "    f32 band[32 * 1744 + 16], sums[ROWS * 416];\n"
        "    for (int64_t part = start; part < stop; part++) {\n"
        "        const int64_t group = part / 2;\n"
        "        const int64_t top = part % 2 * 14, bottom = least(top + 14, 28);\n"
        "        planes_f32(band, parameter + group % 2 * 100352 + group / 2 * 200704, top * 2 - 1, 1, 56, 56, 32, "
        "1744, 2, 2, 15, 2, 2, 29, 1, 3136);\n"
        "        for (int64_t tile = 0; tile < 32; tile += ROWS) {\n"
        "            const f32 *numbers[ROWS];\n"
        "            windows_f32(numbers, tensor + group % 2 * 9216, tile, 32, 32, 0, 288);\n"
        "            filters_f32(sums, 416, numbers, band, 9, offsets, 32, 1744);\n"
        "            for (int64_t channel = tile; channel < least(tile + ROWS, 32); channel++) {\n"
        "                for (int64_t row = top; row < bottom; row++) {\n"
        "                    const int64_t position = (group * 32 + channel) * 28 + row;\n"
        "                    VECTORIZE\n"
        "                    for (int64_t i = 0; i < 28; i++) {\n"
        "                        f32 conv2d = sums[(channel - tile) * 416 + (row - top) * 29 + i];\n"
        "                        f32 add = conv2d + tensor_2[position / 28 % 64];\n"
        "                        relu[position * 28 + i] = add < 0 ? 0 : add;\n"
        "                    }\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


@pytest.mark.spec("K-3")
def test_winograds_method_is_used_channel_by_channel_if_it_pays() -> None:
    """With few channels, C code computes all products; with many, NumPy computes fewer."""

    def code_of(channels: int) -> KernelCode | None:
        filters = constant(channels, channels, 3, 3)
        x = Parameter(ex.TensorType((1, channels, 28, 28), "float32"), "x")()
        plan = ex.EvalPlan(kernels="native", inference=True)
        plan.register(ex.conv2d(x, filters, padding=1))
        (kernel,) = plan.prepare().planned.schedule.kernels
        assert kernel.result.operation.name == "winograd_conv2d"
        return kernel.code

    few = code_of(96)
    assert few is not None
    assert "winograd_conv2d, without Winograd's method, as a product of 96×864 and 864×784 numbers" in few.text
    assert code_of(128) is None


PRODUCTS: dict[str, tuple[tuple[int, ...], Callable[[str], Callable[[ex.Expr], ex.Expr]]]] = {
    "one column": ((300, 70), lambda t: lambda x: ex.tanh(x @ constant(70, 1, dtype=t))),
    "columns of all widths": ((9, 33), lambda t: lambda x: ex.tanh(x @ constant(33, 16 * 7 + 3, dtype=t))),
    "four blocks": ((50, 33), lambda t: lambda x: ex.tanh(x @ constant(33, 64, dtype=t))),
    "stacked rows": (
        (5, 7, 40),
        lambda t: lambda x: x @ constant(40, 48, dtype=t) * constant(7, 1, dtype=t) + x[..., :1],
    ),
    "many parts": ((700, 900), lambda t: lambda x: ex.relu(x @ constant(900, 35, dtype=t) - 1)),
    "a matrix that varies": ((80, 80), lambda t: lambda x: ex.tanh(constant(70, 80, dtype=t) @ (x * 2))),
    "columns of a matrix that varies": (
        (70, 92),
        lambda t: lambda x: ex.tanh(constant(61, 70, dtype=t) @ (x * 2) + constant(92, dtype=t)),
    ),
    "one column of a matrix that varies": ((70, 1), lambda t: lambda x: ex.tanh(constant(61, 70, dtype=t) @ (x * 2))),
    "a transposed matrix that varies": ((81, 70), lambda t: lambda x: ex.tanh(constant(61, 70, dtype=t) @ x.T)),
    "rows of a transposed matrix": ((70, 61), lambda t: lambda x: ex.tanh(x.T @ constant(70, 49, dtype=t))),
    "two transposed matrices": ((33, 45), lambda t: lambda x: ex.tanh(x.T @ constant(81, 33, dtype=t).T + x.T[:, :1])),
    "a matrix and its transpose": ((47, 53), lambda t: lambda x: ex.tanh(x.T @ x) + ex.tanh(x.T @ x).T),
    "one row of a transposed matrix": ((5, 400), lambda t: lambda x: ex.tanh((x * 2).T @ (x + 1))),
    "a slice of a matrix": ((70, 90), lambda t: lambda x: ex.tanh(constant(61, 70, dtype=t) @ x[:, 3:79])),
    "every other row of a transposed matrix": (
        (70, 90),
        lambda t: (
            lambda x: ex.tanh(x.T[::2] @ constant(70, 40, dtype=t)) + ex.tanh(x[::2].T @ constant(35, 40, dtype=t))[:45]
        ),
    ),
    "stacks": (
        (3, 2, 40, 64),
        lambda t: (
            lambda x: (
                ex.relu(x @ constant(3, 2, 64, 48, dtype=t) + constant(48, dtype=t))
                + constant(2, 1, 1, dtype=t) * constant(40, 1, dtype=t)
            )
        ),
    ),
    "heads": (
        (2, 40, 3, 32),
        lambda t: (
            lambda x: ex.tanh(
                ex.transpose(x * 2, (0, 2, 1, 3)) @ ex.transpose(constant(2, 40, 3, 32, dtype=t) + x, (0, 2, 3, 1))
            )
        ),
    ),
    "attention": (
        (2, 40, 96),
        lambda t: lambda x: ex.softmax(heads(x, 0) @ np.swapaxes(heads(x, 1), -1, -2) * 0.2) @ heads(x, 2),
    ),
    "gradients of stacks": (
        (5, 33, 47),
        lambda t: (
            lambda x: ex.tanh(np.swapaxes(x, 1, 2) @ (x * 2)) + np.swapaxes(x, 1, 2) @ constant(5, 33, 47, dtype=t)
        ),
    ),
    "a stack of one matrix": ((1, 40, 64), lambda t: lambda x: ex.tanh(x @ constant(1, 64, 48, dtype=t))),
    "repeated rows": (
        (4, 1, 64),
        lambda t: lambda x: ex.tanh(ex.broadcast_to(x, (4, 24, 64)) @ constant(4, 64, 32, dtype=t)),
    ),
    "repeated numbers": (
        (40, 1),
        lambda t: (
            lambda x: (
                ex.tanh(ex.broadcast_to(x, (40, 64)) @ constant(64, 32, dtype=t))
                + ex.tanh(x[::-1].T @ ex.broadcast_to(x, (40, 32)))
                + ex.tanh(constant(40, 40, dtype=t) @ ex.broadcast_to(x[::-1], (40, 32)))
            )
        ),
    ),
    "all numbers of a row": ((40, 64), lambda t: lambda x: ex.relu(x @ constant(64, 64, dtype=t) + x)),
    "windows": (
        (2, 5, 13, 11),
        lambda t: lambda x: by_pixel(ex.conv2d(x, constant(33, 5, 3, 2, dtype=t), padding=(2, 1), strides=(2, 3))),
    ),
    "padding on one side": (
        (1, 3, 40, 9),
        lambda t: lambda x: by_pixel(ex.conv2d(x, constant(8, 3, 5, 4, dtype=t), padding=((0, 4), (0, 3)))),
    ),
    "windows beyond the image": (
        (1, 2, 3, 4),
        lambda t: lambda x: by_pixel(ex.conv2d(x, constant(40, 2, 2, 2, dtype=t), padding=6)),
    ),
    "pixels": ((3, 40, 9, 9), lambda t: lambda x: by_pixel(ex.conv2d(x, constant(50, 40, 1, 1, dtype=t)))),
    "two convolutions": (
        (2, 16, 30, 30),
        lambda t: (
            lambda x: by_pixel(
                ex.relu(
                    ex.conv2d(
                        ex.relu(ex.conv2d(x, constant(24, 16, 1, 1, dtype=t), strides=2)),
                        constant(40, 24, 3, 3, dtype=t),
                    )
                )
            )
        ),
    ),
    "a residual": (
        (2, 16, 30, 30),
        lambda t: (
            lambda x: by_pixel(
                ex.relu(
                    ex.conv2d(
                        y := ex.conv2d(x, constant(32, 16, 1, 1, dtype=t)), constant(32, 32, 3, 3, dtype=t), padding=1
                    )
                    + y
                )
            )
        ),
    ),
    "filters that vary": (
        (20, 16, 3, 3),
        lambda t: lambda x: by_pixel(ex.tanh(ex.conv2d(constant(1, 16, 30, 30, dtype=t), x * 2))),
    ),
    "planes": ((1, 20, 9, 9), lambda t: lambda x: ex.tanh(ex.conv2d(x, constant(50, 20, 1, 1, dtype=t)) * x[:, :1])),
    "planes, few bands": (
        (1, 40, 5, 6),
        lambda t: lambda x: ex.conv2d(x, constant(131, 40, 3, 3, dtype=t), padding=1) + constant(131, 1, 1, dtype=t),
    ),
    "planes with strides": (
        (2, 5, 13, 11),
        lambda t: lambda x: ex.conv2d(x, constant(33, 5, 3, 2, dtype=t), padding=((2, 0), (1, 3)), strides=(2, 3)),
    ),
    "planes with dilation and strides": (
        (3, 4, 30, 31),
        lambda t: (
            lambda x: ex.relu(
                ex.conv2d(x, constant(10, 4, 5, 3, dtype=t), padding=4, strides=(3, 2), dilation=(2, 3))
                + constant(1, 17, dtype=t)
            )
        ),
    ),
    "planes in groups": (
        (2, 24, 40, 17),
        lambda t: lambda x: ex.conv2d(x, constant(30, 4, 3, 3, dtype=t), padding=1, groups=6),
    ),
    "planes beyond the image": (
        (1, 2, 3, 4),
        lambda t: lambda x: ex.conv2d(x, constant(40, 2, 2, 2, dtype=t), padding=6, strides=5),
    ),
    "planes of pixels": (
        (2, 16, 30, 30),
        lambda t: (
            lambda x: ex.conv2d(
                ex.relu(ex.conv2d(x, constant(24, 16, 1, 1, dtype=t), strides=2)),
                constant(40, 12, 3, 3, dtype=t),
                groups=2,
            )
        ),
    ),
    "planes of filters that vary": (
        (20, 16, 3, 3),
        lambda t: lambda x: ex.tanh(ex.conv2d(constant(1, 16, 30, 30, dtype=t), x * 2)),
    ),
    "planes in bands": (
        (1, 64, 70, 70),
        lambda t: lambda x: ex.relu(ex.conv2d(x, constant(20, 64, 3, 3, dtype=t), padding=1) + x[:, 3:23]),
    ),
    "bands": (
        (1, 64, 70, 70),
        lambda t: lambda x: by_pixel(ex.relu(ex.conv2d(x, constant(20, 64, 3, 3, dtype=t), padding=1))),
    ),
}


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_the_values_of_numpy(name: str, dtype: str, compiler: None) -> None:
    """In two runs, with matrices that are copied once, in each run, or never."""
    shape, builds = PRODUCTS[name]
    state = RNG.bit_generator.state
    x, program = planned(shape, builds(dtype), dtype)
    codes = [kernel.code for kernel in program.planned.schedule.kernels if kernel.code and kernel.code.is_product]
    assert codes
    for scale in (1, 3):
        RNG.bit_generator.state = state
        array = np.random.default_rng(1).normal(scale=scale, size=shape).astype(dtype)
        expected = ex.evaluate(builds(dtype)(ex.tensor(array)))
        result = run(program, x, array)
        tolerance = 2000 * np.finfo(dtype).eps
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("images", "filters", "padding"),
    [
        ((1, 32, 16, 16), (32, 32, 3, 3), 1),
        ((3, 40, 13, 17), (35, 40, 3, 3), ((2, 0), (0, 1))),
        ((1, 200, 20, 31), (33, 200, 3, 3), 0),
        ((1, 33, 70, 70), (320, 33, 3, 3), 1),
    ],
)
def test_winograds_method_has_the_values_of_numpy(
    images: tuple[int, ...], filters: tuple[int, ...], padding: Any, dtype: str, compiler: None
) -> None:
    """With odd sizes, several images, and columns that are not a multiple of a block."""
    weights = constant(*filters, dtype=dtype)
    x = Parameter(ex.TensorType(images, dtype), "x")()
    y = ex.conv2d(x, weights, padding=padding)
    plans = [ex.EvalPlan(kernels=kernels, inference=True) for kernels in ("numpy", "native")]
    for plan in plans:
        plan.register(by_pixel(ex.relu(y + 1)))
    numpy, native = [Program(plan.prepare().planned) for plan in plans]
    assert "winograd_sums" in product_of(native).text
    array = RNG.normal(size=images).astype(dtype)
    expected = run(numpy, x, array)
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(run(native, x, array), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.spec("K-4")
def test_a_sum_depends_only_on_its_numbers(compiler: None) -> None:
    """The bits of an element are the same in products of other sizes, whose tiles differ."""
    x, w = RNG.normal(size=(60, 400)).astype(np.float32), RNG.normal(size=(400, 70)).astype(np.float32)

    def product(rows: slice, columns: slice) -> Array:
        weights = ex.tensor(w[:, columns].copy())
        parameter, program = planned(x[rows].shape, lambda each: (each @ weights) * 1.5)
        assert product_of(program)
        return run(program, parameter, x[rows].copy())

    whole = product(slice(None), slice(None))
    for rows, columns in ((slice(3, 40), slice(5, 69)), (slice(10, 21), slice(60, 70)), (slice(0, 60), slice(0, 48))):
        np.testing.assert_array_equal(product(rows, columns), whole[rows, columns])


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("columns", [40, 48])
def test_a_sum_of_a_matrix_that_varies_has_the_same_bits(columns: int, compiler: None) -> None:
    """Rows and matrices that are read where they are, copied in blocks or transposed."""
    x, w = RNG.normal(size=(60, 50)).astype(np.float32), RNG.normal(size=(50, columns)).astype(np.float32)
    build: dict[str, tuple[Array, Callable[[ex.Expr], ex.Expr]]] = {
        "constant": (x, lambda each: each @ ex.tensor(w)),
        "varies": (w, lambda each: ex.tensor(x) @ each),
        "transposed": (w.T.copy(), lambda each: ex.tensor(x) @ each.T),
        "rows": (x.T.copy(), lambda each: each.T @ ex.tensor(w)),
    }
    results = []
    for array, product in build.values():
        parameter, program = planned(array.shape, lambda each, product=product: product(each) * 1.5)  # type: ignore[misc]
        assert product_of(program)
        results.append(run(program, parameter, array).tobytes())
    assert len({*results}) == 1


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("is_constant", [True, False])
def test_nan_and_infinity_have_the_same_effect_as_in_numpy(is_constant: bool, compiler: None) -> None:
    x, w = RNG.normal(size=(20, 30)).astype(np.float32), RNG.normal(size=(30, 40)).astype(np.float32)
    x[3, 4], x[5, 6], w[7, 8] = np.nan, np.inf, -np.inf
    if is_constant:
        parameter, program = planned(x.shape, lambda each: (each @ ex.tensor(w)) + 1)
    else:
        parameter, program = planned(w.shape, lambda each: (ex.tensor(x) @ each) + 1)
    assert product_of(program)
    with np.errstate(invalid="ignore"):
        expected = x @ w + 1
    result = run(program, parameter, x if is_constant else w)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))


@pytest.mark.spec("K-4")
def test_nan_and_infinity_in_images_and_filters_affect_the_windows_that_contain_them(compiler: None) -> None:
    x, w = RNG.normal(size=(2, 6, 15, 18)).astype(np.float32), RNG.normal(size=(20, 3, 3, 3)).astype(np.float32)
    x[0, 1, 2, 3], x[1, 4, 14, 17], w[7, 1, 0, 0] = np.nan, np.inf, -np.inf
    filters = ex.tensor(w)

    def build(each: ex.Expr) -> ex.Expr:
        return ex.conv2d(each, filters, padding=1, strides=(1, 2), groups=2)

    parameter, program = planned(x.shape, build)
    assert product_of(program)
    result, expected = run(program, parameter, x), ex.evaluate(build(ex.tensor(x)))
    assert np.isnan(expected).any()
    assert np.isinf(expected).any()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))


@pytest.mark.spec("K-3")
@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((3, 40, 50), lambda x: ex.tanh(x @ constant(3, 50, 50))),  # few columns of the last block of each matrix
        ((30, 4, 64), lambda x: ex.tanh(x @ constant(30, 64, 64))),  # few rows of each matrix
        ((2, 64, 600), lambda x: ex.tanh(x @ constant(2, 600, 512))),  # large matrices
        ((3, 40, 64), lambda x: ex.tanh(x @ constant(1, 64, 64))),  # a stack that is broadcast
        ((80, 64), lambda x: ex.tanh(constant(3, 80) @ x)),  # few rows of a matrix that varies
        ((70, 65), lambda x: ex.tanh(constant(200, 70) @ x)),  # few columns of the last block
        ((45, 45), lambda x: ex.tanh(x.T @ constant(45, 45)) + x.T),  # a transposed matrix and its elements
        ((300, 300), lambda x: ex.tanh(constant(40, 300) @ x.T)),  # a large transposed matrix that varies
        ((80, 64), lambda x: ex.tanh(constant(8, 64) @ x.T)),  # few rows of a transposed matrix that varies
        ((800, 800), lambda x: ex.tanh(x.T @ constant(800, 64))),  # many rows of a transposed matrix
        ((300, 3000), lambda x: ex.tanh(x @ constant(3000, 64))),  # many long rows
        ((2, 40, 1, 1), lambda x: ex.conv2d(x, constant(32, 40, 1, 1))),  # few windows
        ((1, 40, 9, 9), lambda x: ex.conv2d(x, constant(3, 40, 1, 1))),  # few filters
        ((1, 2, 1, 6000), lambda x: ex.conv2d(x, constant(8, 2, 9, 9), padding=(8, 8))),  # a row larger than the cache
        ((1, 4, 3, 3), lambda x: ex.conv2d(x, constant(4, 4, 1, 1))),  # few products
        ((30, 8, 3, 3), lambda x: ex.conv2d(ex.TrivialTensor(np.float32(2), (1, 8, 20, 20)), x)),  # no array
        ((1, 16, 30, 30), lambda x: by_pixel(ex.tanh(ex.conv2d(x, constant(32, 8, 3, 3), groups=2)))),
        ((1, 16, 30, 30), lambda x: by_pixel(ex.tanh(ex.conv2d(x, constant(32, 16, 3, 3), dilation=2)))),
    ],
)
def test_blas_computes_other_products(shape: tuple[int, ...], build: Callable[[ex.Expr], ex.Expr]) -> None:
    """The operations on their results are compiled on tiles."""
    _, program = planned(shape, build)
    codes = [kernel.code for kernel in program.planned.schedule.kernels if kernel.code is not None]
    assert not any(code.is_product for code in codes)


@pytest.mark.spec("K-1", "K-4")
def test_products_of_steps_are_c_functions_that_read_the_current_weights(compiler: None) -> None:
    """One call runs all steps; weights are copied again in each run, since their array can change in place."""
    weights = Parameter(ex.TensorType((32, 32), "float32"), "weights")()
    x = Parameter(ex.TensorType((20, 8, 32), "float32"), "x")()
    last, totals = ex.scan(lambda h, x: (ex.tanh(h @ weights + x), h), ex.tensor(np.zeros((8, 32), np.float32)), x)
    plan = ex.EvalPlan(kernels="native")
    plan.register(last)
    plan.register(totals)
    program = Program(plan.prepare().planned)
    (steps,) = [kernel.steps for kernel in program.planned.schedule.kernels if kernel.steps is not None]
    assert len(steps.functions) == len(steps.parts) == 2
    array, sequence = [RNG.normal(scale=0.1, size=node.shape).astype(np.float32) for node in (weights, x)]
    for scale in (1, 0.5):
        array *= np.float32(scale)
        program.bind({weights: array, x: sequence})
        run_simple(program)
        h = np.zeros((8, 32), np.float32)
        for value in sequence:
            h = np.tanh(h @ array + value)
        np.testing.assert_allclose(program.take()[0], h, rtol=1e-3, atol=1e-4)
