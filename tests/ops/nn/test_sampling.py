"""Sampling between pixels, windows and biases: empty channels, and operands of other sizes."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused


@pytest.mark.parametrize("images", [0, 2])
@pytest.mark.parametrize("method", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_images_without_channels_can_be_sampled(images: int, method: str, padding: str) -> None:
    x, grid = np.zeros((images, 0, 4, 3)), np.zeros((images, 5, 6, 2))
    assert ex.evaluate(ex.grid_sample(x, grid, method, padding)).shape == (images, 0, 5, 6)


def test_deformable_taps_with_empty_channels_or_filters() -> None:
    x, offset = np.ones((2, 0, 4, 4)), np.zeros((2, 8, 3, 3))
    result = ex.evaluate(ex.deform_conv2d(x, np.ones((3, 0, 2, 2)), offset))
    np.testing.assert_array_equal(result, np.zeros((2, 3, 3, 3)))
    assert ex.evaluate(ex.deform_conv2d(np.ones((2, 1, 4, 4)), np.ones((0, 1, 2, 2)), offset)).shape == (2, 0, 3, 3)


NAN, INF = np.nan, np.inf
FAR = [[NAN, 0], [0, NAN], [NAN, NAN], [INF, 0], [-INF, 0.3], [0.2, INF]]
"""points (x, y) of an image with an invalid position"""


@pytest.mark.parametrize(
    ("method", "padding", "expected"),
    [
        ("linear", "zeros", [NAN] * 6),
        ("nearest", "zeros", [0] * 6),
        ("linear", "border", [3, 1, 0, 5, 4.35, 7.3]),
        ("nearest", "border", [3, 1, 0, 5, 3, 7]),
        ("linear", "reflection", [3, 1, 0, 3, 4.35, 1.3]),
        ("nearest", "reflection", [3, 1, 0, 3, 3, 1]),
        ("cubic", "zeros", [NAN] * 6),
        ("cubic", "border", [NAN] * 6),
        ("cubic", "reflection", [NAN] * 6),
    ],
)
def test_invalid_points_have_torchs_values(method: str, padding: str, expected: list[float]) -> None:
    """A NaN coordinate means the first element if coordinates are clipped to the image."""
    x = np.arange(9.0, dtype=np.float32).reshape(1, 1, 3, 3)
    with np.errstate(invalid="ignore"):
        result = ex.evaluate(ex.grid_sample(x, np.array([[FAR]], np.float32), method, padding))
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-5)


def test_a_tap_at_an_infinite_offset_reads_zero() -> None:
    x, offset = np.ones((1, 1, 2, 2)), np.zeros((1, 2, 2, 2))
    offset[0, :, 0, 0] = INF, -INF
    np.testing.assert_array_equal(
        ex.evaluate(ex.deform_conv2d(x, np.ones((1, 1, 1, 1)), offset))[0, 0], [[0, 1], [1, 1]]
    )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_bias_of_another_size_raises_an_error(size: int) -> None:
    """Broadcasting would make five channels of one, or add one number to three."""
    x, bias, channels = np.ones((1, 2, 4, 4)), np.ones(size), 1 if size == 5 else 3
    said = f"a bias {size} float64 for {channels} channels", "one element per channel"
    filters, volumes = np.ones((channels, 2, 2, 2)), np.ones((channels, 2, 2, 2, 2))
    with refused(ex.OperandError, *said):
        ex.conv2d(x, filters, bias)
    with refused(ex.OperandError, *said):
        ex.deform_conv2d(x, filters, np.zeros((1, 8, 3, 3)), None, bias)
    with refused(ex.OperandError, *said):
        ex.conv_transpose2d(x, filters.swapaxes(0, 1), bias)
    with refused(ex.OperandError, *said):
        ex.conv3d(x[:, :, None].repeat(4, 2), volumes, bias)


@pytest.mark.parametrize("option", [{"strides": (0, 1)}, {"strides": -1}, {"dilation": (1, 0)}])
def test_deformable_taps_support_strides(option: dict[str, int]) -> None:
    with refused(ex.OperandError, "must be at least 1"):
        ex.deform_conv2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 2, 2)), np.zeros((1, 8, 3, 3)), **option)
