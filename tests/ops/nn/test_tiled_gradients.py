"""Gradients of convolutions and poolings in pieces: each element is computed once, with equal bits on any threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.core.types.tensor_type import TensorType
from explorer.ops.nn.conv import Conv2d, Conv2dFilterGradient, Conv2dImageGradient
from explorer.ops.nn.kernels.window import Padding, Pair
from explorer.ops.nn.pooling import AvgPool2d, AvgPool2dGradient, MaxPool2d, MaxPool2dGradient
from explorer.plan.planner import plan

RNG = np.random.default_rng(0)
NONE = ((0, 0), (0, 0))
CONVOLUTIONS: list[tuple[Conv2d, tuple[int, ...], tuple[int, ...]]] = [
    (Conv2d(padding=((1, 1), (1, 1))), (3, 6, 9, 8), (5, 6, 3, 3)),
    (Conv2d(), (2, 40, 6, 7), (36, 40, 1, 1)),
    (Conv2d(), (9, 4, 2, 3), (5, 4, 1, 1)),
    (Conv2d((2, 2)), (3, 4, 7, 8), (5, 4, 1, 1)),
    (Conv2d((2, 3), ((1, 0), (2, 1))), (3, 4, 11, 10), (6, 4, 4, 3)),
    (Conv2d((3, 2), ((4, 3), (0, 2)), (2, 3)), (2, 3, 13, 14), (4, 3, 3, 2)),
    (Conv2d((1, 1), ((2, 2), (1, 3)), (2, 1)), (3, 9, 9, 8), (2, 9, 3, 3)),
    (Conv2d((2, 2), ((3, 3), (3, 3))), (3, 2, 11, 10), (9, 2, 7, 7)),
    (Conv2d((4, 4)), (2, 3, 9, 10), (4, 3, 2, 3)),
    (Conv2d((2, 1), ((1, 1), (1, 1)), (1, 2), 2), (3, 8, 9, 10), (6, 4, 3, 2)),
    (Conv2d((1, 1), ((5, 4), (3, 6)), (1, 1), 3), (2, 3, 6, 5), (6, 1, 3, 3)),
    (Conv2d((1, 1), ((1, 1), (1, 1)), (1, 1), 40), (2, 40, 7, 8), (40, 1, 3, 3)),
    (Conv2d((2, 2), ((1, 0), (0, 1)), (2, 1), 6), (3, 6, 9, 9), (6, 1, 3, 2)),
    (Conv2d((17, 9), ((1, 0), (2, 1)), (3, 1)), (2, 3, 45, 31), (4, 3, 3, 2)),
    (Conv2d((40, 1)), (2, 3, 9, 10), (4, 3, 2, 3)),
]
Options: TypeAlias = tuple[Pair, Pair, Padding, Pair, bool]
POOLINGS: list[Options] = [
    ((2, 2), (2, 2), NONE, (1, 1), False),
    ((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), False),
    ((3, 2), (1, 3), ((1, 0), (1, 1)), (2, 1), False),
    ((2, 3), (3, 4), NONE, (1, 1), True),
    ((5, 1), (1, 1), ((2, 2), (0, 0)), (1, 1), False),
]


def layouts(array: Any) -> Iterator[Any]:
    """Yield the same images in row-major, channels-last, sliced and reversed layout."""
    yield array
    yield np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    yield np.repeat(array, 2, axis=3)[..., ::2]
    yield np.ascontiguousarray(array[..., ::-1, ::-1])[..., ::-1, ::-1]


@pytest.fixture(params=["whole", "small pieces"])
def pieces(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yield the default pieces of these small operands, and the smallest possible ones."""
    if request.param == "whole":
        return
    for module in ("conv_forward", "conv_filter_gradient"):
        monkeypatch.setattr(f"explorer.ops.nn.kernels.{module}._MIN_FLOPS", 8)
        monkeypatch.setattr(f"explorer.ops.nn.kernels.{module}._BLOCK", 1500)
    monkeypatch.setattr("explorer.ops.nn.kernels.conv_filter_gradient._CHANNELS", 2)
    monkeypatch.setattr("explorer.ops.nn.kernels.pooling_tiles.TILE_BYTES", 300)


def convolution(images: Any, filters: Any, operation: Conv2d, upstream: Any) -> tuple[Any, Any]:
    """Return the gradients for images and filters, window by window."""
    (top, _), (left, _) = operation.padding
    padded = np.pad(images, ((0, 0), (0, 0), *operation.padding))
    in_images, in_filters = np.zeros_like(padded), np.zeros_like(filters)
    each, depth = len(filters) // operation.groups, filters.shape[1]
    for group, row, column in itertools.product(range(operation.groups), *map(range, upstream.shape[2:])):
        o, c = slice(group * each, (group + 1) * each), slice(group * depth, (group + 1) * depth)
        place = [
            slice(index * stride, index * stride + dilation * (size - 1) + 1, dilation)
            for index, stride, dilation, size in zip(
                (row, column), operation.strides, operation.dilation, filters.shape[2:], strict=True
            )
        ]
        given = upstream[:, o, row, column]
        in_images[:, c, place[0], place[1]] += np.einsum("no,ocij->ncij", given, filters[o])
        in_filters[o] += np.einsum("no,ncij->ocij", given, padded[:, c, place[0], place[1]])
    return in_images[:, :, top : top + images.shape[2], left : left + images.shape[3]], in_filters


@pytest.mark.spec("M-O6")
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(("operation", "images", "filters"), CONVOLUTIONS)
def test_gradients_of_convolutions_equal_their_definition(
    operation: Conv2d, images: tuple[int, ...], filters: tuple[int, ...]
) -> None:
    """Operands may have any layout."""
    x, w = RNG.standard_normal(images), RNG.standard_normal(filters)
    y = operation.compute(x, w)
    g = RNG.standard_normal(y.shape)
    in_images, in_filters = convolution(x, w, operation, g)
    np.testing.assert_allclose(np.vdot(g, y), np.vdot(in_images, x), rtol=0, atol=1e-10)  # linear in the images
    for upstream in layouts(g):
        result = Conv2dImageGradient(*operation.options, images).compute(upstream, w)
        np.testing.assert_allclose(result, in_images, rtol=0, atol=1e-11)
        for pixels in layouts(x):
            result = Conv2dFilterGradient(*operation.options, filters).compute(upstream, pixels)
            np.testing.assert_allclose(result, in_filters, rtol=0, atol=1e-11)


def windows(x: Any, options: Options, shape: tuple[int, ...]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each window's position and the positions of its pixels inside the image, in row-major order."""
    pooling = MaxPool2d(*options)
    for place in itertools.product(*map(range, shape)):
        pixels = []
        for tap in itertools.product(*map(range, pooling.size)):
            pixel = [
                index * stride + offset * dilation - before
                for index, stride, offset, dilation, (before, _) in zip(
                    place[2:], pooling.strides, tap, pooling.dilation, pooling.padding, strict=True
                )
            ]
            if all(0 <= at < size for at, size in zip(pixel, x.shape[2:], strict=True)):
                pixels.append((*place[:2], *pixel))
        yield place, pixels


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("options", POOLINGS)
def test_the_gradient_of_max_pooling_goes_to_the_first_maximum(options: Options) -> None:
    """Test ties, NaN, and an infinite gradient, which stays at its own pixel."""
    x = RNG.integers(0, 3, (2, 3, 11, 10)).astype(float)
    x[0, 1, 3:6, 2:5] = np.nan
    x[1, 0, :4] = -np.inf
    y = MaxPool2d(*options).compute(x)
    g = RNG.standard_normal(y.shape)
    g[0, 0, 1, 1] = np.inf
    expected = np.zeros_like(x)
    for place, pixels in windows(x, options, y.shape):
        first = next(pixel for pixel in pixels if x[pixel] == y[place] or np.isnan(x[pixel]) & np.isnan(y[place]))
        expected[first] += g[place]
    for pixels, results, upstream in zip(layouts(x), layouts(y), layouts(g), strict=True):
        result = MaxPool2dGradient(*options).compute(upstream, results, pixels)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("count_padding", [True, False])
@pytest.mark.parametrize("options", POOLINGS)
def test_the_gradient_of_mean_pooling_is_its_transpose(options: Options, count_padding: bool) -> None:
    x = RNG.standard_normal((2, 3, 11, 10))
    size, strides, padding, dilation, _ = options
    attributes = *options, count_padding
    y = AvgPool2d(*attributes).compute(x)
    g = RNG.standard_normal(y.shape)
    (top, below), (left, right) = padding if count_padding else NONE
    expected = np.zeros_like(x)
    for place, pixels in windows(x, options, y.shape):
        divisor = len(pixels)
        if count_padding:
            rows, columns = (
                sum(-before <= i * stride + tap * spread - first < length + after for tap in range(taps))
                for i, stride, taps, spread, (first, _), length, (before, after) in zip(
                    place[2:], strides, size, dilation, padding, x.shape[2:], ((top, below), (left, right)), strict=True
                )
            )
            divisor = rows * columns
        np.testing.assert_allclose(y[place], sum(x[pixel] for pixel in pixels) / divisor, rtol=0, atol=1e-12)
        for pixel in pixels:
            expected[pixel] += g[place] / divisor
    for upstream in layouts(g):
        result = AvgPool2dGradient(*attributes, x.shape).compute(upstream)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


def large() -> Iterator[Any]:
    """Return gradients that are large enough for several pieces, with operands."""
    x = RNG.standard_normal((4, 32, 30, 30)).astype(np.float32)
    for name, operation, shape in (
        ("plain", Conv2d(padding=((1, 1), (1, 1))), (32, 32, 3, 3)),
        ("strided", Conv2d((2, 2), ((1, 1), (1, 1))), (64, 32, 3, 3)),
        ("pointwise", Conv2d(), (128, 32, 1, 1)),
        ("grouped", Conv2d((1, 1), ((1, 1), (1, 1)), (1, 1), 4), (64, 8, 3, 3)),
        ("depthwise", Conv2d((1, 1), ((3, 3), (3, 3)), (1, 1), 32), (32, 1, 7, 7)),
    ):
        w = RNG.standard_normal(shape).astype(np.float32)
        g = RNG.standard_normal(operation.compute(x, w).shape).astype(np.float32)
        yield pytest.param(Conv2dImageGradient(*operation.options, x.shape), (g, w), id=f"images-{name}")
        yield pytest.param(Conv2dFilterGradient(*operation.options, shape), (g, x), id=f"filters-{name}")
    apart = Conv2d((13, 13), ((1, 1), (2, 0)))
    w = RNG.standard_normal((64, 32, 3, 3)).astype(np.float32)
    g = RNG.standard_normal(apart.compute(x, w).shape).astype(np.float32)
    yield pytest.param(Conv2dImageGradient(*apart.options, x.shape), (g, w), id="images-far apart")
    y = MaxPool2d((3, 3), (2, 2)).compute(x)
    yield pytest.param(MaxPool2dGradient((3, 3), (2, 2)), (y, y, x), id="max")
    yield pytest.param(AvgPool2dGradient((3, 3), (2, 2), shape=x.shape), (y,), id="mean")


LARGE = list(large())


@pytest.mark.parametrize(("operation", "operands"), LARGE)
def test_every_element_is_in_one_piece_in_any_order(operation: Operation, operands: tuple[Any, ...]) -> None:
    expected = operation.compute(*operands)
    out = np.full_like(expected, np.nan)
    prepared = None if operation.packed_operand is None else operation.pack_operand(operands[operation.packed_operand])
    pieces = operation.tiles(out, prepared, *operands)
    assert len(pieces) > 1
    times = np.zeros(out.shape, int)
    for place, compute in reversed(pieces):
        times[place] += 1
        compute()
        assert not np.isnan(out[place]).any()
    assert (times == 1).all()
    np.testing.assert_array_equal(out, expected)


def test_a_stride_far_beyond_the_window_has_few_pieces() -> None:
    """Pixels that no tap reads are written in runs: a stride of 20,000 has 4 · 10⁸ phases."""
    gradient = Conv2dImageGradient((20_000, 20_000), shape=(1, 1, 20_003, 40_003))
    g, w = np.ones((1, 1, 2, 3), "float32"), np.ones((1, 1, 3, 3), "float32")
    out = np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (1, 1, 20_003, 40_003), (0, 0, 0, 0))
    pieces = gradient.tiles(out, gradient.pack_operand(w), g, w)
    assert len(pieces) < 20
    assert sum(out[place].size for place, _ in pieces) == out.size


@pytest.mark.spec("P-11")
@pytest.mark.parametrize(("operation", "operands"), LARGE)
def test_the_number_of_threads_changes_no_bit(operation: Operation, operands: tuple[Any, ...]) -> None:
    expression = operation(*[ex.tensor(operand) for operand in operands])
    results = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            results.append(ex.evaluate(expression * 1))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_a_training_step_uses_channels_last_gradients() -> None:
    """Between the first and the last operation, gradients have the images' layout, and activations are fused."""
    x = ex.tensor(RNG.standard_normal((2, 8, 12, 12)).astype(np.float32))
    weights = [ex.tensor(RNG.standard_normal((8, 8, 3, 3)).astype(np.float32)) for _ in range(3)]
    y = x
    for filters in weights:
        y = ex.relu(ex.conv2d(y, filters, padding=1))
    loss = (ex.max_pool2d(y, 2) ** 2).sum()
    planned = plan([loss, *ex.grad(loss, weights)])
    kernels = {
        tuple(node.operation.name for node in kernel.nodes): kernel.channels_last
        for kernel in planned.schedule.kernels
        if isinstance(kernel.result.type, TensorType) and kernel.result.type.rank == 4
    }
    images = [names for names in kernels if names[0] in ("conv2d_image_gradient", "max_pool2d_gradient")]
    assert {names[0] for names in images} == {"conv2d_image_gradient", "max_pool2d_gradient"}
    assert all(kernels[names] and len(names) > 1 for names in images)
    assert not any(kernels[names] for names in kernels if names[0] == "conv2d_filter_gradient")
