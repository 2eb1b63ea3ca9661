"""Convolutions of images with any memory layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.tiles import scratch
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.conv import Conv2d
from explorer.ops.nn.conv_winograd import WinogradConv2d
from explorer.ops.nn.kernels import conv_forward
from explorer.ops.nn.kernels.window import Padding
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

WHOLE, SECOND, BACK = slice(None), slice(None, None, 2), slice(None, None, -1)


@pytest.mark.parametrize("size", [1, 2])
def test_images_may_be_any_view(size: int) -> None:
    """Sliced, reversed and transposed images are supported."""
    generator = np.random.default_rng(0)
    images, filters = generator.normal(size=(4, 6, 6, 6)), generator.normal(size=(5, 3, size, size))
    for parts in itertools.product((SECOND, WHOLE), (SECOND,), (SECOND, WHOLE, BACK), (SECOND, WHOLE, BACK)):
        for order, rows, columns in itertools.product(((0, 1, 2, 3), (0, 1, 3, 2)), (2, 3), (2, 3)):
            view = images[parts].transpose(order)[:, :, :rows, :columns]
            expression = ex.conv2d(ex.tensor(images)[parts].transpose(order)[:, :, :rows, :columns], filters)
            windows = np.lib.stride_tricks.sliding_window_view(view, (size, size), (2, 3))
            expected = np.einsum("nchwij,ocij->nohw", windows, filters)
            np.testing.assert_allclose(ex.evaluate(expression), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("padding", [((1, 0), (0, 1)), ((0, 2), (1, 0)), ((2, 1), (0, 3)), ((0, 0), (2, 2))])
@pytest.mark.parametrize("shape", [(1, 2, 5, 4), (2, 3, 6, 7), (3, 1, 3, 3)])
def test_tiles_cover_images_up_to_their_borders(shape: tuple[int, ...], padding: Padding) -> None:
    """This holds for garbage in the thread's scratch memory, and for any padding on each side."""
    generator = np.random.default_rng(0)
    images, filters = generator.normal(size=shape), generator.normal(size=(4, shape[1], 3, 3))
    expected = Conv2d(padding=padding).compute(images, filters)
    for dirt in (np.nan, 1e9):
        scratch("dirt", [((1 << 16,), np.float64)], _itself).fill(dirt)
        result = WinogradConv2d(padding=padding).compute(images, filters)
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [3, 300])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_a_depthwise_convolution_has_the_same_bits_for_any_number_of_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch, dtype: str, channels: int, stride: int
) -> None:
    """Test one and many channels and any stride; half precision accumulates in float32."""
    generator = np.random.default_rng(0)
    images = (4 * generator.normal(size=(2, channels, 7, 6))).astype(dtype)
    filters = (4 * generator.normal(size=(channels, 1, 3, 3))).astype(dtype)
    convolution = Conv2d((stride, stride), ((1, 1), (0, 1)), groups=channels)
    whole = convolution.compute(images, filters)
    monkeypatch.setattr(conv_forward, "_ROWS", 1)
    np.testing.assert_array_equal(convolution.compute(images, filters), whole)
    wide = np.pad(images.astype("float64"), ((0, 0), (0, 0), (1, 1), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    expected = np.einsum("nchwij,cij->nchw", windows, filters[:, 0].astype("float64"))
    np.testing.assert_allclose(whole, expected, rtol=1e-3 if dtype == "float16" else 1e-5, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("run", [1, 20, 1 << 20])
@pytest.mark.parametrize("padding", [((0, 0), (0, 0)), ((1, 1), (0, 1))])
def test_a_depthwise_convolution_adds_its_taps_in_order_for_any_number_of_pixels_at_a_time(
    monkeypatch: pytest.MonkeyPatch, padding: Padding, run: int, stride: int
) -> None:
    """Test channels-first and channels-last images and results, and some channels of such images."""
    monkeypatch.setattr(conv_forward, "_MIN_RUN", run)
    generator = np.random.default_rng(0)
    pixels = generator.normal(size=(2, 7, 8, 10)).astype("float32").transpose(0, 3, 1, 2)
    filters = generator.normal(size=(5, 1, 3, 3)).astype("float32")
    convolution = Conv2d((stride, stride), padding, groups=5)
    wide = np.pad(pixels[:, 3:8], ((0, 0), (0, 0), *padding))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    expected = np.zeros(windows.shape[:4], "float32")
    for row, column in np.ndindex(3, 3):
        expected += windows[..., row, column] * filters[:, :, row, column, None]
    for images in (pixels[:, 3:8], np.ascontiguousarray(pixels[:, 3:8])):
        apart = np.full((*expected.shape[:1], *expected.shape[2:], 9), np.nan, "float32").transpose(0, 3, 1, 2)
        for out in (np.empty_like(expected), apart[:, 2:7], apart[:, :5].copy(order="K")):
            convolution.kernel(out, images, filters)
            np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(out, convolution.compute(np.ascontiguousarray(images), filters))


def _itself(memory: Array) -> Array:
    return memory


@pytest.mark.parametrize("device", [ex.cpu, accelerator], ids=lambda device: device.name)
@pytest.mark.parametrize(
    ("images", "filters"), [((0, 2, 4, 4), (3, 2, 3, 3)), ((1, 0, 4, 4), (3, 0, 3, 3)), ((1, 2, 4, 4), (0, 2, 3, 3))]
)
def test_images_filters_and_channels_may_be_empty(images: Shape, filters: Shape, device: ex.Device) -> None:
    """The result and its gradients are empty or zeros."""
    x, w = ex.tensor(np.ones(images), device=device), ex.tensor(np.ones(filters), device=device)
    y = ex.conv2d(x, w)
    values = ex.evaluate([y, *ex.grad(y.sum(), [x, w])])
    assert [value.shape for value in values] == [(images[0], filters[0], 2, 2), images, filters]
    assert not any(value.any() for value in values)


@pytest.mark.spec("I-5")
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize(("stride", "dilation", "more"), [(1, 2, 1), (1, 3, 2), (2, 3, 2), (2, 4, 3), (3, 2, 2)])
def test_output_padding_must_be_smaller_than_the_stride_or_the_dilation(
    stride: int, dilation: int, more: int, padding: int
) -> None:
    """A transposed convolution is the full one, cropped by the padding, with zeros added by output_padding."""
    generator = np.random.default_rng(0)
    x, filters = generator.normal(size=(2, 3, 4, 5)), generator.normal(size=(3, 2, 3, 3))
    bias, steps = generator.normal(size=2), {"strides": stride, "dilation": dilation}
    whole = ex.evaluate(ex.conv_transpose2d(ex.tensor(x), ex.tensor(filters), **steps))
    longer = np.pad(whole, ((0, 0), (0, 0), (0, more), (0, more)))
    ends = [size + more - padding for size in whole.shape[2:]]
    expected = longer[:, :, padding : ends[0], padding : ends[1]] + bias[:, None, None]
    options = {**steps, "padding": padding, "output_padding": more}
    y = ex.conv_transpose2d(ex.tensor(x), ex.tensor(filters), bias, **options)
    np.testing.assert_allclose(ex.evaluate(y), expected, rtol=1e-12, atol=1e-12)
    if not padding:
        deep = ex.conv_transpose3d(ex.tensor(x[:, :, None]), ex.tensor(filters[:, :, None]), bias, **options)
        np.testing.assert_allclose(ex.evaluate(deep)[:, :, 0], expected, rtol=1e-12, atol=1e-12)
        assert deep.shape[2] == 1 + more
    with refused(ex.OperandError, "stride or the dilation"):
        ex.conv_transpose2d(ex.tensor(x), ex.tensor(filters), **steps, output_padding=max(stride, dilation))
