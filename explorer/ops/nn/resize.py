"""Resizing of images: each axis is resampled on its own, every new element a weighted sum of a few old ones.

Resampling axis by axis costs a few products per element, where a two-dimensional kernel costs their square; it is
linear, so its gradient is its adjoint.

The words are ONNX's (Resize, since opset 11): ``coordinates`` is its coordinate_transformation_mode, ``coefficient``
its cubic_coeff_a, and a rounding its nearest_mode. PNNX's F.interpolate and nn.Upsample are expressed in them.
Antialiasing (ONNX's antialias, opset 18) is not among them: its filters grow with the factor.
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
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, normalize_axes, whole
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
"""rounding of a position to the nearest element: the offset added, and whether to round up or down"""
NEAREST = tuple(_ROUNDING)
METHODS = (*NEAREST, "linear", "cubic")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


class Resample(Operation):
    """Resampling of one axis to another length; ``coordinates`` (ONNX's words) define positions of new elements.

    ``step`` is the distance of new elements in units of old ones. Methods: "linear", "cubic" (with its coefficient),
    and roundings to the nearest element. Beyond the ends the outermost elements are repeated.
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
        """Return for an axis of a length the positions of old elements, (taps, new length), and their weights."""
        return _taps(length, self.length, self.method, self.coordinates, self.step, self.coefficient)

    def kernel(self, out: Array, x: Array) -> Array:
        compute(self.tiles(out, None, x))
        return out

    def tiles(self, out: Array, prepared: None, x: Array) -> list[Tile]:
        places, weights = self.taps(x.shape[self.axis])
        places, weights = np.asarray(places, like=x), np.asarray(weights, out.dtype, like=out)
        # a device other than cpu computes the whole result at once
        cuts = self._cuts(out.shape, out.itemsize) if isinstance(out, np.ndarray) else [(slice(None),) * out.ndim]
        whole = slice(None)
        return [
            Tile(
                index,
                partial(
                    self._make, out[index], x[*index[: self.axis], whole, *index[self.axis + 1 :]], places, weights
                ),
            )
            for index in cuts
        ]

    def _make(self, out: Array, x: Array, places: Array, weights: Array) -> None:
        """Resample one tile."""
        # a method of one tap copies: no product, so that integers and NaN pass unchanged
        if len(places) == 1:
            # a result with gaps between its rows would be buffered
            if out.flags.c_contiguous:
                take_valid(x, places[0], self.axis, out)
            else:
                out[...] = take_valid(x, places[0], self.axis, None)
            return
        column = (-1, *[1] * (x.ndim - self.axis - 1))
        # tap by tap over the whole tile: a matrix product with mostly zero weights would spread a NaN everywhere
        part = _scratch_like(out)
        for index, (place, weight) in enumerate(zip(places, weights, strict=True)):
            taken = take_valid(x, place, self.axis, part if x.dtype == out.dtype else None)
            np.multiply(taken, weight.reshape(column), out=part if index else out)
            if index:
                np.add(out, part, out=out)

    def _cuts(self, shape: Shape, itemsize: int) -> list[Index]:
        """Cut a result into blocks of ``TILE_BYTES`` along the axes that are not resampled, the first ones first."""
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
                for cut in self._cuts(result.shape, result.dtype.itemsize)
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
    """Adjoint of resampling an axis of ``old`` elements: each new element's gradient goes to its old elements."""

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
        places, weights = _taps(self.old, self.length, self.method, self.coordinates, self.step, self.coefficient)
        # several taps may name one old element at the ends: add.at adds all of them, plain indexing only the last
        matrix = np.zeros((self.old, self.length), out.dtype)
        np.add.at(matrix, (places, np.arange(self.length)), weights.astype(out.dtype))
        moved = np.moveaxis(g.astype(out.dtype, copy=False), self.axis, -1)
        np.copyto(np.moveaxis(out, self.axis, -1), moved @ np.asarray(matrix.T, like=out))
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
    """Return scratch memory of an array's shape and dtype, on its device."""
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
    """Raise OperandError for attributes of no resampling."""
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
    between = 0.5 if "half_pixel" in coordinates else 0.0
    if coordinates == "align_corners":
        # ends on ends; a single element has no other end, and 0 / 0 is avoided
        where = index * ((old - 1) / (new - 1) if new > 1 else 0.0)
    elif coordinates == "asymmetric":
        where = index * step
    else:
        # torch puts a single new element at the first old one, not at the centre
        where = np.zeros(new) if coordinates == "pytorch_half_pixel" and new == 1 else (index + 0.5) * step - 0.5
    if method in NEAREST:
        moved, upwards = _ROUNDING[method]
        where = (where + between).astype(np.float32) - between  # removes rounding errors of whole positions
        rounded = np.ceil(where + moved) if upwards else np.floor(where + moved)
        places, weights = rounded[None], np.ones((1, new))
    else:
        first = np.floor(where)
        t = where - first
        if method == "linear":
            places, weights = first + np.array([[0], [1]]), np.stack([1 - t, t])
        else:
            places = first + np.array([[-1], [0], [1], [2]])
            weights = np.stack(cubic_weights(t, coefficient))
    # beyond the ends the outermost element is repeated
    places = np.clip(places, 0, old - 1).astype(np.intp)
    # the cache hands the same arrays to every caller
    for array in (places, weights):
        array.flags.writeable = False
    return places, weights


def cubic_weights(t: T, a: float) -> list[T]:
    """Return the weights of four elements at −1, 0, 1, 2 for a point at t in 0 … 1: cubic convolution."""

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
    """Resize axes of ``x``, the last ones for None, to other lengths; see ``Resample`` for the methods.

    ``steps`` are the distances of new elements in units of old ones; by default old length / new length.

    Rounding methods keep the dtype; the others give a floating one. Raises OperandError for a size below 1, an axis
    without elements, or an unknown method.

    >>> ex.evaluate(ex.resize(np.array([0.0, 1.0]), 4))
    array([0.  , 0.25, 0.75, 1.  ])
    >>> ex.evaluate(ex.resize(np.array([0.0, 1.0]), 4, method="floor", coordinates="asymmetric"))
    array([0., 0., 1., 1.])
    """
    (x,) = as_operands((x,))
    requested = size if isinstance(size, (tuple, list)) else (size,)
    sizes = [whole(length, "resize: a size") for length in requested]
    places: tuple[int, ...] = tuple(range(x.ndim - len(sizes), x.ndim))
    if axes is not None:
        places = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    if len(places) != len(sizes) or len(sizes) > x.ndim or len(normalize_axes(places, x.ndim, "resize")) != len(sizes):
        raise OperandError(
            f"resize: {x.type} to {size!r} along {axes!r}",
            rule="there must be one size for each axis",
            fix="size=(H, W) with axes=(−2, −1)",
        )
    distances: Any = [None] * len(sizes) if steps is None else steps
    distances = distances if isinstance(distances, (tuple, list)) else [distances]
    if len(distances) != len(sizes):
        raise OperandError(
            f"resize: steps {steps!r} for the sizes {size!r}",
            rule="there must be one step for each axis",
            fix="leave the steps out: they follow from the sizes",
        )
    jobs = [
        (axis % x.ndim, length, x.shape[axis] / max(length, 1) if step is None else _step(step))
        for axis, length, step in zip(places, sizes, distances, strict=True)
    ]
    y: Expr = x
    # axes that shrink first: the others then have fewer elements to resample
    for axis, length, step in sorted(jobs, key=lambda job: (job[1] > x.shape[job[0]], -job[0])):
        if length != y.shape[axis] or step != 1:
            y = Resample(axis, length, method, coordinates, step, float(coefficient))(y)
    return y
