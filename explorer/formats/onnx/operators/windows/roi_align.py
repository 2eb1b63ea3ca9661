"""RoiAlign and MaxRoiPool, which resample regions of images to one size for two-stage detectors.

A region is an input, and is divided into bins. The value of a bin is the mean or maximum of samples, which are
interpolated between pixels. Interpolation is separable, so a mean is computed over rows first, then over columns. (He
et al., Mask R-CNN, 2017.) RoiAlign exists since opset 10; since opset 16, pixel centres have half coordinates.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Ints
from explorer.ops.nn.kernels.window import Pair

_MAX_SAMPLES = 2**20
"""maximum number of samples of a region along an axis; one sample per bin is always allowed"""
_MAX_ELEMENTS = 2**26
"""maximum number of elements read per region, since a hostile file may request more than fits in memory"""


class RoiAlign(Operation):
    """Bins of regions resampled from images: (N, C, H, W), (R, 4), image indices (R,) → (R, C, *size).

    A region is given by the x, y of two corners, times ``scale``. A bin has ``samples`` samples along an axis; 0 means
    about one sample per pixel. ``mode`` "avg" returns the mean of the samples, "max" the largest product of a pixel and
    its weight. If ``is_centred`` is set, pixel centres have half coordinates, and a region may be smaller than a pixel.
    """

    size: Pair
    samples: int = 0
    scale: float = 1.0
    mode: str = "avg"
    is_centred: bool = True
    portable = False
    accumulates = True
    nondifferentiable = "the pixels that a region reads depend on values, and no known file trains with regions"
    refuses_gradient = True
    unbatchable = "regions refer to images by their index in a single batch"
    examples = (
        Example(real(2, 2, 5, 6), real(3, 4, low=0.0, high=4.0), integers(3, high=2), size=(2, 3)),
        Example(
            real(1, 2, 5, 6), real(2, 4, low=0.0, high=4.0), integers(2, high=1), size=(2, 2), samples=2, mode="max"
        ),
    )

    def infer(self, x: TensorType, regions: TensorType, numbers: TensorType) -> TensorType:
        """Return (R, C, *size) in the dtype of the images."""
        rule = ""
        if x.rank != 4 or regions.shape != (*numbers.shape, 4) or numbers.rank != 1:
            rule = "operands must be images (N, C, H, W), regions (R, 4) and image indices (R,)"
        elif x.dtype.kind != "f" or regions.dtype.kind != "f" or numbers.dtype.kind not in "iu":
            rule = "images and regions must be real numbers, and image indices integers"
        elif min(self.size) < 1 or self.samples < 0 or 0 in x.shape[2:]:
            rule = "there must be at least one bin and one pixel, and samples must be 0 or more"
        if rule:
            raise self.refuse((x, regions, numbers), rule)
        return TensorType((regions.shape[0], x.shape[1], *self.size), x.dtype)

    def kernel(self, out: Array, x: Array, regions: Array, numbers: Array) -> Array:
        """Resample each region; raise ValueError if an image index is invalid or a corner is infinite."""
        if not np.isfinite(regions).all():
            raise ValueError("a region with an infinite or NaN corner")
        # In single precision, or in the precision of the regions if it is higher, like the original operators.
        dtype = np.result_type(regions.dtype, np.float32)
        with np.errstate(over="ignore"):
            corners = regions.astype(dtype) * dtype.type(self.scale) - dtype.type(0.5 if self.is_centred else 0)
            if not np.isfinite(corners[:, 2:] - corners[:, :2]).all():
                raise ValueError(f"a region outside the range of {dtype.name} with the scale {self.scale}")
        for index, (image, (left, top, right, bottom)) in enumerate(zip(numbers.tolist(), corners, strict=True)):
            if not 0 <= image < len(x):
                raise ValueError(f"a region of image {image} of {len(x)}")
            rows, columns = self._taps(top, bottom, 0, x.shape[2]), self._taps(left, right, 1, x.shape[3])
            across, along = rows.low.size, columns.low.size
            wide = columns.extent.stop - columns.extent.start
            read = across * along if self.mode == "max" else max(across * wide, self.size[0] * along)
            if read * x.shape[1] > _MAX_ELEMENTS:
                raise ValueError(
                    f"a region of {across} × {along} samples of {x.shape[1]} channels exceeds {_MAX_ELEMENTS} elements"
                )
            # Cut the pixels out first, so that a mean over rows reads no other columns.
            pixels = x[image, :, rows.extent, columns.extent]
            resampled = self._largest if self.mode == "max" else _mean
            out[index] = resampled(pixels, rows.from_first(), columns.from_first())
        return out

    def _taps(self, first: np.floating, last: np.floating, axis: int, length: int) -> _Taps:
        """Return the pixels read along an axis by the samples of each bin."""
        extent, bins = last - first, self.size[axis]
        if not self.is_centred:
            extent = max(extent, extent.dtype.type(1))
        step = extent / extent.dtype.type(bins)
        count = self.samples or max(math.ceil(step), 0)
        if count > max(_MAX_SAMPLES // bins, 1):
            raise ValueError(f"a region of {extent:g} pixels, for which a bin needs {count} samples")
        sample_offsets = (
            (np.arange(count, dtype=extent.dtype) + extent.dtype.type(0.5)) * step / extent.dtype.type(max(count, 1))
        )
        place = first + np.arange(bins, dtype=extent.dtype)[:, None] * step + sample_offsets
        # A sample more than one pixel outside the image is 0; a nearer sample is read from the edge.
        inside = (place >= -1) & (place <= length)
        place = place.clip(0, length - 1)
        low = place.astype(np.intp)
        fraction = place - low
        return _Taps(low, np.minimum(low + 1, length - 1), inside * (1 - fraction), inside * fraction)

    def _largest(self, x: Array, rows: _Taps, columns: _Taps) -> Array:
        """Return the largest product of a pixel and its weight in each bin; 0 if a bin has no samples."""
        bins, count = rows.low.shape
        across, along = columns.low.shape
        if not count * along:
            return np.zeros((len(x), bins, across), x.dtype)
        best = np.full((len(x), bins, across), -np.inf, x.dtype)
        for place, weight in ((rows.low, rows.below), (rows.high, rows.above)):
            for column_pixels, column_weight in ((columns.low, columns.below), (columns.high, columns.above)):
                pixels = x[:, place.reshape(-1, 1), column_pixels.reshape(1, -1)]
                products = pixels * (weight.reshape(-1, 1) * column_weight.reshape(1, -1)).astype(x.dtype)
                np.maximum(best, products.reshape(-1, bins, count, across, along).max((2, 4)), out=best)
        return best

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return four products per bin, as for a single sample, because the number of samples is unknown."""
        return 8 * types[1].shape[0] * types[0].shape[1] * self.size[0] * self.size[1]


class _Taps(NamedTuple):
    """Indices and weights of the pixels before and after each sample, (bins, samples)."""

    low: Array
    high: Array
    below: Array
    above: Array

    @property
    def extent(self) -> slice:
        """Range of the pixels that the samples read."""
        return slice(int(self.low.min()), int(self.high.max()) + 1) if self.low.size else slice(0, 1)

    def from_first(self) -> _Taps:
        """Return the taps with indices relative to the first pixel read."""
        first = self.extent.start
        return self._replace(low=self.low - first, high=self.high - first)


def _mean(x: Array, rows: _Taps, columns: _Taps) -> Array:
    """Return the mean of the samples of each bin, (C, rows of bins, columns of bins); 0 if a bin has no samples."""
    return _mean_along(_mean_along(x, rows, 1), columns, 2)


def _mean_along(x: Array, taps: _Taps, axis: int) -> Array:
    bins, count = taps.low.shape
    column = (-1, 1) if axis == 1 else (-1,)
    below, above = (weight.astype(x.dtype).reshape(column) for weight in (taps.below, taps.above))
    samples = x.take(taps.low.reshape(-1), axis) * below + x.take(taps.high.reshape(-1), axis) * above
    shape = (*x.shape[:axis], bins, count, *x.shape[axis + 1 :])
    means: Array = samples.reshape(shape).sum(axis + 1) / x.dtype.type(max(count, 1))
    return means


@operator("RoiAlign")
def roi_align(
    X: Expr,
    rois: Expr,
    batch_indices: Expr,
    *,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Expr:
    """Return the bins of regions, each the mean or maximum of samples interpolated between pixels."""
    if min(output_height, output_width) < 1 or sampling_ratio < 0:
        raise OperandError(
            f"{output_height} × {output_width} bins and sampling_ratio={sampling_ratio}",
            rule="RoiAlign: there must be at least one bin, and sampling_ratio must be 0 or more",
        )
    if not math.isfinite(spatial_scale):
        raise OperandError(f"spatial_scale={spatial_scale}", rule="RoiAlign: spatial_scale must be a finite number")
    size, is_centred = (output_height, output_width), coordinate_transformation_mode == "half_pixel"
    return RoiAlign(size, sampling_ratio, spatial_scale, mode, is_centred)(X, rois, batch_indices)


class MaxRoiPool(Operation):
    """Largest elements of a grid of ``size`` windows in regions: (N, C, H, W), (R, 5) → (R, C, *size).

    A region is given by an image index and the x, y of two corners, times ``scale``. A window without pixels gives 0.
    """

    size: Pair
    scale: float = 1.0
    portable = False
    nondifferentiable = "the pixels that a region reads depend on values, and no known file trains with regions"
    refuses_gradient = True
    unbatchable = "regions refer to images by their index in a single batch"
    examples = (Example(real(1, 2, 4, 5), real(3, 5, low=0.0, high=0.4), size=(2, 2)),)

    def infer(self, x: TensorType, regions: TensorType) -> TensorType:
        """Return (R, C, *size) in the dtype of the images."""
        if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 5 or min(self.size) < 1:
            raise self.refuse(
                (x, regions), "operands must be images (N, C, H, W) and regions (R, 5), and size must be positive"
            )
        if x.dtype.kind != "f" or regions.dtype.kind != "f":
            raise self.refuse((x, regions), "images and regions must be real numbers")
        return TensorType((regions.shape[0], x.shape[1], *self.size), x.dtype)

    def kernel(self, out: Array, x: Array, regions: Array) -> Array:
        """Write the largest pixel of each window to ``out``."""
        if not np.isfinite(regions).all():
            raise ValueError("a region with an infinite or NaN corner")
        scale = regions.dtype.type(self.scale)
        for number, (image, *corners) in enumerate(regions):
            if not 0 <= image < len(x):
                raise ValueError(f"a region of image {int(image)} of {len(x)}")
            left, top, right, bottom = (_nearest(corner * scale) for corner in corners)
            rows = self._windows(top, bottom, x.shape[2], 0)
            columns = self._windows(left, right, x.shape[3], 1)
            for row, band in enumerate(rows):
                for column, span in enumerate(columns):
                    pixels = x[int(image), :, band, span]
                    out[number, :, row, column] = pixels.max((1, 2)) if pixels.size else 0
        return out

    def _windows(self, first: int, last: int, length: int, axis: int) -> list[slice]:
        count = self.size[axis]
        # in single precision, like the original operators
        step = np.float32(max(last - first + 1, 1)) / np.float32(count)
        ends = [(math.floor(i * step) + first, math.ceil((i + 1) * step) + first) for i in range(count)]
        return [slice(min(max(low, 0), length), min(max(high, 0), length)) for low, high in ends]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return one comparison per region and pixel of an image, because the actual number is unknown."""
        return types[1].shape[0] * types[0].size // max(types[0].shape[0], 1)


def _nearest(number: float) -> int:
    """Round to the nearest integer, and halves away from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


@operator("MaxRoiPool")
def max_roi_pool(X: Expr, rois: Expr, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Expr:
    """Return the largest elements of a grid of windows in each region."""
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise OperandError(
            f"pooled_shape={pooled_shape}", rule="MaxRoiPool: pooled_shape must be two positive integers"
        )
    return MaxRoiPool((pooled_shape[0], pooled_shape[1]), spatial_scale)(X, rois)
