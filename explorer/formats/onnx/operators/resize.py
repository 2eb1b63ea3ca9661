"""Images of another size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.onnx_words import NEAREST_BY_SCALE
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import first
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, is_given, known
from explorer.ops.creation.constants import zeros
from explorer.ops.nn.resize import COORDINATES, NEAREST, resize
from explorer.record.reasons import counted_text

_POLICIES = ("stretch", "not_larger", "not_smaller")


# Each of these belongs to one mode, or to sizes; exporters write it for the others, too.
@operator("Resize", ignored=("roi", "extrapolation_value", "keep_aspect_ratio_policy", "nearest_mode"))
def resize_(op: OperatorContext) -> Any:
    """Axes resampled to sizes or by scales: nearest, linear or cubic."""
    if _is_rare(op):
        return delegated(op)
    x = first(op)
    axes = [normalize_axis(axis, x.ndim, "Resize") for axis in op.integers("axes", tuple(range(x.ndim)))]
    mode = op.word("mode", "nearest", ("nearest", "linear", "cubic"))
    method = op.word("nearest_mode", "round_prefer_floor", NEAREST) if mode == "nearest" else mode
    coordinates = op.word("coordinate_transformation_mode", "half_pixel", COORDINATES)
    lengths, steps = _target(op, x, axes)
    shape = dict(enumerate(x.shape)) | dict(zip(axes, lengths, strict=True))
    if 0 in shape.values():
        return zeros(tuple(shape.values()), x.dtype)
    # axes that stay as they are (batch and channels) are not resampled
    changed = [i for i, axis in enumerate(axes) if lengths[i] != x.shape[axis] or steps[i] != 1]

    def resized(x: Expr, places: list[int], method: str) -> Expr:
        return resize(
            x,
            tuple([lengths[i] for i in places]),
            tuple([axes[i] for i in places]),
            method=method,
            coordinates=coordinates,
            steps=tuple([steps[i] for i in places]),
            coefficient=op.number("cubic_coeff_a", -0.75),
        )

    if not op.argument(NEAREST_BY_SCALE, False):
        return resized(x, changed, method)
    shrunk = [i for i in changed if steps[i] > 1]
    return resized(resized(x, [i for i in changed if i not in shrunk], method), shrunk, "ceil")


def _is_rare(op: OperatorContext) -> bool:
    """Whether it is a form of which explorer has no operation."""
    coordinates = op.argument("coordinate_transformation_mode", "half_pixel")
    return (
        op.integer("antialias", 0) != 0
        or op.integer("exclude_outside", 0) != 0
        or coordinates in ("tf_crop_and_resize", "half_pixel_symmetric")
    )


def _target(op: OperatorContext, x: Expr, axes: list[int]) -> tuple[list[int], list[float]]:
    """Return new lengths of axes, and distances of new elements in units of old ones; scales have single precision."""
    old = [x.shape[axis] for axis in axes]
    if is_given(op, "scales") and known(op, "scales").size:
        scales = known(op, "scales").reshape(-1).astype(np.float32)
        _check(op, scales.tolist(), axes, old)
        # in single precision, as the scales are stored
        lengths = [math.floor(np.float32(length) * scale) for length, scale in zip(old, scales, strict=True)]
        return lengths, [1 / float(scale) for scale in scales]
    sizes = list(integers(op, "sizes"))
    # an axis of length 0 may stay one
    wanted = [1 if size == length == 0 else size for size, length in zip(sizes, old, strict=False)]
    _check(op, wanted if len(sizes) == len(old) else sizes, axes, old)
    policy = op.word("keep_aspect_ratio_policy", "stretch", _POLICIES)
    ratios = [size / max(length, 1) for size, length in zip(sizes, old, strict=True)]
    if policy != "stretch":
        ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(old)
        sizes = [math.floor(length * ratio + 0.5) for length, ratio in zip(old, ratios, strict=True)]
    if any(size and not length for size, length in zip(sizes, old, strict=True)):
        raise OperandError(
            f"axes of lengths {old} to sizes {sizes}",
            rule=f"{op.definition.type}: an empty axis must stay so",
        )
    return sizes, [1 / float(np.float32(ratio or 1)) for ratio in ratios]


def _check(op: OperatorContext, values: list[int] | list[float], axes: list[int], old: list[int]) -> None:
    if len(values) != len(axes) or not all(0 < value < 2**31 for value in values):
        raise OperandError(
            f"{values} for {counted_text(len(axes), 'axis', 'axes')}",
            rule=f"{op.definition.type}: there must be a positive scale or size for each axis",
        )
