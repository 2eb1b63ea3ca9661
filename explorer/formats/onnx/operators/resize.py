"""Resize, which resamples axes to other lengths."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array, normalize_axis
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Known, Unused
from explorer.ops.creation.constants import zeros
from explorer.ops.nn.resize import COORDINATES, resize
from explorer.record.reasons import counted_text


@operator("Resize")
def resize_(
    op: OperatorContext,
    X: Expr,
    roi: Unused = None,  # only used by modes that are delegated
    scales: Known[Array] | None = None,
    sizes: Known[Ints] | None = None,
    *,
    antialias: int = 0,
    axes: Ints | None = None,
    coordinate_transformation_mode: Literal[
        "half_pixel",
        "pytorch_half_pixel",
        "asymmetric",
        "align_corners",
        "half_pixel_symmetric",
        "tf_crop_and_resize",
    ] = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: Unused,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    nearest_mode: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = "round_prefer_floor",
    nearest_by_scale: bool | int = False,
) -> Any:
    """Resample axes to ``sizes`` or by ``scales``, with nearest, linear or cubic interpolation."""
    if antialias or exclude_outside or coordinate_transformation_mode not in COORDINATES:
        return delegated(op)  # modes that explorer does not implement
    chosen = [normalize_axis(axis, X.ndim, "Resize") for axis in (range(X.ndim) if axes is None else axes)]
    old = [X.shape[axis] for axis in chosen]
    if scales is not None and scales.size:
        lengths, steps = _by_scales(old, scales.reshape(-1).astype(np.float32))
    elif sizes is not None:
        lengths, steps = _to_sizes(old, list(sizes), keep_aspect_ratio_policy)
    else:
        raise op.missing_input("sizes")
    shape = dict(enumerate(X.shape)) | dict(zip(chosen, lengths, strict=True))
    if 0 in shape.values():
        return zeros(tuple(shape.values()), X.dtype)
    # unchanged axes (batch and channels) are not resampled
    changed = [i for i, length in enumerate(lengths) if length != old[i] or steps[i] != 1]

    def resized(x: Expr, indices: list[int], method: str) -> Expr:
        return resize(
            x,
            tuple([lengths[i] for i in indices]),
            tuple([chosen[i] for i in indices]),
            method=method,
            coordinates=coordinate_transformation_mode,
            steps=tuple([steps[i] for i in indices]),
            coefficient=cubic_coeff_a,
        )

    method = nearest_mode if mode == "nearest" else mode
    if not nearest_by_scale:
        return resized(X, changed, method)
    shrunk = [i for i in changed if steps[i] > 1]
    return resized(resized(X, [i for i in changed if i not in shrunk], method), shrunk, "ceil")


_Target = tuple[list[int], list[float]]
"""new lengths of axes, and distances between new elements in units of old elements"""


def _by_scales(old: list[int], scales: Array) -> _Target:
    _check(scales.tolist(), len(old))
    # in single precision, like the stored scales
    lengths = [math.floor(np.float32(length) * scale) for length, scale in zip(old, scales, strict=True)]
    return lengths, [1 / float(scale) for scale in scales]


def _to_sizes(old: list[int], sizes: list[int], policy: str) -> _Target:
    # an axis of length 0 may keep its length
    wanted = [1 if size == length == 0 else size for size, length in zip(sizes, old, strict=False)]
    _check(wanted if len(sizes) == len(old) else sizes, len(old))
    ratios = [size / max(length, 1) for size, length in zip(sizes, old, strict=True)]
    if policy != "stretch":
        ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(old)
        sizes = [math.floor(length * ratio + 0.5) for length, ratio in zip(old, ratios, strict=True)]
    if any(size and not length for size, length in zip(sizes, old, strict=True)):
        raise OperandError(f"axes of lengths {old} to sizes {sizes}", rule="Resize: an empty axis must stay empty")
    return sizes, [1 / float(np.float32(ratio or 1)) for ratio in ratios]


def _check(values: list[int] | list[float], axes: int) -> None:
    if len(values) != axes or not all(0 < value < 2**31 for value in values):
        raise OperandError(
            f"{values} for {counted_text(axes, 'axis', 'axes')}",
            rule="Resize: there must be a positive scale or size for each axis",
        )
