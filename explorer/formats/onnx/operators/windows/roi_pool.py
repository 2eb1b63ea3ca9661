"""The largest elements of regions of images, each divided into a grid, as detectors of two stages pool them.

(MaxRoiPool since opset 1, last changed in opset 22 for dtypes alone.) Regions are values of the run, so that no window
is known before; corners are rounded to pixels, and both ends belong to a region.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.examples import Example, real
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.common.known_inputs import required
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.nn.kernels.window import Pair


class MaxRoiPool(Operation):
    """Largest elements of a grid of ``size`` windows in regions: (N, C, H, W), (R, 5) → (R, C, *size).

    A region is the number of an image and x, y of two corners, times ``scale``; a window without pixels gives 0.
    """

    size: Pair
    scale: float = 1.0
    portable = False
    nondifferentiable = "regions choose pixels by values of the run, and no file trains with them"
    refuses_gradient = True
    unbatchable = "regions name images by their number in one batch"
    examples = (Example(real(1, 2, 4, 5), real(3, 5, low=0.0, high=0.4), size=(2, 2)),)

    def infer(self, x: TensorType, regions: TensorType) -> TensorType:
        """Return (R, C, *size) in the dtype of the images."""
        if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 5 or min(self.size) < 1:
            raise self.refuse((x, regions), "there must be images (N, C, H, W), regions (R, 5) and a window at least")
        if x.dtype.kind != "f" or regions.dtype.kind != "f":
            raise self.refuse((x, regions), "images and regions must be real numbers")
        return TensorType((regions.shape[0], x.shape[1], *self.size), x.dtype)

    def kernel(self, out: Array, x: Array, regions: Array) -> Array:
        """Take the largest pixels, window by window."""
        if not np.isfinite(regions).all():
            raise ValueError("a region with an infinite corner, or NaN")
        scale = regions.dtype.type(self.scale)
        for number, (image, *corners) in enumerate(regions):
            if not 0 <= image < len(x):
                raise ValueError(f"a region of image {int(image)} of {len(x)}")
            left, top, right, bottom = (_nearest(corner * scale) for corner in corners)
            rows = self._windows(top, bottom, x.shape[2], 0)
            columns = self._windows(left, right, x.shape[3], 1)
            for row, band in enumerate(rows):
                for column, part in enumerate(columns):
                    pixels = x[int(image), :, band, part]
                    out[number, :, row, column] = pixels.max((1, 2)) if pixels.size else 0
        return out

    def _windows(self, first: int, last: int, length: int, axis: int) -> list[slice]:
        """Return the pixels of each window along an axis of a region; they end at the image's edge."""
        count = self.size[axis]
        # in single precision, as the operators that wrote such files compute it
        step = np.float32(max(last - first + 1, 1)) / np.float32(count)
        ends = [(math.floor(i * step) + first, math.ceil((i + 1) * step) + first) for i in range(count)]
        return [slice(min(max(low, 0), length), min(max(high, 0), length)) for low, high in ends]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return a comparison for each pixel of an image and region: how many there are is not known."""
        return types[1].shape[0] * types[0].size // max(types[0].shape[0], 1)


def _nearest(number: float) -> int:
    """Round half away from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


@operator("MaxRoiPool")
def max_roi_pool(op: OperatorContext) -> Expr:
    """The largest elements of a grid of windows in each region."""
    size = op.integers("pooled_shape")
    if len(size) != 2 or min(size) < 1:
        raise OperandError(f"pooled_shape={size}", rule="MaxRoiPool: pooled_shape must be two numbers of 1 or more")
    return MaxRoiPool((size[0], size[1]), op.number("spatial_scale", 1.0))(required(op, "X"), required(op, "rois"))
