"""Images of another size."""

from __future__ import annotations

import math

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.types import normalize_axis
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import first, integers, is_given, known, word
from explorer.net.context import OperatorContext
from explorer.ops.resample import COORDINATES, NEAREST, resize

_POLICIES = ("stretch", "not_larger", "not_smaller")


@operator("Resize")
def resize_(op: OperatorContext) -> Expr:
    """Axes resampled to sizes or by scales: nearest, linear or cubic."""
    op.only("antialias", 0)
    op.only("exclude_outside", 0)
    x = first(op)
    axes = [normalize_axis(axis, x.ndim, "Resize") for axis in op.integers("axes", tuple(range(x.ndim)))]
    mode = word(op, "mode", "nearest", ("nearest", "linear", "cubic"))
    method = word(op, "nearest_mode", "round_prefer_floor", NEAREST) if mode == "nearest" else mode
    coordinates = word(op, "coordinate_transformation_mode", "half_pixel", COORDINATES)
    lengths, scales = _target(op, x, axes)
    if coordinates == "align_corners" and any(
        n != s * x.shape[a] for n, s, a in zip(lengths, scales, axes, strict=True)
    ):
        coordinates = "asymmetric"
        steps = [_corner_step(x.shape[axis], scale) for axis, scale in zip(axes, scales, strict=True)]
    else:
        steps = [1 / scale for scale in scales]
    changed = [i for i, axis in enumerate(axes) if lengths[i] != x.shape[axis] or scales[i] != 1]
    return resize(
        x,
        tuple([lengths[i] for i in changed]),
        tuple([axes[i] for i in changed]),
        method=method,
        coordinates=coordinates,
        steps=tuple([steps[i] for i in changed]),
        coefficient=op.number("cubic_coeff_a", -0.75),
    )


def _target(op: OperatorContext, x: Expr, axes: list[int]) -> tuple[list[int], list[float]]:
    """The new lengths, and how many times the old ones they are, of some axes."""
    old = [x.shape[axis] for axis in axes]
    if is_given(op, "scales") and known(op, "scales").size:
        scales = [float(scale) for scale in known(op, "scales").reshape(-1)]
        _check(op, scales, axes)
        return [math.floor(length * scale) for length, scale in zip(old, scales, strict=True)], scales
    sizes = list(integers(op, "sizes"))
    _check(op, sizes, axes)
    policy = word(op, "keep_aspect_ratio_policy", "stretch", _POLICIES)
    ratios = [size / length for size, length in zip(sizes, old, strict=True)]
    if policy == "stretch":
        return sizes, ratios
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(length * ratio + 0.5) for length in old], [ratio] * len(old)


def _check(op: OperatorContext, given: list[int] | list[float], axes: list[int]) -> None:
    if len(given) != len(axes) or any(value <= 0 for value in given):
        raise OperandError(
            f"{given} for {len(axes)} axes", rule=f"{op.definition.type}: there is a positive scale or size for each"
        )


def _corner_step(length: int, scale: float) -> float:
    """The distance of new elements that puts the outermost ones on each other, for a length that is not whole."""
    return (length - 1) / (length * scale - 1) if length * scale != 1 else 0.0
