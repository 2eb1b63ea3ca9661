"""Resizing of images axis by axis: each new element is a weighted sum of a few old elements.

Resampling each axis separately needs t products per element and axis, where t is 1, 2 or 4; a two-dimensional kernel
would need t². Resampling is linear, so its gradient is its adjoint.

Options are as in ONNX (Resize, since opset 11): ``coordinates`` is ONNX's coordinate_transformation_mode,
``coefficient`` is cubic_coeff_a, and the rounding methods are the values of nearest_mode. PNNX: F.interpolate,
nn.Upsample. Antialiasing (ONNX's antialias, opset 18) is not supported, because its filters grow with the factor.
"""

from __future__ import annotations

import functools
import itertools
import math
from functools import partial
from typing import Any, TypeVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, compute, even, longest, scratch
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, as_integer, normalize_axes
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import float_dtype
from explorer.ops.manipulation.gather import take_valid

__all__ = ["resize"]

T = TypeVar("T")

_ROUNDING = {
    "floor": (0.0, False),
    "ceil": (0.0, True),
    "round_prefer_floor": (-0.5, True),
    "round_prefer_ceil": (0.5, False),
}
"""rounding method → offset added to positions, and whether the sum is rounded up"""
NEAREST = tuple(_ROUNDING)
METHODS = (*NEAREST, "linear", "cubic")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


class Resample(Operation):
    """Resampling of one axis to another length.

    As in ONNX, ``coordinates`` determine the positions of new elements. ``step`` is the distance between new elements
    in units of old elements. Methods are "linear", "cubic" with ``coefficient``, and rounding to the nearest element.
    Beyond the ends, the outermost elements are repeated.
    """

    axis: int
    length: int
    method: str
    coordinates: str
    step: float
    coefficient: float = -0.75
    linear = accumulates = True
    examples = (
        Example(real(2, 3, 4), axis=2, length=7, method="linear", coordinates="half_pixel", step=4 / 7),
        Example(real(2, 5), axis=0, length=3, method="linear", coordinates="align_corners", step=2 / 3),
        Example(real(3, 4), axis=1, length=3, method="cubic", coordinates="half_pixel", step=4 / 3),
        Example(real(3, 4), axis=0, length=6, method="floor", coordinates="asymmetric", step=0.5),
    )

    def infer(self, x: TensorType) -> TensorType:
        _check(self, x)
        if not 0 <= self.axis < x.rank or not x.shape[self.axis]:
            raise self.refuse((x,), f"there must be an axis {self.axis} with at least one element")
        type_ = x if self.method in NEAREST else x.with_dtype(float_dtype(x.dtype))
        return type_.with_shape((*x.shape[: self.axis], self.length, *x.shape[self.axis + 1 :]))

    def taps(self, length: int) -> tuple[Array, Array]:
        """Return indices and weights (taps, new length) of old elements along an axis of ``length`` elements."""
        return _taps(length, self.length, self.method, self.coordinates, self.step, self.coefficient)

    def kernel(self, out: Array, x: Array) -> Array:
        compute(self.tiles(out, None, x))
        return out

    def tiles(self, out: Array, prepared: None, x: Array) -> list[Tile]:
        indices, weights = self.taps(x.shape[self.axis])
        indices, weights = np.asarray(indices, like=x), np.asarray(weights, out.dtype, like=out)
        # on other devices, one tile computes the whole result
        tile_indices = (
            self._tile_indices(out.shape, out.itemsize) if isinstance(out, np.ndarray) else [(slice(None),) * out.ndim]
        )
        full = slice(None)
        return [
            Tile(
                index,
                partial(
                    self._make,
                    out[index],
                    x[*index[: self.axis], full, *index[self.axis + 1 :]],
                    indices,
                    weights,
                ),
            )
            for index in tile_indices
        ]

    def _make(self, out: Array, x: Array, indices: Array, weights: Array) -> None:
        # with one tap, copy elements without multiplying them, so that integers and NaN are preserved
        if len(indices) == 1:
            # NumPy would buffer a non-contiguous result
            if out.flags.c_contiguous:
                take_valid(x, indices[0], self.axis, out)
            else:
                out[...] = take_valid(x, indices[0], self.axis, None)
            return
        broadcast_shape = (-1, *[1] * (x.ndim - self.axis - 1))
        # add tap by tap for the whole tile; a matrix product, with mostly zero weights, would spread NaN
        part = _scratch_like(out)
        for index, (tap_indices, weight) in enumerate(zip(indices, weights, strict=True)):
            values = take_valid(x, tap_indices, self.axis, part if x.dtype == out.dtype else None)
            np.multiply(values, weight.reshape(broadcast_shape), out=part if index else out)
            if index:
                np.add(out, part, out=out)

    def _tile_indices(self, shape: Shape, itemsize: int) -> list[Index]:
        """Divide a result of ``shape`` into blocks of ``TILE_BYTES`` along the axes that are not resampled."""
        parts = [[slice(0, size)] for size in shape]
        nbytes = math.prod(shape) * itemsize
        for axis, size in enumerate(shape):
            if axis != self.axis and nbytes > TILE_BYTES:
                parts[axis] = even(size, TILE_BYTES * size // nbytes)
                nbytes = nbytes // size * longest(size, len(parts[axis]))
        return [*itertools.product(*parts)]

    def workspace(self, x: TensorType) -> int:
        result = self.infer(x)
        tile = max(
            [
                math.prod([part.stop - part.start for part in cut])
                for cut in self._tile_indices(result.shape, result.dtype.itemsize)
            ],
            default=0,
        )
        if self.method in NEAREST:
            return tile * result.dtype.itemsize
        return tile * result.dtype.itemsize * (1 if result.dtype == x.dtype else 2)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (ResampleGradient(*_options(self), x.shape[self.axis])(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Resample(self.axis + 1, *_options(self)[1:])(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return result.size * {"linear": 3, "cubic": 7}.get(self.method, 0)


class ResampleGradient(Operation):
    """Adjoint of resampling an axis of ``old`` elements.

    Each new element's gradient is distributed to the old elements from which it was computed.
    """

    axis: int
    length: int
    method: str
    coordinates: str
    step: float
    coefficient: float = -0.75
    old: int = 1
    linear = accumulates = True
    examples = (
        Example(real(2, 7), axis=1, length=7, method="linear", coordinates="half_pixel", step=4 / 7, old=4),
        Example(real(6, 4), axis=0, length=6, method="floor", coordinates="asymmetric", step=0.5, old=3),
    )

    def infer(self, g: TensorType) -> TensorType:
        _check(self, g)
        if not 0 <= self.axis < g.rank or g.shape[self.axis] != self.length or self.old < 1:
            raise self.refuse(
                (g,), f"axis {self.axis} must have the new length {self.length}, and the old one must be ≥ 1"
            )
        type_ = g.with_dtype(float_dtype(g.dtype))
        return type_.with_shape((*g.shape[: self.axis], self.old, *g.shape[self.axis + 1 :]))

    def kernel(self, out: Array, g: Array) -> Array:
        indices, weights = _taps(self.old, self.length, self.method, self.coordinates, self.step, self.coefficient)
        # at the ends, several taps may refer to one old element; plain indexing would add only the last weight
        matrix = np.zeros((self.old, self.length), out.dtype)
        np.add.at(matrix, (indices, np.arange(self.length)), weights.astype(out.dtype))
        axis_last = np.moveaxis(g.astype(out.dtype, copy=False), self.axis, -1)
        np.copyto(np.moveaxis(out, self.axis, -1), axis_last @ np.asarray(matrix.T, like=out))
        return out

    def workspace(self, g: TensorType) -> int:
        result = self.infer(g)
        return result.nbytes + g.size * result.dtype.itemsize + self.old * self.length * result.dtype.itemsize

    def gradient(self, upstream: Expr, y: Expr, g: Expr) -> tuple[Expr]:
        return (Resample(*_options(self))(upstream),)

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr) -> Expr:
        return ResampleGradient(self.axis + 1, *_options(self)[1:], self.old)(g)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[0].size * self.old


def _scratch_like(part: Array) -> Array:
    if not isinstance(part, np.ndarray):
        return np.empty_like(part)
    key = "resampled", part.shape, part.dtype
    return scratch(key, ((part.shape, part.dtype),), lambda memory: memory)


def _options(operation: Resample | ResampleGradient) -> tuple[int, int, str, str, float, float]:
    return (
        operation.axis,
        operation.length,
        operation.method,
        operation.coordinates,
        operation.step,
        operation.coefficient,
    )


def _check(operation: Resample | ResampleGradient, x: TensorType) -> None:
    if operation.method not in METHODS:
        raise operation.refuse((x,), f"the method must be one of {', '.join(METHODS)}, not {operation.method!r}")
    if operation.coordinates not in COORDINATES:
        raise operation.refuse(
            (x,), f"coordinates must be one of {', '.join(COORDINATES)}, not {operation.coordinates!r}"
        )
    if operation.length < 1 or not 0 < operation.step < math.inf:
        raise operation.refuse(
            (x,), f"the new length ({operation.length}) must be at least 1, and the step ({operation.step}) positive"
        )


@functools.lru_cache(maxsize=256)
def _taps(old: int, new: int, method: str, coordinates: str, step: float, coefficient: float) -> tuple[Array, Array]:
    index = np.arange(new)
    half = 0.5 if "half_pixel" in coordinates else 0.0
    if coordinates == "align_corners":
        # align the first and last elements; a single new element would give 0 / 0
        positions = index * ((old - 1) / (new - 1) if new > 1 else 0.0)
    elif coordinates == "asymmetric":
        positions = index * step
    else:
        # like PyTorch, align a single new element with the first old element, not with the centre
        positions = np.zeros(new) if coordinates == "pytorch_half_pixel" and new == 1 else (index + 0.5) * step - 0.5
    if method in NEAREST:
        shifted, rounds_up = _ROUNDING[method]
        positions = (positions + half).astype(np.float32) - half  # removes rounding errors from integer positions
        rounded = np.ceil(positions + shifted) if rounds_up else np.floor(positions + shifted)
        indices, weights = rounded[None], np.ones((1, new))
    else:
        first = np.floor(positions)
        t = positions - first
        if method == "linear":
            indices, weights = first + np.array([[0], [1]]), np.stack([1 - t, t])
        else:
            indices = first + np.array([[-1], [0], [1], [2]])
            weights = np.stack(cubic_weights(t, coefficient))
    indices = np.clip(indices, 0, old - 1).astype(np.intp)
    # the cached arrays are shared by all callers
    for array in (indices, weights):
        array.flags.writeable = False
    return indices, weights


def cubic_weights(t: T, a: float) -> list[T]:
    """Return the cubic-convolution weights of the four elements at −1, 0, 1 and 2, for a point at ``t`` in 0 … 1."""

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    point: Any = t
    return [far(point + 1), near(point), near(1 - point), far(2 - point)]


def _step(step: Any) -> float:
    if not isinstance(step, (int, float, np.integer, np.floating)):
        raise OperandError(f"resize: the step {step!r}", rule="a step must be a number", fix="steps=2.0")
    return float(step)


@public
@rounded_once
def resize(
    x: Any,
    size: int | tuple[int, ...],
    axes: int | tuple[int, ...] | None = None,
    *,
    method: str = "linear",
    coordinates: str = "half_pixel",
    steps: float | tuple[float, ...] | None = None,
    coefficient: float = -0.75,
) -> Expr:
    """Resize ``axes`` of ``x`` to the lengths ``size``; if ``axes`` is None, the last axes are resized.

    See ``Resample`` for the methods. ``steps`` are the distances between new elements in units of old elements, by
    default old length / new length.

    Rounding methods keep the dtype; other methods return floating elements. Raises OperandError if a size is below 1,
    an axis has no elements, or the method is unknown.

    >>> ex.evaluate(ex.resize(np.array([0.0, 1.0]), 4))
    array([0.  , 0.25, 0.75, 1.  ])
    >>> ex.evaluate(ex.resize(np.array([0.0, 1.0]), 4, method="floor", coordinates="asymmetric"))
    array([0., 0., 1., 1.])
    """
    (x,) = as_operands((x,))
    requested = size if isinstance(size, (tuple, list)) else (size,)
    sizes = [as_integer(length, "resize: a size") for length in requested]
    indices: tuple[int, ...] = tuple(range(x.ndim - len(sizes), x.ndim))
    if axes is not None:
        indices = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    if (
        len(indices) != len(sizes)
        or len(sizes) > x.ndim
        or len(normalize_axes(indices, x.ndim, "resize")) != len(sizes)
    ):
        raise OperandError(
            f"resize: {x.type} to {size!r} along {axes!r}",
            rule="there must be one size per axis",
            fix="size=(H, W) with axes=(−2, −1)",
        )
    distances: Any = [None] * len(sizes) if steps is None else steps
    distances = distances if isinstance(distances, (tuple, list)) else [distances]
    if len(distances) != len(sizes):
        raise OperandError(
            f"resize: steps {steps!r} for the sizes {size!r}",
            rule="there must be one step per axis",
            fix="omit steps, which are then computed from the sizes",
        )
    resamplings = [
        (axis % x.ndim, length, x.shape[axis] / max(length, 1) if step is None else _step(step))
        for axis, length, step in zip(indices, sizes, distances, strict=True)
    ]
    y: Expr = x
    # resample shrinking axes first, so that fewer elements remain for the other axes
    for axis, length, step in sorted(
        resamplings, key=lambda resampling: (resampling[1] > x.shape[resampling[0]], -resampling[0])
    ):
        if length != y.shape[axis] or step != 1:
            y = Resample(axis, length, method, coordinates, step, float(coefficient))(y)
    return y
